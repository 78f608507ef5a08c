"""check_graph: every schedule and every fault of a workflow, up to a bound, on the machine that runs it.

The world is the run and whatever its nodes change outside; an agent explores it breadth first, so the first path to
a violation is a shortest one. Node bodies run for real. What they change has to be in `systems`, which are rolled
back with the run; a body that keeps something elsewhere would see the leftovers of other paths.

Nothing of the result depends on time, the hash seed or the machine, so a counterexample is a list of choices that
can be made again anywhere.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from clew.errors import DefinitionError
from clew.explore.agent import Agent
from clew.explore.checking.faults import FaultPlan, checked_faults
from clew.explore.checking.guarantees import PROMISES, RunEnd, promised
from clew.explore.checking.narrative import Narrative, tell
from clew.explore.checking.run_system import RunSystem
from clew.explore.model.actions import Action
from clew.explore.model.invariants import Invariant
from clew.explore.model.violations import Violation
from clew.explore.model.world import World
from clew.explore.reports.result import ExplorationResult
from clew.explore.search.strategies import BFS
from clew.graph import Graph

_LONGEST = 2_000  # choices until a run without faults should have ended


class Check:
    """A check of a graph that can be run, and whose counterexamples can be replayed; see `check_graph`."""

    def __init__(
        self,
        graph: Graph,
        values: Mapping[str, Any] | None = None,
        invariants: Iterable[str | Invariant] = PROMISES,
        *,
        faults: Iterable[str] = ("crash", "fail", "timeout"),
        max_faults: int = 1,
        systems: Mapping[str, Any] | None = None,
        touches: Mapping[str, Iterable[str]] | None = None,
        answers: Mapping[str, Iterable[Any]] | None = None,
        max_steps: int | None = 100_000,
        reduce: bool = True,
        progress: bool | None = None,
        **options: Any,
    ) -> None:
        if not isinstance(graph, Graph):
            raise DefinitionError(f"a check is of a Graph, not {graph!r}")
        if values is not None and not isinstance(values, Mapping):
            raise DefinitionError(f"values are given by name, as a mapping, not {values!r}")
        self.graph = graph
        self.values = dict(values or {})
        if systems is not None and not isinstance(systems, Mapping):
            raise DefinitionError(f'systems are {{"name": system}}, not {systems!r}')
        self.systems = dict(systems or {})
        if "run" in self.systems:
            raise DefinitionError("the system 'run' is the run itself; give yours another name")
        if not isinstance(invariants, Iterable | Invariant):
            raise DefinitionError(
                f"invariants are a list of names and Invariant(name, check), not {invariants!r}"
            )
        given = [invariants] if isinstance(invariants, str | Invariant) else list(invariants)
        for each in given:
            if not isinstance(each, str | Invariant):
                raise DefinitionError(
                    f"invariants are names ({', '.join(PROMISES)}) and Invariant(name, check), not {each!r}"
                )
        self._invariants = given
        self._max_steps = max_steps
        self._progress = progress
        self._options: dict[str, Any] = {
            "faults": checked_faults(faults),
            "max_faults": max_faults,
            "answers": answers,
            "touches": touches,
            "systems": tuple(self.systems),
            "reduce": reduce,
            **options,
        }
        for name in given:
            if isinstance(name, str):
                promised(name, {})  # says so if there is none

    def but(self, **options: Any) -> Check:
        """The same check with something else, such as `faults`, `systems` or `max_steps`."""
        if not options:
            return self
        known = {
            **self._options,
            "graph": self.graph,
            "values": self.values,
            "invariants": self._invariants,
            "max_steps": self._max_steps,
            "progress": self._progress,
            **options,
            "systems": options.get("systems", self.systems),
        }
        return Check(**known)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the invariants."""
        return tuple(each if isinstance(each, str) else each.name for each in self._invariants)

    def run(self) -> CheckResult:
        """Explore all of it."""
        explored = self._explored()
        violations = explored.violations
        longest = max((len(violation.path) for violation in violations), default=0)
        if self._options["reduce"] and longest > 1:  # an order that was left out may be shorter
            short = self._search(*self._world(reduce=False), longest - 1).violations
            explored.violations = violations = _shortest([*short, *violations])
        tales = tuple(self._told(violation) for violation in violations)
        return CheckResult(self, explored, violations, tales)

    def _explored(self) -> ExplorationResult:
        """All of it. That a fault may come at any time is no reason to try every order, unless something is found to
        fail by itself: then its place counts, and it is explored once more."""
        world, invariants = self._world(self._options["reduce"])
        run: RunSystem = world.systems["run"]
        explored = self._search(world, invariants, None)
        if run.has_stumbled and not run.is_wary:
            world, invariants = self._world(self._options["reduce"], is_wary=True)
            explored = self._search(world, invariants, None)
        return explored

    def _search(self, world: World, invariants: list[Invariant], deepest: int | None) -> ExplorationResult:
        return Agent(
            world,
            lambda world: self._offer(world, deepest),
            invariants,
            strategy=BFS(),
            max_steps=self._max_steps,
            progress=self._progress,
        ).explore()

    def replay(self, choices: Iterable[str]) -> Narrative:
        """Make choices from the beginning, and tell what happens."""
        world, invariants = self._world(reduce=False)  # whatever can be chosen
        start = world.checkpoint("initial")
        try:
            return tell(world, list(choices), invariants, self._offer)
        finally:
            world.rollback(start)

    def _told(self, violation: Violation) -> Narrative:
        tale = self.replay(violation.actions)
        return tale.named(violation.name)

    def _world(self, reduce: bool, *, is_wary: bool = False) -> tuple[World, list[Invariant]]:
        unbroken, has_stumbled = self._unbroken()
        invariants = [promised(i, unbroken) if isinstance(i, str) else i for i in self._invariants]
        only_ends = all(getattr(invariant.check, "at_end", False) for invariant in invariants)
        options = {**self._options, "reduce": reduce and only_ends}
        run = RunSystem(self.graph, self.values, **options)
        run.is_wary = is_wary or has_stumbled
        return World(systems={"run": run, **self.systems}), invariants

    def _unbroken(self) -> tuple[dict[frozenset[tuple[str, str]], RunEnd], bool]:
        """How runs without faults end, one item at a time, for whatever people answer, and whether anything failed by
        itself; nothing of them is left."""
        run = RunSystem(self.graph, self.values, **{**self._options, "faults": (), "reduce": False})
        world = World(systems={"run": run, **self.systems})
        start = world.checkpoint("initial")
        left = min(self._max_steps or _LONGEST, _LONGEST)
        found: dict[frozenset[tuple[str, str]], RunEnd] = {}

        def go_on() -> None:
            nonlocal left
            while left and (choices := run.choices()):
                asked = [choice for choice in choices if choice.startswith("answer ")]
                if asked:
                    answer_each([c for c in asked if c.partition(": ")[0] == asked[0].partition(": ")[0]])
                    return
                left -= 1
                run.choose(choices[0])
            if run.has_ended:
                found[frozenset(run.answered.items())] = RunEnd.of(run)

        def answer_each(answers: list[str]) -> None:
            nonlocal left
            here = world.checkpoint("asked")
            for answer in answers if left else ():
                left -= 1
                run.choose(answer)
                go_on()
                world.rollback(here)
            world.release(here)

        try:
            go_on()
        finally:
            world.rollback(start)
            world.release(start)
        return found, run.has_stumbled

    def _offer(self, world: Any, deepest: int | None = None) -> list[Action]:
        """What may happen where the world is: choices of the run, then faults."""
        run: RunSystem = world.systems["run"]
        if deepest is not None and run.depth >= deepest:
            return []
        trials: dict[str, FaultPlan] = {}

        def trial(choice: str) -> FaultPlan:
            if choice not in trials:
                trials[choice] = _trial(world, choice)
            return trials[choice]

        choices = run.offered(trial)
        return [_action(name) for name in choices + run.fault_choices(choices, trial)]


def _shortest(violations: Iterable[Violation]) -> list[Violation]:
    """Of each kind, the one with the shortest path; the first of them, if there are several."""
    found: dict[Any, Violation] = {}
    for violation in violations:
        known = found.get(violation.kind)
        if known is None or len(violation.path) < len(known.path):
            found[violation.kind] = violation
    return list(found.values())


def _trial(world: World, choice: str) -> FaultPlan:
    """What a choice would come by: it is made, and all of it is taken back."""
    run: RunSystem = world.systems["run"]
    here = world.checkpoint("trial")
    try:
        return run.try_out(choice)
    finally:
        world.rollback(here)
        world.release(here)


def _action(name: str) -> Action:
    return Action(name, lambda world: world.systems["run"].choose(name))


class CheckResult:
    """What a check found: the exploration, and each counterexample as a story."""

    def __init__(
        self,
        check: Check,
        explored: ExplorationResult,
        violations: list[Violation],
        tales: tuple[Narrative, ...],
    ) -> None:
        self.check = check
        self.explored = explored
        self.violations = violations
        """What is wrong, with the shortest path to each."""
        self.tales = tales

    @property
    def ok(self) -> bool:
        """Whether all of it was explored and nothing is wrong."""
        return self.explored.ok and not self.explored.truncated

    @property
    def states(self) -> int:
        """How many moments of the run there are."""
        return len(self.explored.graph.states)

    @property
    def transitions(self) -> int:
        """How many choices were tried."""
        return len(self.explored.transitions)

    @property
    def ends(self) -> dict[str, int]:
        """How many ends the run has, by status: completed, failed, waiting."""
        graph = self.explored.graph
        last = [state for name, state in graph.states.items() if not graph.leaving(name)]
        seen = Counter(state["run"]["status"] for state in last)
        return {status: seen[status] for status in ("completed", "failed", "waiting") if seen[status]}

    @property
    def truncated(self) -> bool:
        """Whether `max_steps` ended it early."""
        return self.explored.truncated

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the counterexamples (.json, for `clew check --replay`), or a report of the exploration."""
        from clew.explore.checking.counterexample_files import save

        save(self, path)

    def to_dict(self) -> dict[str, Any]:
        """The result as a tree of JSON."""
        from clew.explore.checking.counterexample_files import document

        return document(self)

    def __str__(self) -> str:
        counted = f"{self.states:,} states, {self.transitions:,} transitions"
        options = self.check._options
        faults = ", ".join(sorted(options["faults"])) or "none"
        bound = f"faults: {faults}; at most {options['max_faults']} on a path"
        ends = ", ".join(f"{many:,} {status}" for status, many in self.ends.items())
        bound += f"; ends: {ends or 'none'}"
        if self.truncated:
            counted += "; ended early, not all of it was explored"
        if not self.violations:
            return f"nothing wrong in {counted} ({bound})"
        return "\n\n".join([f"{len(self.violations)} wrong in {counted} ({bound})", *map(str, self.tales)])

    def __repr__(self) -> str:
        return (
            f"CheckResult({self.states} states, {self.transitions} transitions, {len(self.violations)} wrong)"
        )


def check_graph(
    graph: Graph,
    values: Mapping[str, Any] | None = None,
    invariants: Iterable[str | Invariant] = PROMISES,
    *,
    faults: Iterable[str] = ("crash", "fail", "timeout"),
    max_faults: int = 1,
    systems: Mapping[str, Any] | None = None,
    **more: Any,
) -> CheckResult:
    """Visit every schedule and every fault of a graph, and return the shortest counterexample of each kind.

    Args:
        graph: What is checked.
        values: What a run is given.
        invariants: Names of promises ("schedule", "resume", "effects_once", "same_key", "ends",
            "completes"), and your own
            `Invariant(name, check)`; a check takes the world, whose `systems["run"]` is the `RunSystem`.
        faults: Which may happen: "crash", "fail", "timeout", "store".
        max_faults: How many on one path.
        systems: What nodes change outside, by name; rolled back with the run.
        **more: `touches`, `answers`, `max_steps` (100,000 choices; a run that never ends would never be explored to
            the end), `max_run_steps` (1,000: a run with more goes round for ever), `reduce`, `progress`, and options
            of an `Engine`.
    """
    return Check(
        graph, values, invariants, faults=faults, max_faults=max_faults, systems=systems, **more
    ).run()
