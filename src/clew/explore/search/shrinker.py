"""Shrinking: remove actions from a path until every remaining one is needed to show the violation.

A candidate path is run from the initial state. Each action must be possible when its turn comes (its precondition,
`requires` and `max_calls`), and only the violation itself may end the run. A candidate that shows the same kind of
violation, perhaps earlier, replaces the path. A probe can only be the last action, because it is undone.

Segments are removed first, from half of the path down to single actions. Passes over single actions repeat until one
removes nothing. The result is 1-minimal: without any one of its actions the violation disappears. Candidates that the
state graph rules out are not run (`clew.explore.search.shrink_oracle`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from clew.explore.model.findings import findings_of
from clew.explore.model.invariants import Invariant, error_message, failure_of
from clew.explore.model.states import ID_LENGTH, Transition
from clew.explore.model.violations import ViolationKind
from clew.explore.model.world import World
from clew.explore.search.action_table import ActionTable
from clew.explore.search.shrink_oracle import Path, ShrinkOracle


class ReproducedPath(msgspec.Struct, frozen=True):
    """A path that showed a violation, with the transitions of that run."""

    path: Path
    transitions: tuple[Transition, ...]
    message: str


class TrialRun:
    """Runs paths from the initial state to see whether they show a violation."""

    def __init__(
        self,
        world: World,
        table: ActionTable,
        invariants: Sequence[Invariant],
        to_initial: Callable[[], None],
    ) -> None:
        self._world = world
        self._table = table
        self.rules = table.rules
        self.numbers = table.numbers
        self._invariants = {invariant.name: invariant for invariant in invariants}
        self._to_initial = to_initial

    def numbered(self, path: Sequence[Transition]) -> Path:
        """Return the numbers of the actions on a path."""
        return tuple(self.numbers[step.action_name] for step in path)

    def reproduce(self, path: Path, kind: ViolationKind) -> ReproducedPath | None:
        """Run a path up to the first violation of a kind. Return None if it shows none."""
        world = self._world
        self._to_initial()
        progress = self.rules.start
        source = world._observe().digest.hex()[:ID_LENGTH]
        transitions: list[Transition] = []
        message = self._violation(kind)
        if message is not None:
            return ReproducedPath((), (), message)
        for position, number in enumerate(path):
            if not (self.rules.allows(number, progress) and self._table.is_enabled(number, world)):
                return None
            action = self._table.actions[number]
            try:
                returned = action.run(world)
            except Exception as error:
                if kind != ViolationKind("action", action.name, type(error).__name__):
                    return None
                transitions.append(Transition(source, action.name, None, position + 1))
                return ReproducedPath(path[: position + 1], tuple(transitions), error_message(error))
            progress = self.rules.after(number, progress)
            target = source if action.probe else world._observe().digest.hex()[:ID_LENGTH]
            transitions.append(Transition(source, action.name, target, position + 1))
            source = target
            message = self._violation(kind)
            if kind.cause == "finding":
                message = next(
                    (each.message for each in findings_of(returned) if each.key == kind.name), None
                )
            if message is not None:
                return ReproducedPath(path[: position + 1], tuple(transitions), message)
            if action.probe:
                return None
        return None

    def _violation(self, kind: ViolationKind) -> str | None:
        """Return the message of a violation in the current state, or None."""
        if kind.cause == "invariant":
            return failure_of(self._invariants[kind.name], self._world)
        if kind.cause == "precondition":
            for failed in self._table.enabled(self._world)[1]:
                if failed.action == kind.name and type(failed.error).__name__ == kind.exception:
                    return error_message(failed.error)
        return None


def shrink(
    trial: TrialRun, first: ReproducedPath, kind: ViolationKind, oracle: ShrinkOracle | None = None
) -> ReproducedPath:
    """Return a 1-minimal path that shows a violation of the same kind."""
    best = first
    length = max(len(best.path) // 2, 1)
    while True:
        shorter = _one_pass(trial, best, kind, length, oracle)
        if shorter is not None:
            best = shorter
        elif length == 1:
            return best
        if shorter is None or length > 1:
            length = max(min(length // 2, len(best.path) // 2), 1)


def _one_pass(
    trial: TrialRun, reproduced: ReproducedPath, kind: ViolationKind, length: int, oracle: ShrinkOracle | None
) -> ReproducedPath | None:
    """Remove segments of a length, from the end to the beginning. Return None if all of them were needed."""
    best: ReproducedPath | None = None
    path = reproduced.path
    start = len(path) - length
    while start > -length:
        begin = max(start, 0)
        end = begin + length
        if path and not (oracle is not None and oracle.rules_out(path, begin, end)):
            found = trial.reproduce(path[:begin] + path[end:], kind)
            if found is not None:
                best, path = found, found.path
        start = min(start, len(path)) - length
    return best
