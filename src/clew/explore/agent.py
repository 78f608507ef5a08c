"""The agent: explore a world and leave it in its initial state.

`explore` opens the journal, searches, confirms the violations, rolls the world back to its initial state and releases
all tokens, also after an error. If the exploration cannot continue, it raises `ExplorationAborted` with the results so
far.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from math import inf
from typing import Any

from clew.errors import ClewError, DefinitionError, DivergedError, ExplorationAborted, RollbackError
from clew.explore.model.actions import Action
from clew.explore.model.invariants import Invariant
from clew.explore.model.world import ReplayPath, World
from clew.explore.progress import Watch, watching
from clew.explore.reports.result import ActionCoverage, Coverage, ExplorationResult
from clew.explore.search.action_table import ActionTable, Offer
from clew.explore.search.baseline import mark_midway
from clew.explore.search.confirmation import confirm
from clew.explore.search.journal import Journal
from clew.explore.search.loop import UNKNOWN, Search
from clew.explore.search.shrinker import TrialRun
from clew.explore.search.strategies import BFS, Strategy
from clew.explore.systems.http.session import CookieWatch

SEARCH_SHARE = 0.7  # of `within`; the rest is for confirmation
TICK_SECONDS = 0.2  # between two writes of the journal, and two updates of the progress line


class Agent:
    """Explores a world.

    Args:
        world: The world, in its initial state.
        actions: A list of actions, or a function of the world that returns the actions of its current state.
        invariants: The rules that must hold in every state.
        strategy: The search order: `BFS()` (default), `DFS()`, `RandomWalk(seed)`, `CoverageGuided()` or
            `Weighted(seed)`.
        max_steps: Maximum number of actions to run. Without it the exploration is exhaustive.
        within: Maximum number of seconds, confirmation included. At most 70 % of them are used to search; violations
            that the rest does not suffice to confirm are reported as unconfirmed.
        store: Where to record progress: a file, a `postgresql://` URL or a store. `explore` resumes an interrupted
            exploration from it; see `clew.explore.search.baseline` for how the systems are restored.
        name: Name of the exploration in the store.
        memory_limit: Maximum number of bytes for states and checkpoints in memory; see
            `clew.explore.search.checkpoints`.
        fail_fast: Stop at the first violation.
        progress: Show progress, if standard error is a terminal or in a notebook.
    """

    def __init__(
        self,
        world: World,
        actions: Iterable[Action] | Offer,
        invariants: Iterable[Invariant] = (),
        *,
        strategy: Strategy | type[Any] | None = None,
        max_steps: int | None = None,
        within: float | None = None,
        store: Any = None,
        name: str = "exploration",
        memory_limit: int | None = None,
        fail_fast: bool = False,
        progress: bool = True,
    ) -> None:
        self.world = world
        self.actions: list[Action] | Offer = actions if callable(actions) else ActionTable(actions).actions
        self.invariants = _listed(invariants)
        instance = strategy() if isinstance(strategy, type) else strategy
        self.strategy: Strategy = BFS() if instance is None else instance
        self.max_steps = max_steps
        self.within = within
        self._clock: Callable[[], float] = time.monotonic  # of `within`
        self.store = store
        self.name = name
        self.memory_limit = memory_limit
        self.fail_fast = fail_fast
        self.progress = progress
        self._check()

    def _check(self) -> None:
        if not isinstance(self.world, World):
            raise DefinitionError(f"world must be a World, got {self.world!r}")
        for invariant in self.invariants:
            if not isinstance(invariant, Invariant):
                raise DefinitionError(
                    f"expected an Invariant, got {invariant!r}; write Invariant(name, check)"
                )
        if type(self.name) is not str:
            raise DefinitionError(f"name must be a string, got {self.name!r}")
        names = [invariant.name for invariant in self.invariants]
        duplicates = [name for name in names if names.count(name) > 1]
        if duplicates:
            raise DefinitionError(f"two invariants are called {duplicates[0]!r}; give each a unique name")
        if not callable(getattr(self.strategy, "start", None)):
            raise DefinitionError(
                f"expected a strategy such as BFS(), DFS() or RandomWalk(seed), got {self.strategy!r}"
            )
        for option, limit in (("max_steps", self.max_steps), ("memory_limit", self.memory_limit)):
            if limit is not None and (type(limit) is not int or limit < 0):
                raise DefinitionError(f"{option} must be an int >= 0 or None, got {limit!r}")

        if self.within is not None and (type(self.within) not in (int, float) or not 0 < self.within < inf):
            raise DefinitionError(f"within must be a number of seconds > 0 or None, got {self.within!r}")

    def explore(self) -> ExplorationResult:
        """Explore. The world is in its initial state again when this returns or raises."""
        began = time.monotonic()
        self._deadline = None if self.within is None else self._clock() + self.within
        table = ActionTable(self.actions)
        journal = self._journal(table)
        jar = CookieWatch(self.world)
        try:
            with watching(self.progress) as watch:
                search = Search(
                    self.world,
                    table,
                    self.invariants,
                    self.strategy,
                    max_steps=self.max_steps,
                    memory_limit=self.memory_limit,
                    fail_fast=self.fail_fast,
                    journal=journal,
                    tick=_ticker(journal, watch, jar),
                    out_of_time=self._later_than(SEARCH_SHARE),
                )
                return self._explored(search, journal, began)
        finally:
            if journal is not None:
                journal.close()

    def _later_than(self, share: float) -> Callable[[], bool] | None:
        """Return a function that tells whether a share of the time has passed; None without a limit."""
        if self._deadline is None or self.within is None:
            return None
        end, clock = self._deadline - self.within * (1 - share), self._clock
        return lambda: clock() >= end

    def _journal(self, table: ActionTable) -> Journal | None:
        if self.store is None:
            return None
        from clew.stores.factory import open_table

        opened = open_table(self.store, f"explore:{self.name}")
        return Journal(opened, self.world, table, self.invariants)

    def _explored(self, search: Search, journal: Journal | None, began: float) -> ExplorationResult:
        failure: ClewError | None = None
        self.world._stop_recording_paths()
        try:
            try:
                search.run()
            except (RollbackError, DivergedError, ExplorationAborted) as error:
                failure = error
            finally:
                if journal is not None:
                    journal.flush()
            if failure is None:
                try:
                    result = self._result(search, journal, began, self._trial(search))
                    self._to_initial(search)
                except (RollbackError, DivergedError, ExplorationAborted) as error:
                    failure = error
            if failure is not None:
                result = self._result(search, journal, began, None, complete=False)
                raise ExplorationAborted(f"the exploration was aborted: {failure}", result) from failure
            return result
        finally:
            self._restore_world(search)

    def _trial(self, search: Search) -> TrialRun:
        def to_initial() -> None:
            self._to_initial(search)
            search.here = UNKNOWN

        return TrialRun(self.world, search.table, self.invariants, to_initial)

    def _to_initial(self, search: Search) -> None:
        if search.here != 0:
            if not search.checkpoints.restore(0):
                raise RollbackError("the initial checkpoint is no longer valid")
            search.here = 0

    def _result(
        self,
        search: Search,
        journal: Journal | None,
        began: float,
        trial: TrialRun | None,
        complete: bool = True,
    ) -> ExplorationResult:
        graph = search.graph
        for state in search.states:
            graph.add_state(state)
        for action in search.actions:
            graph.add_action(action)
        coverage = Coverage(
            {
                action.name: ActionCoverage(search.tried[number], search.raised[number])
                for number, action in enumerate(search.actions)
            },
            search.open,
        )
        exhaustive = not search.truncated and not search.open
        violations = confirm(
            search.violations, graph, trial, exhaustive=exhaustive, out_of_time=self._later_than(1.0)
        )
        return ExplorationResult(
            graph,
            violations,
            coverage,
            truncated=search.truncated or not complete,
            strategy=_name(self.strategy),
            seconds=time.monotonic() - began,
            invariants=tuple(invariant.name for invariant in self.invariants),
            resumed_transitions=0 if journal is None else journal.resumed_transitions,
            complete=complete,
        )

    def _restore_world(self, search: Search) -> None:
        """Roll back to the initial state, if possible, and release all tokens."""
        world = self.world
        try:
            self._to_initial(search)
        except ClewError:  # a poisoned world reports this on its next use
            pass
        if search.here == 0:
            mark_midway(world, False)
            if search.journal is not None:
                search.journal.delete_baseline()
        search.checkpoints.release_all()
        world._start_recording_paths(None)
        if not search.states:
            return
        initial = search.states[0].digest
        world._start_recording_paths(initial if search.here == 0 else None)
        graph = search.graph

        def lookup(digest: bytes) -> ReplayPath | None:
            if digest == initial or digest.hex()[:16] not in graph.states:
                return None
            path = graph.get_path_to(digest.hex())
            return ReplayPath(initial, tuple(graph.actions[step.action_name] for step in path))

        world._use_paths(lookup)


def _listed(invariants: Iterable[Invariant]) -> list[Invariant]:
    if not isinstance(invariants, Iterable):
        raise DefinitionError(f"invariants must be a list of Invariant(name, check), got {invariants!r}")
    return list(invariants)


def _ticker(journal: Journal | None, watch: Watch, jar: CookieWatch) -> Any:
    """Return a function that writes the journal, shows progress, and returns after how many steps to call it again."""
    last = [time.monotonic(), 0]

    def tick(search: Search) -> int:
        now, steps = time.monotonic(), search.steps
        if journal is not None:
            journal.flush()
        watch(search.progress)
        jar.check()
        passed, done = now - last[0], steps - last[1]
        last[:] = now, steps
        if passed <= 0 or done <= 0:
            return 1
        return max(1, min(int(done * TICK_SECONDS / passed), 4 * int(done) + 1))

    return tick


def _name(strategy: Strategy) -> str:
    text = repr(strategy)
    return text if "(" in text and " object at " not in text else type(strategy).__name__
