"""Shrinking: remove actions from a path until every remaining one is needed to show the violation.

A candidate path is run from the initial state. Each action must be possible when its turn comes (its precondition,
`requires` and `max_calls`), and only the violation itself may end the run. A candidate that shows the same kind of
violation, perhaps earlier, replaces the path. A probe can only be the last action, because it is undone.

Segments are removed first, from half of the path down to single actions. Passes over single actions repeat until one
removes nothing. The result is 1-minimal: without any one of its actions the violation disappears.

Most shorter paths do not show the violation, and the state graph often knows that: each step of such a path was tried
in its state, and the violation occurred at none of them. Only paths that the graph cannot rule out are run. A pair of
state and action without a transition was never tried. If the exploration was exhaustive, the action is not possible
there, or raises. The prediction relies on the same assumption as the exploration: the effect of an action depends on
the state alone. Preconditions that raise are not predicted, because they are recorded only when a state is found first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from clew.explore.model.actions import PathRules, Progress
from clew.explore.model.invariants import Invariant, error_message, failure_of
from clew.explore.model.state_graph import StateGraph
from clew.explore.model.states import ID_LENGTH, Transition
from clew.explore.model.violations import ViolationGroup, ViolationKind, findings_of
from clew.explore.model.world import World
from clew.explore.search.action_table import ActionTable

Path = tuple[int, ...]
Successors = dict[tuple[str, int], str]


def successors_of(graph: StateGraph, numbers: Mapping[str, int]) -> Successors:
    """Return the next state for each pair of state and action that was tried."""
    return {
        (each.from_state_id, numbers[each.action_name]): each.to_state_id
        for each in graph.transitions
        if each.to_state_id is not None
    }


class ShrinkOracle:
    """Predicts whether a path shows violations of one kind."""

    def __init__(
        self,
        group: ViolationGroup,
        successors: Successors,
        start: str,
        rules: PathRules,
        numbers: Mapping[str, int],
        *,
        exhaustive: bool,
    ) -> None:
        self._successors = successors
        self._start = start
        self._rules = rules
        self._exhaustive = exhaustive  # all pairs that are possible were tried
        self._violating = {
            (state, numbers[action])
            for state, action in group.occurrences
            if state is not None and action is not None
        }
        self._can_predict = group.first.kind.cause != "precondition" and len(self._violating) == len(
            set(group.occurrences)
        )
        self._path: Path = ()
        self._positions: list[tuple[str, Progress]] = []  # before each action of the path, as far as known

    def rules_out(self, path: Path, begin: int, end: int) -> bool:
        """Return whether a path without its actions from `begin` to `end` is known not to show the violation."""
        if not self._can_predict:
            return False
        if path != self._path or not self._positions:
            self._path, self._positions = path, self._along(path)
        if begin >= len(self._positions):
            return False
        state, progress = self._positions[begin]
        rules, violating, successors = self._rules, self._violating, self._successors
        matter = rules.matter
        for number in path[end:]:
            if matter and not rules.allows(number, progress):
                return True
            pair = (state, number)
            if pair in violating:
                return False
            target = successors.get(pair)
            if target is None:
                return self._exhaustive
            state = target
            if matter:
                progress = rules.after(number, progress)
        return True

    def _along(self, path: Path) -> list[tuple[str, Progress]]:
        positions = [(self._start, self._rules.start)]
        for number in path:
            state, progress = positions[-1]
            target = self._successors.get((state, number))
            if target is None:
                break
            positions.append((target, self._rules.after(number, progress)))
        return positions


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
