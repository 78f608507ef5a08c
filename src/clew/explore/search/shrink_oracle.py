"""Foresight: what the explored graph says of a path, without doing it.

Shrinking asks of many shorter paths whether they still show a violation. Nearly all do not, and of most of them the
graph knows that already: each of their steps was tried in the state that it starts from, and the violation was seen
at none of them. Only what the graph cannot answer is done in the world, and what it says *yes* to is done as well.

A pair of state and action without a transition was never tried; where everything was explored it is not possible there,
or raises. That what an action does follows from the state is what the exploration itself relies on.

What it does not cover: preconditions that raise. They are noted where a state was found first, not on every way to it.
"""

from __future__ import annotations

from collections.abc import Mapping

from clew.explore.model.actions import PathRules, Progress
from clew.explore.model.state_graph import StateGraph
from clew.explore.model.violations import ViolationGroup

Path = tuple[int, ...]
Leads = dict[tuple[str, int], str]
Place = tuple[str, Progress]


def leads_of(graph: StateGraph, numbers: Mapping[str, int]) -> Leads:
    """Where each action leads in each state in which it was tried."""
    return {
        (each.from_state_id, numbers[each.action_name]): each.to_state_id
        for each in graph.transitions
        if each.to_state_id is not None
    }


class ShrinkOracle:
    """What is known of the paths on which one kind of violation was looked for."""

    def __init__(
        self,
        found: ViolationGroup,
        leads: Leads,
        start: str,
        rules: PathRules,
        numbers: Mapping[str, int],
        *,
        everything: bool,
    ) -> None:
        self._leads = leads
        self._start = start
        self._rules = rules
        self._everything = everything  # all pairs that are possible were tried
        self._wrong = {
            (state, numbers[action])
            for state, action in found.occurrences
            if state is not None and action is not None
        }
        self._can_say = found.kind.cause != "precondition" and len(self._wrong) == len(set(found.occurrences))
        self._path: Path = ()
        self._places: list[Place] = []  # where the path stands before each of its actions, as far as is known

    def rules_out(self, path: Path, begin: int, end: int) -> bool:
        """Whether a path without the actions from `begin` to `end` is known not to show the violation."""
        if not self._can_say:
            return False
        if path != self._path or not self._places:
            self._path, self._places = path, self._along(path)
        if begin >= len(self._places):
            return False
        state, progress = self._places[begin]
        rules, wrong, leads = self._rules, self._wrong, self._leads
        matter = rules.matter
        for number in path[end:]:
            if matter and not rules.allows(number, progress):
                return True
            pair = (state, number)
            if pair in wrong:
                return False
            there = leads.get(pair)
            if there is None:
                return self._everything
            state = there
            if matter:
                progress = rules.after(number, progress)
        return True

    def _along(self, path: Path) -> list[Place]:
        places = [(self._start, self._rules.start)]
        for number in path:
            state, progress = places[-1]
            there = self._leads.get((state, number))
            if there is None:
                break
            places.append((there, self._rules.after(number, progress)))
        return places
