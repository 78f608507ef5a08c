"""The state graph as a picture for `clew.drawing`: the paths of violations are red.

A small graph is drawn completely. Of a large graph, the picture shows the paths of violations and adjacent states, or
the states near the initial one if there are no violations, up to a readable number of boxes and arrows. The report
states how much is left out. The label of a box is the number of its state and how it differs from the initial one; its
note has the id and the data.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import msgspec

from clew.drawing.diagram import Arrow, Box, BoxKind, Picture, label_text
from clew.explore.reports.state_diff import changes, one_line

if TYPE_CHECKING:
    from clew.explore.model.states import State
    from clew.explore.reports.result import ExplorationResult

STATES = 40
ARROWS = 100
BACK_ARROWS = 12  # each of them takes a lane at the side of the drawing
DATA = 34  # characters of data in a box
LABEL = 26
DETAIL = 2_000  # characters of data in a note
MANY_ARROWS = 70  # above this number only the paths of violations have labels

Pair = tuple[str, str]


class StatePicture(msgspec.Struct, frozen=True):
    """A picture, and the number of states, and of arrows between the drawn states, that it leaves out."""

    picture: Picture
    left_out_states: int
    left_out_arrows: int


def state_picture(result: ExplorationResult, *, complete: bool = False) -> StatePicture:
    """Return the picture of a state graph, or of its readable part unless `complete`."""
    depths = distances(result)
    if len(depths) > STATES and not complete:
        depths = {key: depths[key] for key in _chosen(result, depths)}
    on_path: dict[Pair, int] = {}
    for number, violation in enumerate(result.violations):
        for step in violation.path:
            target = step.to_state_id or f"raised:{number}"
            depths.setdefault(target, depths.get(step.from_state_id, 0) + 1)
            on_path.setdefault((step.from_state_id, target), number)
    joined = _joined(result, depths)
    arrows = list(joined) if complete else _readable(joined, on_path, depths)
    keys = {key: f"s{number}" for number, key in enumerate(depths)}
    labelled = len(arrows) <= MANY_ARROWS or complete
    drawn = tuple(
        Arrow(
            keys[source],
            keys[target],
            "violation" if (source, target) in on_path else "data",
            _cut(", ".join(joined[source, target]), LABEL) if labelled or (source, target) in on_path else "",
            depths[target] <= depths[source],
        )
        for source, target in arrows
    )
    numbers = state_numbers(result)
    boxes = tuple(
        _box(result, key, name, numbers.get(key, -1), joined.get((key, key), []))
        for key, name in keys.items()
    )
    missing = len(result.graph.states) - sum(key in result.graph.states for key in depths)
    return StatePicture(Picture("", boxes, drawn), missing, len(joined) - len(arrows))


def state_numbers(result: ExplorationResult) -> dict[str, int]:
    """Return the number of each state, in order of discovery."""
    return {key: number for number, key in enumerate(result.graph.states)}


def distances(result: ExplorationResult) -> dict[str, int]:
    """Return the distance of each state from the initial one, the nearest first."""
    distance: dict[str, int] = {}
    for step in result.graph.walk():
        before = step.before
        distance.setdefault(step.state_id, 0 if before is None else distance[before.state_id] + 1)
    for violation in result.violations:  # a shrunk path may contain states that the exploration did not reach
        for number, transition in enumerate(violation.path):
            distance.setdefault(transition.from_state_id, number)
            if transition.to_state_id is not None:
                distance.setdefault(transition.to_state_id, number + 1)
    return distance


def _chosen(result: ExplorationResult, distance: dict[str, int]) -> list[str]:
    """Return the states of a large graph to draw: those of paths and next to them, or near the initial one."""
    chosen: dict[str, None] = dict.fromkeys([*distance][:1])
    for transition in (transition for violation in result.violations for transition in violation.path):
        if len(chosen) < 2 * STATES:
            chosen |= dict.fromkeys(filter(None, (transition.from_state_id, transition.to_state_id)))
    near = [each.to_state_id for key in chosen for each in result.graph.leaving(key)]
    for key in filter(None, near if result.violations else distance):
        if len(chosen) < STATES:
            chosen[key] = None
    return list(chosen)


def _joined(result: ExplorationResult, depths: dict[str, int]) -> dict[Pair, list[str]]:
    """Return the names of the actions that lead from one drawn box to another."""
    joined: dict[Pair, list[str]] = {}
    steps = [(each, each.to_state_id or "") for key in depths for each in result.graph.leaving(key)]
    for number, violation in enumerate(result.violations):
        steps += [(each, each.to_state_id or f"raised:{number}") for each in violation.path]
    for transition, target in steps:
        if transition.from_state_id in depths and target in depths:
            names = joined.setdefault((transition.from_state_id, target), [])
            if transition.action_name not in names:
                names.append(transition.action_name)
    return joined


def _readable(joined: dict[Pair, list[str]], on_path: dict[Pair, int], depths: dict[str, int]) -> list[Pair]:
    """Return the arrows to draw: all of paths, most that lead further, few that lead back, none to itself."""
    others = [pair for pair in joined if pair not in on_path and pair[0] != pair[1]]
    further = [pair for pair in others if depths[pair[1]] > depths[pair[0]]][: max(ARROWS - len(on_path), 0)]
    back = [pair for pair in others if depths[pair[1]] <= depths[pair[0]]][:BACK_ARROWS]
    kept = {*on_path, *further, *back}
    return [pair for pair in joined if pair in kept]


def _box(result: ExplorationResult, key: str, name: str, number: int, loops: list[str]) -> Box:
    state = result.graph.states.get(key)
    if key.startswith("raised:"):
        violation = result.violations[int(key.removeprefix("raised:"))]
        return Box(name, "violation", label_text(f"raised {violation.kind.exception}"), violation.title)
    if state is None:
        return Box(name, "node", key, "not explored")
    data = _cut(json.dumps(result.shown(state), indent=1, ensure_ascii=False), DETAIL)
    note = [f"state {key}", data, *([f"to itself: {', '.join(loops)}"] if loops else [])]
    label = f"S{number}{f' ↺{len(loops)}' if loops else ''} {_summary(result, state)}"
    violated = any(each.path and each.state_id == key for each in result.violations)
    kind: BoxKind = "violation" if violated else "input" if key == result.graph.initial_id else "node"
    return Box(name, kind, label_text(label), "\n".join(map(label_text, "\n".join(note).split("\n"))))


def _summary(result: ExplorationResult, state: State) -> str:
    """Return a short description of a state: how it differs from the initial one."""
    if state == result.initial:
        shown = result.shown(state)
        return one_line(next(iter(shown.values())) if len(shown) == 1 else shown, DATA)
    words = []
    for where, _, after in changes(result, result.initial, state):
        name = where.rpartition(".")[2]  # the note shows the full path
        words.append(f"{name}={after}" if after else f"no {name}")
    return _cut(", ".join(words) or "same as S0", DATA)


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"
