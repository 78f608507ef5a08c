"""State differences: the values that differ between two states, so that reports can show what a step changed."""

from __future__ import annotations

import json
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from clew.explore.model.state_graph import StateGraph
from clew.explore.model.states import State, Transition
from clew.state.values.codec import to_tree

if TYPE_CHECKING:
    from clew.explore.reports.result import ExplorationResult

ABSENT = object()

Change = tuple[str, str, str]  # path, before, after


def tree(state: State) -> dict[str, Any]:
    """Return a state as JSON data: the data of each system by name, and the context if it has values."""
    data: dict[str, Any] = {
        name: to_tree(observation.data) for name, observation in state.observations.items()
    }
    context = state.context
    if context:
        data["context"] = to_tree(context)
    return data


def step_changes(result: ExplorationResult, step: Transition) -> list[Change]:
    """Return what a transition changed, as far as the graph holds its states."""
    before = result.graph.get_state(step.from_state_id)
    after = None if step.to_state_id is None else result.graph.get_state(step.to_state_id)
    return [] if before is None or after is None else changes(result, before, after)


def unchanged(graph: StateGraph, step: Transition) -> str:
    """Return what a report says about a step that leads to no other state: a probe may have changed something."""
    action = graph.get_action(step.action_name)
    return "undone" if action is not None and action.probe else "no change"


def changes(result: ExplorationResult, before: State, after: State) -> list[Change]:
    """Return the values that differ as (path, before, after). A missing value is an empty string."""
    found: list[Change] = []
    _compare("", result.shown(before), result.shown(after), found)
    return found


def _compare(where: str, before: Any, after: Any, found: list[Change]) -> None:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in {**before, **after}:
            path = f"{where}.{key}" if where else str(key)
            _compare(path, before.get(key, ABSENT), after.get(key, ABSENT), found)
    elif isinstance(before, list) and isinstance(after, list):
        for index, (old, new) in enumerate(zip_longest(before, after, fillvalue=ABSENT)):
            _compare(f"{where}[{index}]", old, new, found)
    elif type(before) is not type(after) or before != after:
        found.append((where, one_line(before), one_line(after)))


def one_line(value: Any, width: int = 60) -> str:
    """Return JSON data as one line, cut to a width. A missing value is an empty string."""
    if value is ABSENT:
        return ""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= width else f"{text[: width - 1]}…"


def describe_change(change: Change) -> str:
    where, before, after = change
    if not before:
        return f"{where}: {after} (new)"
    if not after:
        return f"{where}: deleted (was {before})"
    return f"{where}: {before} → {after}"
