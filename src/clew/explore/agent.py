"""The agent: explores a world, and leaves it as it was.

`explore` opens the journal, searches, settles what was found and puts everything back: all tokens are released and
the world is in its initial state, also when something failed. What cannot go on ends in `ExplorationAborted`, which
holds what was found so far.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from clew.errors import (
    ClewError,
    DefinitionError,
    DivergedError,
    ExplorationAborted,
    RollbackError,
)
from clew.explore.model.actions import Action
from clew.explore.model.invariants import Invariant
from clew.explore.model.world import ReplayPath, World
from clew.explore.progress import Watch, watching
from clew.explore.reports.result import ActionCoverage, Coverage, ExplorationResult
from clew.explore.search.action_table import ActionTable, Offer
from clew.explore.search.confirmation import settle
from clew.explore.search.journal import Journal
from clew.explore.search.loop import NOWHERE, Search
from clew.explore.search.shrinker import TrialRun
from clew.explore.search.strategies import BFS, Strategy

TICK_SECONDS = 0.2  # between two writes of the journal, and two updates of the display


class Agent:
    """Explores a world.

    Args:
        world: Where to act. It is in its initial state.
        actions: What may be done: a list; or a function of the world that returns what its present state offers.
        invariants: What must hold everywhere.
        strategy: In which order: `BFS()`, `DFS()`, `RandomWalk(seed)`, `CoverageGuided()`, `Weighted(seed)`.
        max_steps: How many actions are done at most; without, all there is is explored.
        store: A file, `postgresql://...` or a store: the exploration is journaled there, and `explore` goes on where a
            former one was killed; see `clew.explore.search.baseline` for what puts the systems back.
        name: Which exploration of the store it is.
        memory: How many bytes states and checkpoints may take in memory; see `clew.explore.search.checkpoints`.
        fail_fast: Stop at the first violation.
        progress: Show progress on the terminal; None: if standard error is one.
    """

    def __init__(
        self,
        world: World,
        actions: Iterable[Action] | Offer,
        invariants: Iterable[Invariant] = (),
        *,
        strategy: Strategy | type[Any] | None = None,
        max_steps: int | None = None,
        store: Any = None,
        name: str = "exploration",
        memory: int | None = None,
        fail_fast: bool = False,
        progress: bool | None = None,
    ) -> None:
        self.world = world
        self.actions: list[Action] | Offer = actions if callable(actions) else ActionTable(actions).actions
        self.invariants = _listed(invariants)
        made = strategy() if isinstance(strategy, type) else strategy
        self.strategy: Strategy = BFS() if made is None else made
        self.max_steps = max_steps
        self.store = store
        self.name = name
        self.memory = memory
        self.fail_fast = fail_fast
        self.progress = progress
        self._check()

    def _check(self) -> None:
        if not isinstance(self.world, World):
            raise DefinitionError(f"an agent explores a World, not {self.world!r}")
        for invariant in self.invariants:
            if not isinstance(invariant, Invariant):
                raise DefinitionError(f"invariants are Invariant(name, check), not {invariant!r}")
        if type(self.name) is not str:
            raise DefinitionError(f"name is a text, not {self.name!r}")
        names = [invariant.name for invariant in self.invariants]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise DefinitionError(f"two invariants are called {twice[0]!r}; give each a name of its own")
        if not callable(getattr(self.strategy, "start", None)):
            raise DefinitionError(
                f"{self.strategy!r} is no strategy; give BFS(), DFS(), RandomWalk(seed) or another"
            )
        for what, limit in (("max_steps", self.max_steps), ("memory", self.memory)):
            if limit is not None and (type(limit) is not int or limit < 0):
                raise DefinitionError(f"{what} is a number from 0, or None, not {limit!r}")

    def explore(self) -> ExplorationResult:
        """Explore; the world is as before when this returns or raises."""
        began = time.monotonic()
        repertoire = ActionTable(self.actions)
        journal = self._journal(repertoire)
        try:
            with watching(self.progress) as watch:
                search = self._search(repertoire, journal, watch)
                return self._explored(search, journal, began)
        finally:
            if journal is not None:
                journal.close()

    def _journal(self, repertoire: ActionTable) -> Journal | None:
        if self.store is None:
            return None
        from clew.stores.factory import open_table

        shelf = open_table(self.store, f"explore:{self.name}")
        return Journal(shelf, self.world, repertoire, self.invariants)

    def _search(self, repertoire: ActionTable, journal: Journal | None, watch: Watch) -> Search:
        return Search(
            self.world,
            repertoire,
            self.invariants,
            self.strategy,
            max_steps=self.max_steps,
            memory=self.memory,
            fail_fast=self.fail_fast,
            journal=journal,
            tick=_ticker(journal, watch),
        )

    def _explored(self, search: Search, journal: Journal | None, began: float) -> ExplorationResult:
        failure: ClewError | None = None
        self.world.be_led()
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
                    result = self._result(search, journal, began, self._rehearsal(search))
                    self._to_initial(search)
                except (RollbackError, DivergedError, ExplorationAborted) as error:
                    failure = error
            if failure is not None:
                result = self._result(search, journal, began, None, complete=False)
                raise ExplorationAborted(f"the exploration cannot go on: {failure}", result) from failure
            return result
        finally:
            self._put_back(search)

    def _rehearsal(self, search: Search) -> TrialRun:
        def to_initial() -> None:
            self._to_initial(search)
            search.here = NOWHERE

        return TrialRun(self.world, search.repertoire, self.invariants, to_initial)

    def _to_initial(self, search: Search) -> None:
        if search.here != 0:
            if not search.keeper.back(0):
                raise RollbackError("the initial checkpoint is not valid any more")
            search.here = 0

    def _result(
        self,
        search: Search,
        journal: Journal | None,
        began: float,
        rehearsal: TrialRun | None,
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
        everything = not search.truncated and not search.open
        violations = settle(search.findings, graph, rehearsal, everything=everything)
        return ExplorationResult(
            graph,
            violations,
            coverage,
            truncated=search.truncated or not complete,
            strategy=_name(self.strategy),
            seconds=time.monotonic() - began,
            invariants=tuple(invariant.name for invariant in self.invariants),
            recalled=0 if journal is None else journal.recalled,
            complete=complete,
        )

    def _put_back(self, search: Search) -> None:
        """Whatever happened: the initial state, if it can be had, and no tokens."""
        world = self.world
        try:
            self._to_initial(search)
        except ClewError:  # a poisoned world says so itself
            pass
        if search.here == 0 and search.journal is not None:
            search.journal.weigh_anchor()
        search.keeper.release_all()
        world.stand_at(None)
        if not search.states:
            return
        initial = search.states[0].digest
        world.stand_at(initial if search.here == 0 else None)
        graph = search.graph

        def guide(digest: bytes) -> ReplayPath | None:
            if digest == initial or digest.hex()[:16] not in graph.states:
                return None
            path = graph.get_path_to(digest.hex())
            return ReplayPath(initial, tuple(graph.actions[step.action_name] for step in path))

        world.consult(guide)


def _listed(invariants: Iterable[Invariant]) -> list[Invariant]:
    if not isinstance(invariants, Iterable):
        raise DefinitionError(f"invariants are a list of Invariant(name, check), not {invariants!r}")
    return list(invariants)


def _ticker(journal: Journal | None, watch: Watch) -> Any:
    """Called now and then: writes the journal, shows progress; says after how many steps it wants to be called."""
    last = [time.monotonic(), 0]

    def tick(search: Search) -> int:
        now, steps = time.monotonic(), search.steps
        if journal is not None:
            journal.flush()
        watch(search.progress)
        passed, done = now - last[0], steps - last[1]
        last[:] = now, steps
        if passed <= 0 or done <= 0:
            return 1
        return max(1, min(int(done * TICK_SECONDS / passed), 4 * int(done) + 1))

    return tick


def _name(strategy: Strategy) -> str:
    return (
        repr(strategy)
        if "(" in repr(strategy) and " object at " not in repr(strategy)
        else type(strategy).__name__
    )
