"""Output formats: a graph as Mermaid, DOT or a self-contained SVG.

``diagram.py`` decides what is shown. This module writes Mermaid and DOT, which other programs lay out. ``layout.py``
and ``svg.py`` produce the SVG.

Names never become identifiers or syntax: boxes are called ``n0``, ``n1``, … and every name is a quoted and escaped
label, so a node may be called ``end``, ``a"b`` or ``<b>``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from clew.drawing.diagram import Arrow, Box, Picture, picture_of
from clew.drawing.svg import svg
from clew.errors import ClewError, GraphError

if TYPE_CHECKING:
    from clew.graph.graph import Graph


def draw(graph: Graph, format: str = "mermaid") -> str:
    """Return a drawing of a graph: ``"mermaid"``, ``"dot"`` or ``"svg"``."""
    return writer_of(format, GraphError)(picture_of(graph))


def writer_of(format: str, error: type[ClewError]) -> Callable[[Picture], str]:
    """Return the function that writes a picture in a format; raise this error for an unknown one."""
    write = _FORMATS.get(format)
    if write is None:
        raise error(f"unknown drawing format {format!r}; use {', '.join(map(repr, _FORMATS))}")
    return write


# -- Mermaid ------------------------------------------------------------------------------------------------

_MERMAID_SHAPES = {
    "node": ("[", "]"),
    "gate": ("{", "}"),
    "interrupt": ("{{", "}}"),
    "input": ("([", "])"),
    "optional": ("([", "])"),
    "end": ("(((", ")))"),
    "fresh": ("[", "]"),
    "outdated": ("[", "]"),
    "violation": ("[", "]"),
}
# Fill and text colours are both set, so labels are readable in every theme.
_MERMAID_STYLES = {
    "node": "fill:#eaf1ff,stroke:#4a74c9,color:#14233f",
    "gate": "fill:#fff2d6,stroke:#c58a1c,color:#3d2a05",
    "interrupt": "fill:#fde8f1,stroke:#c2477f,color:#42102a",
    "subgraph": "fill:#8a94a31a,stroke:#8a94a3",
    "input": "fill:#e6f6ea,stroke:#3f9a5a,color:#0f3019",
    "optional": "fill:#e6f6ea,stroke:#3f9a5a,color:#0f3019,stroke-dasharray:4 3",
    "end": "fill:#3d444f,stroke:#3d444f,color:#ffffff",
    "fresh": "fill:#e6f6ea,stroke:#3f9a5a,color:#0f3019",
    "outdated": "fill:#fff2d6,stroke:#c58a1c,color:#3d2a05,stroke-dasharray:4 3",
    "violation": "fill:#ffe3e3,stroke:#c62828,color:#420d0d",
}
# Mermaid's escapes: as in HTML, without the ampersand. The colon is included because Mermaid interprets
# `style x:y#z;` as a style even inside labels.
_MERMAID_ENTITIES = {ord(character): f"#{ord(character)};" for character in '#&<>"`|;:\\'}


def mermaid(picture: Picture) -> str:
    """Return a picture as a Mermaid flowchart."""
    lines = []
    if picture.title:
        lines += ["---", f"title: {_mermaid_title(picture.title)}", "---"]
    lines.append("flowchart TD")
    lines += _mermaid_body(picture, "    ")
    for kind, style in _MERMAID_STYLES.items():
        keys = [box.key for box in _all_boxes(picture) if box.kind == kind]
        if keys:
            lines += [f"    classDef {kind}Box {style}", f"    class {','.join(keys)} {kind}Box"]
    return "\n".join(lines) + "\n"


def _mermaid_body(picture: Picture, indent: str) -> Iterator[str]:
    for box in picture.boxes:
        if box.inside is not None:
            yield f"{indent}subgraph {box.key}[{_mermaid_text(box.label)}]"
            yield f"{indent}    direction TB"
            yield from _mermaid_body(box.inside, indent + "    ")
            yield f"{indent}end"
        else:
            opening, closing = _MERMAID_SHAPES[box.kind]
            yield f"{indent}{box.key}{opening}{_mermaid_text(box.label)}{closing}"
    for arrow in picture.arrows:
        line = "-.->" if arrow.kind == "control" else "-->"
        label = f"|{_mermaid_text(arrow.label)}|" if arrow.label else ""
        yield f"{indent}{arrow.source} {line}{label} {arrow.target}"


def _mermaid_text(text: str) -> str:
    return f'"{text.translate(_MERMAID_ENTITIES)}"'


def _mermaid_title(text: str) -> str:
    # YAML accepts JSON escapes. Mermaid removes HTML tags from titles and decodes no entities.
    return json.dumps(text.replace("<", "‹").replace(">", "›"), ensure_ascii=False)


# -- DOT ----------------------------------------------------------------------------------------------------

_DOT_SHAPES = {
    "node": 'shape=box, style="rounded,filled", fillcolor="#eaf1ff", color="#4a74c9"',
    "gate": 'shape=diamond, style=filled, fillcolor="#fff2d6", color="#c58a1c"',
    "interrupt": 'shape=hexagon, style=filled, fillcolor="#fde8f1", color="#c2477f"',
    "input": 'shape=oval, style=filled, fillcolor="#e6f6ea", color="#3f9a5a"',
    "optional": 'shape=oval, style="filled,dashed", fillcolor="#e6f6ea", color="#3f9a5a"',
    "end": 'shape=oval, style=filled, fillcolor="#3d444f", color="#3d444f", fontcolor=white',
    "fresh": 'shape=box, style="rounded,filled", fillcolor="#e6f6ea", color="#3f9a5a"',
    "outdated": 'shape=box, style="rounded,filled,dashed", fillcolor="#fff2d6", color="#c58a1c"',
    "violation": 'shape=box, style="rounded,filled", fillcolor="#ffe3e3", color="#c62828"',
}
_DOT_ARROWS = {
    "data": "",
    "gate": 'color="#b87a10"',
    "control": "style=dashed",
    "violation": 'color="#c62828"',
}


def dot(picture: Picture) -> str:
    """Return a picture in the DOT language of Graphviz."""
    lines = [
        "digraph {",
        f"    label={_dot_text(picture.title)}; labelloc=t; compound=true;",
        '    fontname="Helvetica"; node [fontname="Helvetica"]; edge [fontname="Helvetica", fontsize=11];',
        *_dot_body(picture, "    "),
        "}",
    ]
    return "\n".join(lines) + "\n"


def _dot_body(picture: Picture, indent: str) -> Iterator[str]:
    for box in picture.boxes:
        if box.inside is not None:
            yield f"{indent}subgraph cluster_{box.key} {{"
            yield f'{indent}    label={_dot_text(box.label)}; style="rounded,filled"; fillcolor="#8a94a31a";'
            yield from _dot_body(box.inside, indent + "    ")
            yield f"{indent}}}"
        else:
            yield f"{indent}{box.key} [label={_dot_text(box.label)}, {_DOT_SHAPES[box.kind]}];"
    boxes = {box.key: box for box in picture.boxes}
    for arrow in picture.arrows:
        yield f"{indent}{_dot_arrow(arrow, boxes[arrow.source], boxes[arrow.target])}"


def _dot_arrow(arrow: Arrow, source: Box, target: Box) -> str:
    # Graphviz connects only nodes: an arrow of a cluster ends at an inner node and is clipped at the border.
    attributes = [f"label={_dot_text(arrow.label)}"] if arrow.label else []
    attributes += [_DOT_ARROWS[arrow.kind]] if _DOT_ARROWS[arrow.kind] else []
    attributes += [f"ltail=cluster_{source.key}"] if source.inside else []
    attributes += [f"lhead=cluster_{target.key}"] if target.inside else []
    attributes += ["constraint=false"] if arrow.back else []
    ends = f"{_innermost(source, -1)} -> {_innermost(target, 0)}"
    return f"{ends} [{', '.join(attributes)}];" if attributes else f"{ends};"


def _innermost(box: Box, which: int) -> str:
    return box.key if box.inside is None else _innermost(box.inside.boxes[which], which)


def _dot_text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("&", "&amp;")
    return f'"{escaped}"'


def _all_boxes(picture: Picture) -> Iterator[Box]:
    for box in picture.boxes:
        yield box
        if box.inside is not None:
            yield from _all_boxes(box.inside)


_FORMATS: dict[str, Callable[[Picture], str]] = {"mermaid": mermaid, "dot": dot, "svg": svg}
