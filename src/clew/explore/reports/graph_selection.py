"""Graph selection: which part of a state graph is drawn.

A small graph is drawn completely. Of a large graph, the drawing shows the paths of violations and adjacent states, or
the states near the initial one if there are no violations, up to a readable number of boxes. The report states how much
is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from clew.explore.model.states import Transition
    from clew.explore.reports.result import ExplorationResult

STATES = 40
ARROWS = 140

Pair = tuple[str, str]


class TransitionArrow(msgspec.Struct, frozen=True):
    """All transitions from one state to another. `paths` are the numbers of the violations on whose path it is."""

    source: str
    target: str
    actions: tuple[str, ...]
    paths: tuple[int, ...] = ()


class Selection(msgspec.Struct, frozen=True):
    """The boxes to draw with their distance from the initial state, the arrows, and how much is left out.

    The key of a box is the id of its state, or ``raised:N`` for the exception of violation N.
    """

    depths: dict[str, int]
    arrows: tuple[TransitionArrow, ...]
    loops: dict[str, tuple[str, ...]]  # actions that lead from a state to itself
    left_out_states: int
    left_out_arrows: int
    raised: dict[str, str]  # the exceptions in the boxes of actions that raised


def select(result: ExplorationResult) -> Selection:
    """Select the part of the state graph to draw."""
    paths = {n: violation.path for n, violation in enumerate(result.violations)}
    depths, raised = _chosen(result, paths), {}
    on_path: dict[Pair, list[int]] = {}
    for number, path in paths.items():
        for step in path:
            target = step.to_state_id or f"raised:{number}"
            if step.to_state_id is None:
                depths[target] = depths.get(step.from_state_id, 0) + 1
                raised[target] = result.violations[number].kind.exception
            if number not in on_path.setdefault((step.from_state_id, target), []):
                on_path[step.from_state_id, target].append(number)
    joined, loops = _joined(result, paths, depths)
    ranked = sorted(joined, key=lambda pair: (pair not in on_path, depths[pair[1]] <= depths[pair[0]]))
    kept = set(ranked[: max(ARROWS, len(on_path))])
    arrows = tuple(
        TransitionArrow(source, target, tuple(actions), tuple(on_path.get((source, target), ())))
        for (source, target), actions in joined.items()
        if (source, target) in kept
    )
    states = result.graph.states
    missing = len(states) - sum(key in states for key in depths)
    return Selection(depths, arrows, loops, missing, len(joined) - len(kept), raised)


def _chosen(result: ExplorationResult, paths: dict[int, list[Transition]]) -> dict[str, int]:
    graph = result.graph
    distance: dict[str, int] = {}
    for step in graph.walk():
        before = step.before
        distance.setdefault(step.state_id, 0 if before is None else distance[before.state_id] + 1)
    for path in paths.values():  # a shrunk path may contain states that the exploration did not reach
        for number, transition in enumerate(path):
            distance.setdefault(transition.from_state_id, number)
            if transition.to_state_id is not None:
                distance.setdefault(transition.to_state_id, number + 1)
    if len(distance) <= STATES:
        return distance
    chosen: dict[str, None] = {} if graph.initial_id is None else {graph.initial_id: None}
    for path in paths.values():
        for transition in path:
            if len(chosen) < 2 * STATES:
                chosen[transition.from_state_id] = None
                if transition.to_state_id is not None:
                    chosen[transition.to_state_id] = None
    for key in list(chosen):
        for transition in graph.leaving(key):
            if len(chosen) < STATES and transition.to_state_id is not None:
                chosen[transition.to_state_id] = None
    if not paths:
        chosen |= dict.fromkeys(list(distance)[: STATES - len(chosen)])
    return {key: distance[key] for key in chosen}


def _joined(
    result: ExplorationResult, paths: dict[int, list[Transition]], depths: dict[str, int]
) -> tuple[dict[Pair, list[str]], dict[str, tuple[str, ...]]]:
    joined: dict[Pair, list[str]] = {}
    loops: dict[str, list[str]] = {}
    steps = [(t, t.to_state_id or "") for key in depths for t in result.graph.leaving(key)]
    steps += [(t, t.to_state_id or f"raised:{n}") for n, path in paths.items() for t in path]
    for transition, target in steps:
        source = transition.from_state_id
        if source not in depths or target not in depths:
            continue
        names = loops.setdefault(source, []) if source == target else joined.setdefault((source, target), [])
        if transition.action_name not in names:
            names.append(transition.action_name)
    return joined, {key: tuple(names) for key, names in loops.items()}
