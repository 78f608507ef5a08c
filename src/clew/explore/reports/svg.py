"""The state graph as SVG: layers by distance from the initial state, the paths of violations in red.

`clew.drawing.layout` places the arrows to states further away. Arrows that lead back or sideways are faint arcs, so
that they do not hide the others; selecting a state highlights its arcs. The names of an arrow's actions are its tooltip
and, if there is room, its label.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING

from clew.drawing.geometry import BoxShape, Point, Rect, Route
from clew.drawing.layout import Edge, Layout, lay_out
from clew.explore.reports.graph_selection import Selection, TransitionArrow
from clew.explore.reports.state_diff import changes, one_line, tree

if TYPE_CHECKING:
    from clew.explore.model.states import State
    from clew.explore.reports.result import ExplorationResult

MARGIN = 20.0
CHARACTER = 6.7  # width of a character at 11px
DATA = 34  # characters of data in a box
LABEL = 26
MANY_ARROWS = 70  # above this number only the paths of violations have labels


def drawing(result: ExplorationResult, selection: Selection) -> str:
    """Return the selected part of the state graph as an SVG document."""
    if not selection.depths:  # the exploration failed before the initial state
        return '<svg xmlns="http://www.w3.org/2000/svg" class="states" width="1" height="1"></svg>'
    titles = _titles(result, selection)
    shapes = {key: BoxShape(max(map(len, lines)) * CHARACTER + 26, 44.0) for key, lines in titles.items()}
    forward = [
        arrow for arrow in selection.arrows if selection.depths[arrow.target] > selection.depths[arrow.source]
    ]
    labels = [_label(arrow, len(selection.arrows)) for arrow in forward]
    edges = [
        Edge(arrow.source, arrow.target, len(label) * CHARACTER + 8 if label else 0.0, False)
        for arrow, label in zip(forward, labels)
    ]
    layout = lay_out(shapes, edges)
    sideways = [arrow for arrow in selection.arrows if arrow not in forward]
    width, height = layout.width + 2 * MARGIN + (70 if sideways else 0), layout.height + 2 * MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="states" role="img" aria-label="the state graph" '
        f'style="min-width:{0.55 * width:.0f}px;max-width:{width:.0f}px" viewBox="0 0 {width:.0f} {height:.0f}">',
        f'<g transform="translate({MARGIN:.0f} {MARGIN:.0f})">',
        *(_arc(arrow, layout) for arrow in sideways),
        *(
            line
            for arrow, label, route in zip(forward, labels, layout.routes)
            for line in _forward_arrow(arrow, label, route)
        ),
        *(
            line
            for key, lines in titles.items()
            for line in _box(key, lines, layout.boxes[key], result, selection)
        ),
        "</g>",
        "</svg>",
    ]
    return "\n".join(lines)


def numbers(result: ExplorationResult) -> dict[str, int]:
    """Return the number of each state, in order of discovery."""
    return {key: number for number, key in enumerate(result.graph.states)}


def _titles(result: ExplorationResult, selection: Selection) -> dict[str, tuple[str, str]]:
    order, titles = numbers(result), {}
    for key in selection.depths:
        state = result.graph.states.get(key)
        if key in selection.raised:
            titles[key] = ("raised", selection.raised[key])
        elif state is None:
            titles[key] = (key, "not explored")
        else:
            loops = len(selection.loops.get(key, ()))
            titles[key] = (f"S{order[key]}{f'  ↺{loops}' if loops else ''}", _summary(result, state))
    return titles


def _summary(result: ExplorationResult, state: State) -> str:
    """Return a short description of a state: how it differs from the initial one."""
    alone = len(state.parts) == 1 and len(state.context_data) <= 2
    if state == result.initial:
        shown = tree(state)
        return one_line(next(iter(shown.values()), {}) if alone else shown, DATA)
    words = []
    for where, _, after in changes(result.initial, state):
        name = where.rpartition(".")[2]  # the details show the full path
        words.append(f"{name}={after}" if after else f"no {name}")
    text = ", ".join(words) or "same as S0"
    return text if len(text) <= DATA else f"{text[: DATA - 1]}…"


def _label(arrow: TransitionArrow, arrows: int) -> str:
    if arrows > MANY_ARROWS and not arrow.paths:
        return ""
    text = ", ".join(arrow.actions)
    return text if len(text) <= LABEL else f"{text[: LABEL - 1]}…"


def _forward_arrow(arrow: TransitionArrow, label: str, route: Route) -> Iterator[str]:
    tip = route.pieces[-1][-1]
    pieces = [*route.pieces[:-1], (*route.pieces[-1][:-1], (tip[0], tip[1] - 6))]
    yield f"<g {_marks(arrow)}><title>{escape(', '.join(arrow.actions))}</title>"
    yield f'<path class="line" d="{"".join(_curve(piece) for piece in pieces)}"/>'
    yield f'<path class="tip" d="M{tip[0]:.1f} {tip[1]:.1f}l-4 -8h8z"/>'
    if label and route.label is not None:
        yield f'<text class="name" x="{route.label[0]:.1f}" y="{route.label[1]:.1f}" dy=".34em">{escape(label)}</text>'
    yield "</g>"


def _curve(points: tuple[Point, ...]) -> str:
    """Return a curve from point to point that is vertical at each of them."""
    path = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    for (x0, y0), (x1, y1) in pairwise(points):
        middle = (y0 + y1) / 2
        path += f"C{x0:.1f} {middle:.1f} {x1:.1f} {middle:.1f} {x1:.1f} {y1:.1f}"
    return path


def _arc(arrow: TransitionArrow, layout: Layout) -> str:
    """Return an arrow that leads back or sideways, as an arc between the sides of two boxes."""
    source, target = layout.boxes[arrow.source], layout.boxes[arrow.target]
    right = target.x >= source.x
    x0, x1 = (source.right, target.right) if right else (source.left, target.left)
    out = max(x0, x1) + 46 if right else min(x0, x1) - 46
    y0, y1 = source.y - 6, target.y + 6
    path = f"M{x0:.1f} {y0:.1f}C{out:.1f} {y0:.1f} {out:.1f} {y1:.1f} {x1:.1f} {y1:.1f}"
    wing = 7 if right else -7
    return (
        f'<g {_marks(arrow, "back")}><title>{escape(", ".join(arrow.actions))}</title><path class="line" d="{path}"/>'
        f'<path class="tip" d="M{x1:.1f} {y1:.1f}l{wing} -4v8z"/></g>'
    )


def _marks(arrow: TransitionArrow, more: str = "") -> str:
    classes = " ".join(filter(None, ["arrow", more, "violating" if arrow.paths else ""]))
    paths = f' data-paths="{" ".join(map(str, arrow.paths))}"' if arrow.paths else ""
    return f'class="{classes}" data-from="{escape(arrow.source)}" data-to="{escape(arrow.target)}"{paths}'


def _box(
    key: str, lines: tuple[str, str], place: Rect, result: ExplorationResult, selection: Selection
) -> Iterator[str]:
    ends = [
        n for n, each in enumerate(result.violations) if each.path and (each.state_id or f"raised:{n}") == key
    ]
    passed = {n for arrow in selection.arrows if key in (arrow.source, arrow.target) for n in arrow.paths}
    kind = "violating" if ends else "initial" if key == result.graph.initial_id else "plain"
    tooltip = (
        f"{key}\n{lines[1]}\nto itself: {', '.join(selection.loops[key])}" if key in selection.loops else key
    )
    paths = f' data-paths="{" ".join(map(str, sorted(passed)))}"' if passed else ""
    yield f'<g class="state {kind}" tabindex="0" data-id="{escape(key)}"{paths}><title>{escape(tooltip)}</title>'
    size = f'width="{place.width:.1f}" height="{place.height:.1f}"'
    yield f'<rect x="{place.left:.1f}" y="{place.top:.1f}" {size} rx="8"/>'
    yield f'<text class="number" x="{place.x:.1f}" y="{place.y - 9:.1f}" dy=".34em">{escape(lines[0])}</text>'
    yield f'<text x="{place.x:.1f}" y="{place.y + 9:.1f}" dy=".34em">{escape(lines[1])}</text></g>'
