"""Explore every schedule and every fault of a workflow, up to a bound.

The world is the run and the systems that its nodes change. An agent explores it breadth first, so the first path to a
violation is a shortest one. Node bodies are executed for real.

Rules:

- Everything that a node changes outside must be in `systems`, which are rolled back with the run. A body that stores
  something elsewhere sees what other paths left behind.
- No result depends on time, the hash seed or the machine. A counterexample is a list of choices that can be repeated
  anywhere.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache, partial
from typing import Any, Unpack

from clew import display
from clew.errors import DefinitionError
from clew.explore.agent import Agent
from clew.explore.checking.faults import FaultPlan, checked_faults
from clew.explore.checking.guarantees import GUARANTEES, RunEnd, guarantee
from clew.explore.checking.narrative import Narrative, narrate
from clew.explore.checking.run_system import RunSystem
from clew.explore.model.actions import Action
from clew.explore.model.invariants import Invariant
from clew.explore.model.violations import Violation
from clew.explore.model.world import World
from clew.explore.reports.result import ExplorationResult
from clew.explore.search.strategies import BFS
from clew.graph import Graph
from clew.graph.names import nearest
from clew.runtime.settings import ScheduleOptions, Settings

_MAX_CHOICES = 2_000  # for all runs without faults together


class CheckOptions(ScheduleOptions, total=False):
    """The options of a check, and those of its engine."""

    faults: Iterable[str]
    max_faults: int
    systems: Mapping[str, Any] | None
    node_systems: Mapping[str, Iterable[str]] | None
    answers: Mapping[str, Iterable[Any]] | None
    max_steps: int | None
    max_run_steps: int
    partial_order_reduction: bool
    progress: bool


class ReplacedOptions(CheckOptions, total=False):
    """What a copy of a check can change."""

    graph: Graph
    values: Mapping[str, Any] | None
    invariants: Iterable[str | Invariant]


_KNOWN_OPTIONS = (*sorted(ReplacedOptions.__optional_keys__), *Settings.__struct_fields__)


class Check:
    """A check of a graph: run it, or replay its counterexamples. `check_graph` describes the arguments."""

    def __init__(
        self,
        graph: Graph,
        values: Mapping[str, Any] | None = None,
        invariants: Iterable[str | Invariant] = GUARANTEES,
        **options: Unpack[CheckOptions],
    ) -> None:
        if not isinstance(graph, Graph):
            raise DefinitionError(f"graph: expected a Graph, got {graph!r}")
        if values is not None and not isinstance(values, Mapping):
            raise DefinitionError(f"values: expected a mapping from names to values, got {values!r}")
        self.graph = graph
        self.values = dict(values or {})
        systems = options.get("systems")
        if systems is not None and not isinstance(systems, Mapping):
            raise DefinitionError(f'systems: expected {{"name": system}}, got {systems!r}')
        self.systems = dict(systems or {})
        if "run" in self.systems:
            raise DefinitionError("systems: the name 'run' is reserved for the run; choose another name")
        self._invariants = _checked_invariants(invariants)
        for name in options:
            if name not in _KNOWN_OPTIONS:
                raise DefinitionError(f"a check has no option {name!r}; {nearest(name, _KNOWN_OPTIONS)}")
        self._given: dict[str, Any] = {"max_faults": 1, "partial_order_reduction": True, **options}
        self._given["faults"] = checked_faults(options.get("faults", ("crash", "fail", "timeout")))
        self._options = {**self._given, "systems": tuple(self.systems)}
        self._max_steps = self._options.pop("max_steps", 100_000)
        self._progress = self._options.pop("progress", True)

    def replace(self, **options: Unpack[ReplacedOptions]) -> Check:
        """Return a copy of this check with other options, such as `faults`, `systems` or `max_steps`."""
        kept = {"graph": self.graph, "values": self.values, "invariants": self._invariants, **self._given}
        return Check(**{**kept, **options}) if options else self

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the invariants."""
        return tuple(each if isinstance(each, str) else each.name for each in self._invariants)

    def run(self) -> CheckResult:
        """Explore the graph, and replay each violation to describe it."""
        explored = self._explored()
        violations = explored.violations
        longest = max((len(violation.path) for violation in violations), default=0)
        if self._options["partial_order_reduction"] and longest > 1:
            # an order that the reduction left out may lead to the same violation sooner
            short = self._search(*self._world(reduce=False), longest - 1).violations
            explored.violations = violations = _shortest([*short, *violations])
        narratives = tuple(self.replay(each.actions).named(each.name) for each in violations)
        return CheckResult(self, explored, violations, narratives)

    def _explored(self) -> ExplorationResult:
        """Explore with the reduction for faults; without it if a node was found to fail without a fault.

        The place of such a failure matters, so the reduction does not apply (see `partial_order`).
        """
        world, invariants = self._world(self._options["partial_order_reduction"])
        run: RunSystem = world.systems["run"]
        explored = self._search(world, invariants, None)
        if run.has_failed_unprompted and not run.keeps_fault_orders:
            world, invariants = self._world(self._options["partial_order_reduction"], keeps_fault_orders=True)
            run = world.systems["run"]
            explored = self._search(world, invariants, None)
        if not explored.truncated:
            run.answers.check_matched()
        return explored

    def _search(self, world: World, invariants: list[Invariant], max_depth: int | None) -> ExplorationResult:
        return Agent(
            world,
            lambda world: self._offer(world, max_depth),
            invariants,
            strategy=BFS(),
            max_steps=self._max_steps,
            progress=self._progress,
        ).explore()

    def replay(self, choices: Iterable[str]) -> Narrative:
        """Make the choices from the beginning, and return what happened."""
        world, invariants = self._world(reduce=False)  # every choice can be replayed
        start = world.checkpoint("initial")
        try:
            return narrate(world, list(choices), invariants, self._offer)
        finally:
            world.rollback(start)

    def _world(self, reduce: bool, *, keeps_fault_orders: bool = False) -> tuple[World, list[Invariant]]:
        expected, failed_unprompted = self._expected_ends()
        invariants = [guarantee(i, expected) if isinstance(i, str) else i for i in self._invariants]
        only_ends = all(getattr(invariant.check, "at_end", False) for invariant in invariants)
        options = {**self._options, "partial_order_reduction": reduce and only_ends}
        run = RunSystem(self.graph, self.values, **options)
        run.keeps_fault_orders = keeps_fault_orders or failed_unprompted
        return World(systems={"run": run, **self.systems}), invariants

    def _expected_ends(self) -> tuple[dict[frozenset[tuple[str, str]], RunEnd], bool]:
        """Return how runs without faults end, by the answers given, and whether any node failed in one of them.

        Items are executed one at a time. The world is rolled back afterwards.
        """
        run = RunSystem(
            self.graph, self.values, **{**self._options, "faults": (), "partial_order_reduction": False}
        )
        world = World(systems={"run": run, **self.systems})
        start = world.checkpoint("initial")
        left = min(self._max_steps or _MAX_CHOICES, _MAX_CHOICES)
        found: dict[frozenset[tuple[str, str]], RunEnd] = {}

        def finish() -> None:
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
                finish()
                world.rollback(here)
            world.release(here)

        try:
            finish()
        finally:
            world.rollback(start)
            world.release(start)
        return found, run.has_failed_unprompted

    def _offer(self, world: Any, max_depth: int | None = None) -> list[Action]:
        """Return the actions of the current state: choices of the run, then faults."""
        run: RunSystem = world.systems["run"]
        if max_depth is not None and run.depth >= max_depth:
            return []
        trial = cache(partial(_trial, world))
        choices = run.offered(trial)
        return [_action(name) for name in choices + run.fault_choices(choices, trial)]


def _shortest(violations: Iterable[Violation]) -> list[Violation]:
    """Return the first violation with the shortest path of each kind."""
    found: dict[Any, Violation] = {}
    for violation in violations:
        known = found.get(violation.kind)
        if known is None or len(violation.path) < len(known.path):
            found[violation.kind] = violation
    return list(found.values())


def _trial(world: World, choice: str) -> FaultPlan:
    """Make a choice, roll it back, and return the points and operations that it reached."""
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
    """The result of a check: the exploration, and a narrative of each counterexample."""

    def __init__(
        self,
        check: Check,
        explored: ExplorationResult,
        violations: list[Violation],
        narratives: tuple[Narrative, ...],
    ) -> None:
        self.check = check
        self.explored = explored
        self.violations = violations
        """The violations, each with its shortest path."""
        self.narratives = narratives
        """The path to each violation as text, in the same order."""

    @property
    def ok(self) -> bool:
        """Return whether every state was explored and no invariant was violated."""
        return self.explored.ok and not self.explored.truncated

    @property
    def states(self) -> int:
        """Return the number of states."""
        return len(self.explored.graph.states)

    @property
    def transitions(self) -> int:
        """Return the number of choices that were tried."""
        return len(self.explored.transitions)

    @property
    def ends(self) -> dict[str, int]:
        """Return the number of final states by status: completed, failed, waiting."""
        graph = self.explored.graph
        last = [state for name, state in graph.states.items() if not graph.leaving(name)]
        seen = Counter(state["run"]["status"] for state in last)
        return {
            status: seen[status] for status in ("completed", "failed", "sleeping", "waiting") if seen[status]
        }

    @property
    def truncated(self) -> bool:
        """Return whether `max_steps` ended the exploration early."""
        return self.explored.truncated

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the counterexamples (.json, for `clew check --replay`) or a report of the exploration."""
        from clew.explore.checking.narrative import save

        save(self, path)

    def to_dict(self) -> dict[str, Any]:
        """Return the result as values that JSON can represent."""
        from clew.explore.checking.narrative import document

        return document(self)

    def __str__(self) -> str:
        counted = f"{self.states:,} states, {self.transitions:,} transitions"
        options = self.check._options
        faults = ", ".join(sorted(options["faults"])) or "none"
        bound = f"faults: {faults}; at most {options['max_faults']} on a path"
        ends = ", ".join(f"{many:,} {status}" for status, many in self.ends.items())
        bound += f"; ends: {ends or 'none'}"
        if self.truncated:
            counted += "; stopped at max_steps, not every state was explored"
        found = _count(len(self.violations))
        return "\n\n".join([f"{found} in {counted} ({bound})", *map(str, self.narratives)])

    def __repr__(self) -> str:
        found = _count(len(self.violations))
        return f"CheckResult({self.states} states, {self.transitions} transitions, {found})"

    def _repr_html_(self) -> str:
        heading, *narratives = str(self).split("\n\n", 1)
        verdict = "bad" if self.violations else "warn" if self.truncated else "good"
        return display.page(display.line(heading, verdict), *map(display.block, narratives))


def _count(violations: int) -> str:
    return f"{violations or 'no'} violation{'' if violations == 1 else 's'}"


def _checked_invariants(invariants: Any) -> list[str | Invariant]:
    expected = f"expected names ({', '.join(GUARANTEES)}) and Invariant(name, check)"
    if not isinstance(invariants, Iterable | Invariant):
        raise DefinitionError(f"invariants: {expected}, got {invariants!r}")
    given = [invariants] if isinstance(invariants, str | Invariant) else list(invariants)
    for each in given:
        if isinstance(each, str):
            guarantee(each, {})  # raises if the name is unknown
        elif not isinstance(each, Invariant):
            raise DefinitionError(f"invariants: {expected}, got {each!r}")
    return given


def check_graph(
    graph: Graph,
    values: Mapping[str, Any] | None = None,
    invariants: Iterable[str | Invariant] = GUARANTEES,
    **options: Unpack[CheckOptions],
) -> CheckResult:
    """Visit every schedule and every fault of a graph, and return the shortest counterexample of each kind.

    Args:
        graph: The graph to check.
        values: The input values of a run.
        invariants: Names of built-in guarantees ("schedule_independent", "resume_equivalent",
            "exactly_once_effects", "stable_idempotency_key", "terminates", "completes") and your own
            `Invariant(name, check)`. A check takes the world, whose `systems["run"]` is the `RunSystem`.
        **options: `faults` that can happen ("crash", "fail", "timeout", "store"; the default is the first three),
            `max_faults` (1 on one path), `systems` (that nodes change, by name; they are rolled back with the run),
            `node_systems` (the systems that each node uses), `answers` (to questions, by node or path), `max_steps`
            (100,000 choices), `max_run_steps` (1,000 steps; a longer run fails), `partial_order_reduction`,
            `progress`, and options of an `Engine`.
    """
    return Check(graph, values, invariants, **options).run()
