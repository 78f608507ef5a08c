"""Layout: positions of boxes and routes of arrows, from top to bottom.

This is a simple form of the layered method:

1. *Rows.* A box is below everything that points to it (longest path). A box without incoming arrows moves down to just
   above its targets. Boxes use the even rows; the odd rows contain the labels of arrows, so labels cover nothing.
2. *Order.* An arrow occupies a cell in each row that it passes. Sweeping down and up, cells are sorted by the mean
   position of their neighbours (barycentre); the order with the fewest crossings is used.
3. *Columns.* Sweeping again, each cell moves towards the mean of its neighbours as far as the order and the distances
   in its row allow. This least-squares problem has an exact solution (`_spread`).
4. *Back arrows* are ignored so far. They run along the right side, each in its own lane, shorter ones inside.

This module knows neither graphs nor SVG. It is deterministic: sums are exact (`fsum`), because the result of `sum`
depends on the version of Python.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import fsum

from clew.drawing.back_edges import BackEdge, LayoutRow, run_back_arrows
from clew.drawing.geometry import BoxShape, Rect, Route

LABEL_HEIGHT = 16.0
BOX_GAP = 30.0  # between two boxes of a row
PLACE_GAP = 16.0  # if one of two neighbours is an arrow or a label
ROW_GAP = 26.0
PORT_GAP = 18.0  # between two arrows at one side of a box


@dataclass(frozen=True)
class Edge:
    """An arrow to lay out; its label width is 0 without a label."""

    source: str
    target: str
    label_width: float
    back: bool


@dataclass(frozen=True)
class Layout:
    """The result. Routes are in the order of the edges."""

    width: float
    height: float
    boxes: Mapping[str, Rect]
    routes: tuple[Route, ...]


@dataclass(eq=False)
class _LayoutCell:
    """A box, or the place where an arrow passes a row."""

    row: int
    width: float
    height: float
    box: str | None = None
    x: float = 0.0
    above: list[_LayoutCell] = field(default_factory=list)
    below: list[_LayoutCell] = field(default_factory=list)
    goal: float | None = None

    def pull(self, other: _LayoutCell) -> float:
        """Return the weight of a neighbour; arrows that pass many rows should be straight."""
        return (1.0 if self.box else 3.0) * (1.0 if other.box else 3.0)


def lay_out(shapes: Mapping[str, BoxShape], edges: Sequence[Edge]) -> Layout:
    """Place boxes of these shapes and route the edges. Without the back edges there must be no cycle."""
    forward = [edge for edge in edges if not edge.back]
    row_of = _rows(shapes, forward)
    places = {key: _LayoutCell(row_of[key], shape.width, shape.height, key) for key, shape in shapes.items()}
    chains = [_chain(edge, places) for edge in forward]
    rows: list[list[_LayoutCell]] = [[] for _ in range(max(row_of.values()) + 1)]
    for place in [*places.values(), *(place for chain in chains for place in chain[1:-1])]:
        rows[place.row].append(place)
    rows = _order(rows)
    _set_columns(rows, chains)
    lines = _lines(rows)
    boxes = {
        key: Rect(place.x, (lines[place.row].top + lines[place.row].bottom) / 2, *shapes[key])
        for key, place in places.items()
    }
    backward = [BackEdge(edge.source, edge.target, edge.label_width) for edge in edges if edge.back]
    runs, lanes = iter(_run(chains, boxes, lines)), run_back_arrows(backward, boxes, lines, row_of)
    returns = iter(lanes[0])
    routes = tuple(next(returns if edge.back else runs) for edge in edges)
    width = max(lanes[1], *(right for line in lines for right in line.rights))
    lowest = [y for route in routes for piece in route.pieces for _, y in piece]
    return Layout(width, max([lines[-1].bottom, *lowest]), boxes, routes)


# -- rows ---------------------------------------------------------------------------------------------------


def _rows(keys: Mapping[str, object], edges: Sequence[Edge]) -> dict[str, int]:
    targets: dict[str, list[str]] = {key: [] for key in keys}
    waiting = dict.fromkeys(keys, 0)
    for edge in edges:
        targets[edge.source].append(edge.target)
        waiting[edge.target] += 1
    roots = [key for key in keys if not waiting[key]]
    row = dict.fromkeys(keys, 0)
    ready = list(roots)
    for key in ready:  # grows while it is read
        for target in targets[key]:
            row[target] = max(row[target], row[key] + 2)
            waiting[target] -= 1
            if not waiting[target]:
                ready.append(target)
    for key in roots:
        if targets[key]:
            row[key] = min(row[target] for target in targets[key]) - 2
    return row


def _chain(edge: Edge, places: Mapping[str, _LayoutCell]) -> list[_LayoutCell]:
    """Return the cells of an edge, from box to box. Its label is in the first row below its source."""
    source, target = places[edge.source], places[edge.target]
    chain = [source]
    for row in range(source.row + 1, target.row):
        labelled = row == source.row + 1 and edge.label_width > 0
        chain.append(
            _LayoutCell(row, edge.label_width if labelled else 0.0, LABEL_HEIGHT if labelled else 0.0)
        )
    chain.append(target)
    for upper, lower in pairwise(chain):
        upper.below.append(lower)
        lower.above.append(upper)
    return chain


def _lines(rows: Sequence[Sequence[_LayoutCell]]) -> list[LayoutRow]:
    """Return the rows with their heights, after moving the leftmost cell to x = 0."""
    left = min(place.x - place.width / 2 for row in rows for place in row)
    lines, top = [], 0.0
    for row in rows:
        for place in row:
            place.x -= left
        bottom = top + max((place.height for place in row), default=0.0)
        lines.append(LayoutRow(top, bottom, [place.x + place.width / 2 for place in row]))
        top = bottom + ROW_GAP
    return lines


# -- order --------------------------------------------------------------------------------------------------


def _order(rows: list[list[_LayoutCell]]) -> list[list[_LayoutCell]]:
    best, fewest = rows, _crossings(rows)
    # Many sweeps for drawings of readable size; few for huge ones, so that they finish.
    sweeps = max(2, min(24, 100_000 // sum(map(len, rows))))
    for sweep in range(sweeps):
        if not fewest:
            break
        down = sweep % 2 == 0
        rows = list(rows)
        for i in range(1, len(rows)) if down else range(len(rows) - 2, -1, -1):
            rows[i] = _sorted_by_mean(rows[i], rows[i - 1 if down else i + 1], down)
        crossings = _crossings(rows)
        if crossings < fewest:
            best, fewest = rows, crossings
    return best


def _sorted_by_mean(row: list[_LayoutCell], fixed: list[_LayoutCell], down: bool) -> list[_LayoutCell]:
    position = {id(place): i for i, place in enumerate(fixed)}
    keyed = []
    for i, place in enumerate(row):
        neighbours = place.above if down else place.below
        mean = fsum(position[id(n)] for n in neighbours) / len(neighbours) if neighbours else float(i)
        keyed.append((mean, i))
    return [row[i] for _, i in sorted(keyed)]


def _crossings(rows: Sequence[Sequence[_LayoutCell]]) -> int:
    count = 0
    for upper, lower in pairwise(rows):
        position = {id(place): i for i, place in enumerate(lower)}
        seen: list[int] = []
        for place in upper:
            ends = sorted(position[id(other)] for other in place.below)
            for end in ends:
                count += len(seen) - bisect_left(seen, end + 1)
            for end in ends:
                insort(seen, end)
    return count


# -- columns ------------------------------------------------------------------------------------------------


def _set_columns(rows: Sequence[Sequence[_LayoutCell]], chains: Sequence[Sequence[_LayoutCell]]) -> None:
    for row in rows:
        _spread(row, [0.0] * len(row), [1.0] * len(row))
    for above, below in [(True, False), (False, True)] * 4 + [(True, True)] * 4:
        for row in rows if above else reversed(rows):
            _pull(row, above, below)
    # Neighbours alone straighten a long arrow slowly, so pull it towards its own mean, except next to its
    # boxes, where it would bend at a right angle.
    long = [chain[2:-2] for chain in chains if len(chain) > 5]
    for sweep in range(12):
        for places in long:
            mean = fsum(place.x for place in places) / len(places)
            for place in places:
                place.goal = mean
        for row in rows if sweep % 2 else reversed(rows):
            _pull(row, True, True)


def _pull(row: Sequence[_LayoutCell], above: bool, below: bool) -> None:
    """Move each cell of a row towards its goal, or towards the weighted mean of its neighbours."""
    wanted, weights = [], []
    for place in row:
        near = (place.above if above else []) + (place.below if below else [])
        pulls = [(n.x, place.pull(n)) for n in near] if place.goal is None else [(place.goal, 9.0)]
        weight = fsum(strength for _, strength in pulls)
        wanted.append(fsum(x * strength for x, strength in pulls) / weight if weight else place.x)
        weights.append(weight or 0.1)
    _spread(row, wanted, weights)


def _spread(row: Sequence[_LayoutCell], wanted: Sequence[float], weights: Sequence[float]) -> None:
    """Move each cell as close to its wanted position as order and distances allow, by least squares.

    Relative to a tightly packed row, positions must increase from left to right, so neighbours that would pass each
    other share their mean (pool adjacent violators).
    """
    packed = [0.0]
    for left, right in pairwise(row):
        gap = BOX_GAP if left.box and right.box else PLACE_GAP
        packed.append(packed[-1] + (left.width + right.width) / 2 + gap)
    pools: list[tuple[float, float, int]] = []  # mean, weight, number of places
    for i in range(len(row)):
        mean, weight, number = wanted[i] - packed[i], weights[i], 1
        while pools and pools[-1][0] > mean:
            before, its_weight, its_number = pools.pop()
            mean = (mean * weight + before * its_weight) / (weight + its_weight)
            weight, number = weight + its_weight, number + its_number
        pools.append((mean, weight, number))
    means = [mean for mean, _, number in pools for _ in range(number)]
    for place, mean, offset in zip(row, means, packed, strict=True):
        place.x = mean + offset


# -- forward arrows -----------------------------------------------------------------------------------------


def _run(
    chains: Sequence[Sequence[_LayoutCell]], boxes: Mapping[str, Rect], lines: Sequence[LayoutRow]
) -> list[Route]:
    starts, ends = _ports(chains, 0, 1), _ports(chains, -1, -2)
    routes = []
    for chain, start, end in zip(chains, starts, ends, strict=True):
        source, target = boxes[chain[0].box or ""], boxes[chain[-1].box or ""]
        pieces = [[(source.x + start, source.y + source.depth_at(start))]]
        label = None
        for place in chain[1:-1]:
            line = lines[place.row]
            middle = (line.top + line.bottom) / 2
            if place.height:  # the arrow stops above its label and continues below it
                label = (place.x, middle)
                pieces[-1].append((place.x, line.top))
                pieces.append([(place.x, line.bottom)])
            elif place.row % 2:
                pieces[-1].append((place.x, middle))
            else:
                pieces[-1] += [(place.x, line.top), (place.x, line.bottom)]  # straight down between two boxes
        pieces[-1].append((target.x + end, target.y - target.depth_at(end)))
        routes.append(Route(tuple(map(tuple, pieces)), label, curved=True))
    return routes


def _ports(chains: Sequence[Sequence[_LayoutCell]], end: int, next_to_end: int) -> list[float]:
    """Return the offset from the centre at which each chain enters or leaves its box, in left-to-right order."""
    meeting: dict[str, list[int]] = {}
    for number, chain in enumerate(chains):
        meeting.setdefault(chain[end].box or "", []).append(number)
    ports = [0.0] * len(chains)
    for numbers in meeting.values():
        numbers.sort(key=lambda number: chains[number][next_to_end].x)
        room = max(0.0, chains[numbers[0]][end].width - 32)
        gap = min(PORT_GAP, room / max(1, len(numbers) - 1))
        for i, number in enumerate(numbers):
            ports[number] = (i - (len(numbers) - 1) / 2) * gap
    return ports
