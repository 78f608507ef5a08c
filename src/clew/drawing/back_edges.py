"""Back edges: routes the arrows that close a loop along the right side of a drawing.

A back arrow leaves its box to the right, follows its own lane and enters the target from the right. If another box of
the row is in the way, it leaves through the bottom, or enters through the top, and passes the row in the gap next to
it. A lane is further right than everything in the rows that it passes. Arrows that span few rows use the inner lanes,
so loops nest and do not cross.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from clew.drawing.geometry import Point, Rect, Route

LANE_GAP = 20.0
SIDE_GAP = 12.0  # between two arrows at the right side of a box
CHANNEL = 8.0  # between a row and the first arrow that passes it
CHANNEL_GAP = 5.0
LABEL_HALF = 9.0  # half of the height of a label on a lane
SELF_REACH = 18.0  # width of an arrow from a box to itself


class BackEdge(NamedTuple):
    """A back arrow: its boxes, and the width of its label (0 without a label)."""

    source: str
    target: str
    label_width: float


class LayoutRow(NamedTuple):
    """A row of the layout: its position, and the right edge of each of its cells."""

    top: float
    bottom: float
    rights: Sequence[float]


@dataclass(frozen=True)
class _Lane:
    x: float
    right: float
    first: int
    last: int


def run_back_arrows(
    arrows: Sequence[BackEdge],
    boxes: Mapping[str, Rect],
    rows: Sequence[LayoutRow],
    row_of: Mapping[str, int],
) -> tuple[list[Route], float]:
    """Return the routes of the arrows, in their order, and the largest x that they reach."""
    order = sorted(range(len(arrows)), key=lambda i: (_span(arrows[i], row_of), i))
    lanes: dict[int, _Lane] = {}
    for i in order:
        lanes[i] = _lane(arrows[i], rows, row_of, list(lanes.values()))
    exits, entries = _side_ports(arrows, boxes, rows, row_of, order)
    below = _channels([(row_of[arrows[i].source], i) for i in order if i not in exits])
    above = _channels([(row_of[arrows[i].target], i) for i in order if i not in entries])
    routes = []
    for i, arrow in enumerate(arrows):
        source, target, lane = boxes[arrow.source], boxes[arrow.target], lanes[i]
        if i in exits:
            start = _to_the_right(source, exits[i], lane.x)
        else:
            start = _around(source, rows[row_of[arrow.source]].bottom, 1, below[i], lane.x)
        if i in entries:
            end = _to_the_right(target, entries[i], lane.x)
        else:
            end = _around(target, rows[row_of[arrow.target]].top, -1, above[i], lane.x)
        routes.append(_route(start, end, lane.x, arrow))
    return routes, max((lane.right for lane in lanes.values()), default=0.0)


def _span(arrow: BackEdge, row_of: Mapping[str, int]) -> int:
    return abs(row_of[arrow.source] - row_of[arrow.target])


def _lane(
    arrow: BackEdge, rows: Sequence[LayoutRow], row_of: Mapping[str, int], taken: Sequence[_Lane]
) -> _Lane:
    first, last = sorted((row_of[arrow.source], row_of[arrow.target]))
    edges = [right for row in rows[first : last + 1] for right in row.rights]
    edges += [lane.right for lane in taken if lane.first <= last and first <= lane.last]
    if arrow.source == arrow.target:  # too short to carry its label, which goes to its right
        x = max(edges) + SELF_REACH
        return _Lane(x, x + 6 + arrow.label_width, first, last)
    x = max(edges) + LANE_GAP + arrow.label_width / 2
    return _Lane(x, x + arrow.label_width / 2, first, last)


def _side_ports(
    arrows: Sequence[BackEdge],
    boxes: Mapping[str, Rect],
    rows: Sequence[LayoutRow],
    row_of: Mapping[str, int],
    order: Sequence[int],
) -> tuple[dict[int, float], dict[int, float]]:
    """Return the offsets from the middle at which arrows leave and enter the right side of a box, if nothing is in the
    way.

    Entries are above exits, and inner lanes are nearer to the middle, so arrows of one box do not cross.
    """
    exits: dict[int, float] = {}
    entries: dict[int, float] = {}
    for key, box in boxes.items():
        if max(rows[row_of[key]].rights) > box.right:
            continue
        entering = [i for i in reversed(order) if arrows[i].target == key]
        leaving = [i for i in order if arrows[i].source == key]
        number = len(entering) + len(leaving)
        gap = min(SIDE_GAP, (box.height - 12) / max(1, number - 1))
        ports = [(i - (number - 1) / 2) * gap for i in range(number)]
        entries.update(zip(entering, ports, strict=False))
        exits.update(zip(leaving, ports[len(entering) :], strict=True))
    return exits, entries


def _channels(passing: Sequence[tuple[int, int]]) -> dict[int, int]:
    """Return the number of each arrow among those that pass the same row, counted from the inside."""
    used: dict[int, int] = {}
    channels = {}
    for row, i in passing:
        channels[i] = used.get(row, 0)
        used[row] = channels[i] + 1
    return channels


def _to_the_right(box: Rect, port: float, lane: float) -> list[Point]:
    return [(box.x + box.breadth_at(port), box.y + port), (lane, box.y + port)]


def _around(box: Rect, edge: float, side: int, channel: int, lane: float) -> list[Point]:
    """Return the points from the box, below (side 1) or above it (-1), through the gap next to its row, to the lane."""
    across = max((box.width - box.slant) / 2 - SIDE_GAP * (1 + min(channel, 2)), 6.0)
    passing = edge + side * (CHANNEL + CHANNEL_GAP * min(channel, 2))
    return [(box.x + across, box.y + side * box.depth_at(across)), (box.x + across, passing), (lane, passing)]


def _route(start: list[Point], end: list[Point], lane: float, arrow: BackEdge) -> Route:
    back = end[::-1]
    if not arrow.label_width:
        return Route(((*start, *back),), None, curved=False)
    middle = (start[-1][1] + back[0][1]) / 2
    if arrow.source == arrow.target:
        return Route(((*start, *back),), (lane + 6 + arrow.label_width / 2, middle), curved=False)
    toward = LABEL_HALF if start[-1][1] > middle else -LABEL_HALF
    pieces = ((*start, (lane, middle + toward)), ((lane, middle - toward), *back))
    return Route(pieces, (lane, middle), curved=False)
