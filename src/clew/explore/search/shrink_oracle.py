"""The shrink oracle: predict from the state graph whether a path shows a violation, without running it.

Shrinking tries many shorter paths, and most of them do not show the violation. The graph often knows that already: each
step of such a path was tried in its state, and the violation occurred at none of them. Only paths that the graph cannot
rule out are run in the world.

A pair of state and action without a transition was never tried. If the exploration was exhaustive, the action is not
possible there, or raises. The prediction relies on the same assumption as the exploration: the effect of an action
depends on the state alone.

Preconditions that raise are not predicted, because they are recorded only when a state is found first.
"""

from __future__ import annotations

from collections.abc import Mapping

from clew.explore.model.actions import PathRules, Progress
from clew.explore.model.state_graph import StateGraph
from clew.explore.model.violations import ViolationGroup

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
