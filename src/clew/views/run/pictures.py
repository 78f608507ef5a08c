"""The picture of a run's graph as JSON, from the description that is stored with the run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from clew.drawing.diagram import picture_of
from clew.drawing.plain import plain_picture
from clew.error_text import encodable
from clew.graph import Graph
from clew.runtime.log.reader import StoredRun
from clew.views.descriptions import description_of, nodes_of

Json = dict[str, Any]

_MOST_NODES = 1_500  # of a graph that is laid out
_LONGEST = 4_000


def graph_json(run: StoredRun) -> Json:
    """Return boxes, arrows, nodes and types of the graph of a run."""
    graph, form = run.graph, description_of(run)
    found: Json = {
        "structure": run.accepted.structure,
        "name": encodable(graph.name or ""),
        "nodes": [_node(node) for node in nodes_of(form)],
        "state": _state(form.get("state")),
    }
    if sum(1 for _ in _names(graph, "n", "")) > _MOST_NODES:
        return {**found, "width": 0, "height": 0, "boxes": [], "arrows": [], "truncated": True}
    picture = plain_picture(picture_of(graph))
    _name_boxes(picture, dict(_names(graph, "n", "")))
    return {**found, **picture}


def _names(graph: Graph, prefix: str, path: str) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the key of each box of a node, its name, and the path of the node from the outermost graph."""
    for number, (name, node) in enumerate(graph.nodes.items()):
        key = f"{prefix}{number}"
        yield key, (name, path + name)
        if node.subgraph is not None:
            yield from _names(node.subgraph.graph, f"{key}_", f"{path}{name}/")


def _name_boxes(picture: Json, names: dict[str, tuple[str, str]]) -> None:
    for box in picture["boxes"]:
        name, path = names.get(box["key"], (box["label"], ""))
        box["name"], box["path"] = encodable(name), encodable(path)
        if box["inside"] is not None:
            _name_boxes(box["inside"], names)


def _node(node: Json) -> Json:
    params = node.get("params")
    reads = [
        _text(each.get("source"))
        for each in (params if isinstance(params, list) else ())
        if isinstance(each, dict) and each.get("kind") == "value"
    ]
    returns = node.get("returns")
    return {
        "name": _text(node.get("name")),
        "kind": _text(node.get("kind")),
        "description": _text(node.get("description")),
        "reads": list(dict.fromkeys(filter(None, reads))),
        "writes": [
            _text(pair[1]) for pair in node.get("writes") or () if isinstance(pair, list) and len(pair) == 2
        ],
        "targets": [_text(target) for target in node.get("targets") or ()],
        "after": [_text(name) for name in node.get("after") or ()],
        "returns": _text(returns.get("type")) if isinstance(returns, dict) else "",
    }


def _state(form: Any) -> Json | None:
    if not isinstance(form, dict) or not isinstance(form.get("fields"), dict):
        return None
    fields = {
        encodable(name): {
            "type": _text(field.get("type")),
            "schema": field.get("schema"),
            "reducer": field.get("reducer") and _text(field["reducer"]),
        }
        for name, field in form["fields"].items()
        if isinstance(field, dict)
    }
    return {"name": _text(form.get("name")), "fields": fields}


def _text(value: Any) -> str:
    return encodable(value)[:_LONGEST] if isinstance(value, str) else ""
