"""Shrinking: a path that still shows the violation, from which no action can be left out.

A path is tried by doing it from the initial state: each action must be possible where it comes (its precondition, its
`requires`, its `max_calls`), and only the violation itself may end the path. What still shows the same kind of
violation, perhaps earlier, is shorter and replaces the path.

Stretches are left out first, halving their length down to one action; passes over single actions are repeated until a
whole pass finds nothing. The result is 1-minimal: leaving out any one of its actions loses the violation. What the
explored graph knows to show nothing is not done (`foresight`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from clew.explore.model.invariants import Invariant, complaint, judge
from clew.explore.model.states import ID_LENGTH, Transition
from clew.explore.model.violations import ViolationKind
from clew.explore.model.world import World
from clew.explore.search.action_table import ActionTable
from clew.explore.search.shrink_oracle import Path, ShrinkOracle


class ReproducedPath(msgspec.Struct, frozen=True):
    """A path that shows a violation, as it went when it was done."""

    path: Path
    transitions: tuple[Transition, ...]
    message: str


class TrialRun:
    """Does paths from the initial state and looks for a violation of a kind."""

    def __init__(
        self,
        world: World,
        repertoire: ActionTable,
        invariants: Sequence[Invariant],
        to_initial: Callable[[], None],
    ) -> None:
        self._world = world
        self._repertoire = repertoire
        self.rules = repertoire.rules
        self.numbers = repertoire.numbers
        self._invariants = {invariant.name: invariant for invariant in invariants}
        self._to_initial = to_initial

    def numbered(self, path: Sequence[Transition]) -> Path:
        """A path as the numbers of its actions."""
        return tuple(self.numbers[step.action_name] for step in path)

    def shows(self, path: Path, kind: ViolationKind) -> ReproducedPath | None:
        """What is left of a path when it ends at the first violation of that kind; None if there is none."""
        world = self._world
        self._to_initial()
        progress = self.rules.start
        here = world.look().digest.hex()[:ID_LENGTH]
        done: list[Transition] = []
        message = self._wrong(kind)
        if message is not None:
            return ReproducedPath((), (), message)
        for position, number in enumerate(path):
            if not (self.rules.allows(number, progress) and self._repertoire.possible(number, world)):
                return None
            action = self._repertoire.actions[number]
            try:
                action.run(world)
            except Exception as error:
                if kind != ViolationKind("action", action.name, type(error).__name__):
                    return None
                done.append(Transition(here, action.name, None, position + 1))
                return ReproducedPath(path[: position + 1], tuple(done), complaint(error))
            progress = self.rules.after(number, progress)
            there = world.look().digest.hex()[:ID_LENGTH]
            done.append(Transition(here, action.name, there, position + 1))
            here = there
            message = self._wrong(kind)
            if message is not None:
                return ReproducedPath(path[: position + 1], tuple(done), message)
        return None

    def _wrong(self, kind: ViolationKind) -> str | None:
        if kind.cause == "invariant":
            return judge(self._invariants[kind.name], self._world)
        if kind.cause == "precondition":
            for refused in self._repertoire.offered(self._world)[1]:
                if refused.action == kind.name and type(refused.error).__name__ == kind.exception:
                    return complaint(refused.error)
        return None


def shrink(
    rehearsal: TrialRun, first: ReproducedPath, kind: ViolationKind, foresight: ShrinkOracle | None = None
) -> ReproducedPath:
    """The path that is left when nothing more can be left out."""
    best = first
    stretch = max(len(best.path) // 2, 1)
    while True:
        shorter = _one_pass(rehearsal, best, kind, stretch, foresight)
        if shorter is not None:
            best = shorter
        elif stretch == 1:
            return best
        if shorter is None or stretch > 1:
            stretch = max(min(stretch // 2, len(best.path) // 2), 1)


def _one_pass(
    rehearsal: TrialRun,
    shown: ReproducedPath,
    kind: ViolationKind,
    stretch: int,
    foresight: ShrinkOracle | None,
) -> ReproducedPath | None:
    """Leave out stretches from the end to the beginning; what is left, or None if all were needed."""
    best: ReproducedPath | None = None
    path = shown.path
    start = len(path) - stretch
    while start > -stretch:
        begin = max(start, 0)
        end = begin + stretch
        if path and not (foresight is not None and foresight.rules_out(path, begin, end)):
            found = rehearsal.shows(path[:begin] + path[end:], kind)
            if found is not None:
                best, path = found, found.path
        start = min(start, len(path)) - stretch
    return best
