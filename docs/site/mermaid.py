"""Mermaid blocks as SVG, drawn by Clew itself: the site needs no script and asks no other host.

Only what the pages use is understood: the flowcharts that `Graph.draw` writes, and boxes and arrows written by hand.
Anything else is an error.
"""

from __future__ import annotations

import re

from clew.drawing.diagram import Arrow, Box, BoxKind, Picture
from clew.drawing.svg import svg

SHAPES: list[tuple[str, str, BoxKind]] = [  # the longest opening first
    ("(((", ")))", "end"),
    ("([", "])", "input"),
    ("{{", "}}", "interrupt"),
    ("{", "}", "gate"),
    ("[", "]", "node"),
]
BOX = r"(?P<{0}>\w+)(?P<{0}_shape>(?:\(\(\(|\(\[|\{{\{{|\{{|\[)\"[^\"]*\"(?:\)\)\)|\]\)|\}}\}}|\}}|\]))?"
LINE = re.compile(
    "^"
    + BOX.format("source")
    + r"(?:\s*(?P<line>-->|-\.->)(?:\|\"(?P<label>[^\"]*)\"\|)?\s*"
    + BOX.format("target")
    + ")?$"
)
IGNORED = re.compile(r"^(graph|flowchart|classDef|class|direction) ")


class UnknownMermaid(Exception):
    """A line that this module does not understand."""


def drawing_of(text: str) -> str:
    """Return the SVG of a flowchart."""
    boxes: dict[str, Box] = {}
    arrows: list[Arrow] = []
    for line in (line.strip() for line in text.splitlines()):
        if not line or IGNORED.match(line):
            continue
        match = LINE.match(line)
        if match is None:
            raise UnknownMermaid(line)
        for end in ("source", "target"):
            if key := match[end]:
                _add(boxes, key, match[f"{end}_shape"])
        if match["target"]:
            kind = "control" if match["line"] == "-.->" else "data"
            if boxes[match["source"]].kind == "gate":
                kind = "gate"
            label = _unescaped(match["label"] or "")
            is_back = _reaches(arrows, match["target"], match["source"])
            arrows.append(Arrow(match["source"], match["target"], kind, label, is_back))
    return svg(Picture("", tuple(boxes.values()), tuple(arrows)))


def _add(boxes: dict[str, Box], key: str, shape: str | None) -> None:
    if shape is None:
        boxes.setdefault(key, Box(key, "node", key, ""))
        return
    opening, closing, kind = next(row for row in SHAPES if shape.startswith(row[0]))
    label = _unescaped(shape[len(opening) + 1 : -len(closing) - 1])
    boxes[key] = Box(key, kind, label, label)


def _reaches(arrows: list[Arrow], start: str, goal: str) -> bool:
    seen, open_ = set(), [start]
    while open_:
        key = open_.pop()
        if key == goal:
            return True
        if key not in seen:
            seen.add(key)
            open_ += [arrow.target for arrow in arrows if arrow.source == key and not arrow.back]
    return False


def _unescaped(text: str) -> str:
    return re.sub(r"#(\d+);", lambda found: chr(int(found[1])), text)
