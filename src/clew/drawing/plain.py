"""A picture as JSON data, for a program that draws and colours it itself.

Places are in the units of the SVG drawing; ``x`` and ``y`` of a box are its centre. The path of an arrow is SVG path
data without a gap for its label. A subgraph contains its own picture, whose origin is ``left`` and ``top`` in the box.
"""

from __future__ import annotations

from typing import Any

from clew.drawing.diagram import Arrow, Box, Picture
from clew.drawing.geometry import Rect, Route
from clew.drawing.layout import Layout
from clew.drawing.svg import CORNER, HEADER, Inner, arranged, curves, smooth

Json = dict[str, Any]


def plain_picture(picture: Picture) -> Json:
    """Return a picture with its layout."""
    return _picture(picture, *arranged(picture))


def _picture(picture: Picture, layout: Layout, inner: Inner) -> Json:
    return {
        "width": _rounded(layout.width),
        "height": _rounded(layout.height),
        "boxes": [_box(box, layout.boxes[box.key], inner) for box in picture.boxes],
        "arrows": [_arrow(arrow, route) for arrow, route in zip(picture.arrows, layout.routes, strict=True)],
    }


def _box(box: Box, place: Rect, inner: Inner) -> Json:
    found: Json = {"key": box.key, "kind": box.kind, "label": box.label, "note": box.note, "inside": None}
    found.update(x=_rounded(place.x), y=_rounded(place.y), w=_rounded(place.width), h=_rounded(place.height))
    if box.inside is not None:
        layout, deeper = inner[box.key]
        found["inside"] = {
            **_picture(box.inside, layout, deeper),
            "left": _rounded((place.width - layout.width) / 2),
            "top": HEADER,
        }
    return found


def _arrow(arrow: Arrow, route: Route) -> Json:
    points = [point for piece in route.pieces for point in piece]
    path = curves([points]) if route.curved else smooth(points, CORNER)
    return {
        "source": arrow.source,
        "target": arrow.target,
        "kind": arrow.kind,
        "label": arrow.label,
        "back": arrow.back,
        "path": path,
        "points": [[_rounded(x), _rounded(y)] for x, y in points],
        "label_at": None if route.label is None else [_rounded(each) for each in route.label],
    }


def _rounded(number: float) -> float:
    return round(number, 1)
