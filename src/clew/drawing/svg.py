"""SVG: a picture as one self-contained drawing, without scripts, fonts or external references.

- Names use a monospaced font, whose widths are known, so boxes have the size of their text.
- The style sheet has a light and a dark theme, and the drawing has a background, so it is readable on any page. Class
  names begin with ``clew-``, because styles of an inline SVG apply to the whole page.
- Arrow heads are paths, not markers: markers need ids, which would clash if a page contains two drawings.
- The tooltip of a box shows what it reads and writes.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from html import escape
from itertools import pairwise

from clew.drawing.diagram import Arrow, Box, Picture
from clew.drawing.geometry import BoxShape, Point, Rect, Route
from clew.drawing.layout import Edge, Layout, lay_out

MARGIN = 24.0
HEADER = 38.0  # the height of the name of a drawing or subgraph
INSET = 18.0  # between the border of a subgraph and its content
CHARACTER = 7.85  # at 13px: 0.602 em, the widest of the common monospaced fonts
LABEL_CHARACTER = 6.65  # at 11px
CORNER = 10.0
TIP = 8.0

_STYLE = """
.clew-back{fill:#fff}
.clew-graph text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;
fill:#1c2430;text-anchor:middle}
.clew-graph .clew-title{font-size:15px;font-weight:600;text-anchor:start}
.clew-graph .clew-name{font-weight:600;text-anchor:start}
.clew-graph .clew-label{font-size:11px;fill:#566172}
.clew-graph .clew-label-gate{fill:#8f5b06}
.clew-box{stroke-width:1.5}
.clew-node{fill:#eaf1ff;stroke:#4a74c9}
.clew-gate{fill:#fff2d6;stroke:#c58a1c}
.clew-interrupt{fill:#fde8f1;stroke:#c2477f}
.clew-subgraph{fill:#8a94a3;fill-opacity:.1;stroke:#a3adbb}
.clew-input,.clew-optional{fill:#e6f6ea;stroke:#3f9a5a}
.clew-optional{stroke-dasharray:4 3}
.clew-fresh{fill:#e6f6ea;stroke:#3f9a5a}
.clew-outdated{fill:#fff2d6;stroke:#c58a1c;stroke-dasharray:4 3}
.clew-violation{fill:#ffe3e3;stroke:#c62828}
.clew-end{fill:#3d444f;stroke:#3d444f}
.clew-graph .clew-text-end{fill:#fff}
.clew-line{fill:none;stroke:#6b7788;stroke-width:1.4}
.clew-line-gate{stroke:#c58a1c}
.clew-line-control{stroke-dasharray:5 4}
.clew-line-violation{stroke:#c62828;stroke-width:2.2}
.clew-tip{fill:#6b7788}
.clew-tip-gate{fill:#c58a1c}
.clew-tip-violation{fill:#c62828}
@media (prefers-color-scheme:dark){
.clew-back{fill:#14181f}
.clew-graph text{fill:#e8edf4}
.clew-graph .clew-label{fill:#a9b4c3}
.clew-graph .clew-label-gate{fill:#e8bb66}
.clew-node{fill:#1c2a47;stroke:#6f9bf0}
.clew-gate{fill:#3b2d10;stroke:#dba642}
.clew-interrupt{fill:#401b2e;stroke:#ea7fb0}
.clew-subgraph{stroke:#5d6878}
.clew-input,.clew-optional{fill:#15321f;stroke:#5fc283}
.clew-fresh{fill:#15321f;stroke:#5fc283}
.clew-outdated{fill:#3b2d10;stroke:#dba642}
.clew-violation{fill:#4a1f24;stroke:#ef6b6b}
.clew-end{fill:#d5dbe3;stroke:#d5dbe3}
.clew-graph .clew-text-end{fill:#14181f}
.clew-line{stroke:#8b97a8}
.clew-line-gate{stroke:#dba642}
.clew-tip{fill:#8b97a8}
.clew-tip-gate{fill:#dba642}
}
"""


def style_sheet() -> tuple[str, str]:
    """Return the rules of the light theme, and those that the dark theme changes, for pages with a theme switch."""
    light, _, dark = _STYLE.partition("@media (prefers-color-scheme:dark){")
    return light.strip(), dark.rpartition("}")[0].strip()


def svg(picture: Picture) -> str:
    """Return a picture as an SVG document."""
    layout, inner = arranged(picture)
    header = HEADER if picture.title else 0.0
    width = max(layout.width, _text_width(picture.title, CHARACTER * 15 / 13)) + 2 * MARGIN
    height = layout.height + header + 2 * MARGIN
    size = f'width="{_number(width)}" height="{_number(height)}"'
    view = f'viewBox="0 0 {_number(width)} {_number(height)}"'
    name = f'role="img" aria-label="{escape(picture.title or "graph")}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="clew-graph" {name} {size} {view}>',
        f"<style>{_STYLE}</style>",
        f'<rect class="clew-back" {size} rx="8"/>',
    ]
    if picture.title:
        lines.append(_text(MARGIN, MARGIN + 8, picture.title, "clew-title"))
    left = (width - layout.width) / 2
    lines += _drawn(picture, layout, inner, left, MARGIN + header)
    return "\n".join([*lines, "</svg>"]) + "\n"


# -- sizes --------------------------------------------------------------------------------------------------

Inner = dict[str, tuple[Layout, "Inner"]]  # by box of a subgraph: the inner layout, and those inside it


def arranged(picture: Picture) -> tuple[Layout, Inner]:
    """Return the layout of a picture, and those of the pictures inside its boxes."""
    inner: Inner = {box.key: arranged(box.inside) for box in picture.boxes if box.inside is not None}
    shapes = {box.key: _shape(box, inner) for box in picture.boxes}
    edges = [
        Edge(arrow.source, arrow.target, _label_width(arrow.label), arrow.back) for arrow in picture.arrows
    ]
    return lay_out(shapes, edges), inner


def _shape(box: Box, inner: Inner) -> BoxShape:
    text = _text_width(box.label, CHARACTER)
    if box.key in inner:
        inside, _ = inner[box.key]
        width = max(inside.width + 2 * INSET, text + 2 * INSET)
        return BoxShape(width, inside.height + HEADER + INSET + 4)
    if box.kind == "gate":  # a text needs a diamond 1.4 times as wide
        width = max(1.4 * text + 30, 90.0)
        return BoxShape(width, 54.0, width / 2)
    if box.kind == "interrupt":
        return BoxShape(text + 64, 38.0, 14.0)
    if box.kind in ("input", "optional", "end"):
        return BoxShape(text + 32, 30.0)
    return BoxShape(max(text + 32, 64.0), 38.0)


def _label_width(label: str) -> float:
    return _text_width(label, LABEL_CHARACTER) + 8 if label else 0.0


def _text_width(text: str, character: float) -> float:
    """Return an upper bound of the width of a text; ideographs and emoji are two characters wide."""
    cells = 0
    for symbol in text:
        if not unicodedata.combining(symbol) and unicodedata.category(symbol) not in ("Cf", "Mn"):
            cells += 2 if unicodedata.east_asian_width(symbol) in "WF" else 1
    return cells * character


# -- drawing ------------------------------------------------------------------------------------------------


def _drawn(picture: Picture, layout: Layout, inner: Inner, left: float, top: float) -> Iterator[str]:
    yield f'<g transform="translate({_number(left)} {_number(top)})">'
    for arrow, route in zip(picture.arrows, layout.routes, strict=True):
        yield from _arrow(arrow, route)
    for box in picture.boxes:
        place = layout.boxes[box.key]
        tooltip = "\n".join([box.label, box.note]).strip()
        yield f"<g><title>{escape(tooltip)}</title>"
        yield f'<path class="clew-box clew-{box.kind}" d="{_outline(box, place)}"/>'
        if box.inside is None:
            shift = 9 if box.kind == "interrupt" else 0
            yield _text(place.x + shift, place.y, box.label, f"clew-text-{box.kind}")
            if shift:  # two bars, as on a pause button
                bars = place.left + 20
                yield f'<path class="clew-box clew-interrupt" d="M{_xy((bars, place.y - 5))}v10m5 0v-10"/>'
        else:
            yield _text(place.left + INSET, place.top + 18, box.label, "clew-name")
        yield "</g>"
        if box.inside is not None:
            inside, deeper = inner[box.key]
            across = place.left + (place.width - inside.width) / 2
            yield from _drawn(box.inside, inside, deeper, across, place.top + HEADER)
    yield "</g>"


def _outline(box: Box, place: Rect) -> str:
    if place.slant:
        flat = place.width / 2 - place.slant
        corners = [(place.left, place.y), (place.x - flat, place.top), (place.x + flat, place.top)]
        corners += [(place.right, place.y), (place.x + flat, place.bottom), (place.x - flat, place.bottom)]
        return smooth([*dict.fromkeys(corners)], 5.0, closed=True)
    corners = [(place.left, place.top), (place.right, place.top), (place.right, place.bottom)]
    radius = place.height / 2 if box.kind in ("input", "optional", "end") else 9.0
    return smooth([*corners, (place.left, place.bottom)], radius, closed=True)


def _arrow(arrow: Arrow, route: Route) -> Iterator[str]:
    tip, before = route.pieces[-1][-1], route.pieces[-1][-2]
    sideways = not route.curved and before[1] == tip[1]
    foot = (tip[0] + TIP - 1, tip[1]) if sideways else (tip[0], tip[1] - TIP + 1)
    pieces = [*route.pieces[:-1], (*route.pieces[-1][:-1], foot)]
    path = curves(pieces) if route.curved else "".join(smooth(piece, CORNER) for piece in pieces)
    yield f'<path class="clew-line clew-line-{arrow.kind}" d="{path}"/>'
    wings = f"l{_number(TIP)} -4v8z" if sideways else f"l-4 {_number(-TIP)}h8z"
    yield f'<path class="clew-tip clew-tip-{arrow.kind}" d="M{_xy(tip)}{wings}"/>'
    if route.label is not None:
        yield _text(*route.label, arrow.label, f"clew-label clew-label-{arrow.kind}")


def curves(pieces: Sequence[Sequence[Point]]) -> str:
    """Return a monotone cubic through the points from top to bottom, vertical at both ends.

    Two pieces meet at their label with the same angle, as if they were one line behind it.
    """
    lean = [_lean(a, b) for piece in pieces for a, b in pairwise(piece)]  # of each segment
    slopes = [0.0, *(2 * a * b / (a + b) if a * b > 0 else 0.0 for a, b in pairwise(lean)), 0.0]
    path, i = "", 0
    for piece in pieces:
        path += f"M{_xy(piece[0])}"
        for (x0, y0), (x1, y1) in pairwise(piece):
            third = (y1 - y0) / 3
            first, second = (x0 + slopes[i] * third, y0 + third), (x1 - slopes[i + 1] * third, y1 - third)
            path += f"V{_number(y1)}" if x0 == x1 else f"C{_xy(first)} {_xy(second)} {_xy((x1, y1))}"
            i += 1
    return path


def _lean(upper: Point, lower: Point) -> float:
    return (lower[0] - upper[0]) / (lower[1] - upper[1])


def smooth(points: Sequence[Point], radius: float, closed: bool = False) -> str:
    """Return straight lines through the points, with corners rounded to about this radius."""
    count = len(points)
    path = "" if closed else f"M{_xy(points[0])}"
    for i in range(count) if closed else range(1, count - 1):
        corner, before, after = points[i], points[i - 1], points[(i + 1) % count]
        path += f"{'L' if path else 'M'}{_xy(_toward(corner, before, radius))}"
        path += f"Q{_xy(corner)} {_xy(_toward(corner, after, radius))}"
    return path + ("Z" if closed else f"L{_xy(points[-1])}")


def _toward(start: Point, end: Point, distance: float) -> Point:
    """Return the point at this distance from one towards another, at most at the midpoint."""
    across, down = end[0] - start[0], end[1] - start[1]
    length = (across * across + down * down) ** 0.5
    part = min(0.5, distance / length) if length else 0.0
    return start[0] + across * part, start[1] + down * part


def _text(x: float, y: float, text: str, classes: str) -> str:
    # dy, because not every renderer supports dominant-baseline
    return f'<text class="{classes}" x="{_number(x)}" y="{_number(y)}" dy=".34em">{escape(text)}</text>'


def _xy(point: Point) -> str:
    return f"{_number(point[0])} {_number(point[1])}"


def _number(value: float) -> str:
    text = f"{value:.1f}"
    return text[:-2] if text.endswith(".0") else text
