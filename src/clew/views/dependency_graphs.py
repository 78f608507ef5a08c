"""Dependency graphs in a store: their values, how fresh they are, and why. Viewing computes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from clew.drawing.diagram import Arrow, Box, Picture, label_text
from clew.drawing.plain import plain_picture
from clew.error_text import encodable
from clew.errors import ClewError, UnknownValueError
from clew.incremental.stored_view import StoredGraph
from clew.stores import Store
from clew.stores.factory import open_table, table_names
from clew.views.shown import exact, shown

Json = dict[str, Any]

PREFIX = "graph "
_DRAWN = 200
_VALUE = 16_000


def names(store: Store) -> list[str]:
    return [name[len(PREFIX) :] for name in table_names(store) if name.startswith(PREFIX)]


def graphs_json(store: Store) -> Json:
    found: list[Json] = []
    for name in names(store):
        try:
            graph = _read(store, name)
        except ClewError as error:
            found.append({"target": encodable(name), "damage": str(error)})
            continue
        states = [graph.state(key) for key in graph.nodes]
        found.append(
            {
                "target": encodable(name),
                "revision": graph.revision,
                "values": len(states),
                "outdated": states.count("outdated"),
                "sources": states.count("source"),
            }
        )
    return {"graphs": found}


def _read(store: Store, name: str) -> StoredGraph:
    if name not in names(store):
        raise UnknownValueError(f"the store has no dependency graph {name!r}")
    table = open_table(store, PREFIX + name)
    try:
        return StoredGraph(table)
    finally:
        table.close()


def graph_json(store: Store, name: str, selected: str, *, schemas: bool = False) -> Json:
    """Return one dependency graph: nodes, a picture of its values or its schemas, and an explanation of the selected
    node."""
    graph = _read(store, name)
    if selected and selected not in graph.nodes:
        raise UnknownValueError(f"the dependency graph {name!r} has no value {selected!r}")
    states = {key: graph.state(key) for key in graph.nodes}
    return {
        "target": encodable(name),
        "revision": graph.revision,
        "nodes": [
            {
                "name": encodable(key),
                "schema": encodable(node.schema),
                "state": states[key],
                "revision": node.changed_at if node.has_value else None,
                "verified": node.verified_at if node.has_value else None,
                "is_source": not node.inputs,
                "inputs": [encodable(each) for each in node.inputs],
            }
            for key, node in graph.nodes.items()
        ],
        "picture": _schemas(graph, states) if schemas else _picture(graph, states, selected),
        "node": _node(graph, states, selected) if selected else None,
    }


def _picture(graph: StoredGraph, states: dict[str, str], selected: str) -> Json:
    """Return the picture of all values, or of those around the selected one if there are many."""
    drawn = list(graph.nodes)
    if len(drawn) > _DRAWN:
        drawn = _around(graph, selected) if selected else drawn[:_DRAWN]
    inputs = {name: tuple(graph.nodes[name].inputs) for name in drawn}
    return {**_drawn(inputs, states), "truncated": len(drawn) < len(graph.nodes)}


def _schemas(graph: StoredGraph, states: dict[str, str]) -> Json:
    """Return the picture of the schemas; one is outdated if a value of it is."""
    of = {name: node.schema or name for name, node in graph.nodes.items()}
    inputs: dict[str, dict[str, None]] = {}
    worst: dict[str, str] = {}
    for name, schema in of.items():
        inputs.setdefault(schema, {}).update(dict.fromkeys(of.get(x, x) for x in graph.nodes[name].inputs))
        if worst.get(schema) != "outdated":
            worst[schema] = states[name]
    shown = dict(list(inputs.items())[:_DRAWN])
    return {**_drawn({name: tuple(each) for name, each in shown.items()}, worst), "truncated": False}


def _drawn(inputs: Mapping[str, Sequence[str]], states: Mapping[str, str]) -> Json:
    """Return a picture of names with their inputs."""
    keys = {name: f"v{number}" for number, name in enumerate(inputs)}
    kinds: dict[str, Any] = {
        "source": "input",
        "fresh": "fresh",
        "outdated": "outdated",
        "missing": "optional",
    }
    boxes = tuple(Box(keys[name], kinds[states[name]], label_text(name), "") for name in inputs)
    arrows = tuple(
        Arrow(keys[source], keys[name], "data", "", back=source == name)
        for name, sources in inputs.items()
        for source in dict.fromkeys(sources)
        if source in keys
    )
    empty: Json = {"width": 0, "height": 0, "boxes": [], "arrows": []}
    if not boxes:
        return empty
    try:
        picture = plain_picture(Picture("", boxes, arrows))
    except (ValueError, KeyError, RecursionError):  # a forged table may have a cycle
        return empty
    for box, name in zip(picture["boxes"], inputs):
        box["name"], box["state"] = encodable(name), states[name]
    return picture


def _around(graph: StoredGraph, selected: str) -> list[str]:
    readers: dict[str, list[str]] = {}
    for key, node in graph.nodes.items():
        for source in node.inputs:
            readers.setdefault(source, []).append(key)
    found = {selected: None}
    for name in found.copy():
        pending = [name]
        while pending and len(found) < _DRAWN:
            current = pending.pop(0)
            for other in (*graph.nodes[current].inputs, *readers.get(current, ())):
                if other in graph.nodes and other not in found and len(found) < _DRAWN:
                    found[other] = None
                    pending.append(other)
    return list(found)


def _value(node: Any) -> Json:
    try:
        value = node.value()
        return {"value": shown(value, _VALUE)[0], "exact": exact(value, _VALUE)}
    except (ClewError, ValueError, TypeError) as error:
        return {"value": {"$": "text", "kind": "damaged", "text": str(error)}, "exact": None}


def _node(graph: StoredGraph, states: dict[str, str], name: str) -> Json:
    node = graph.nodes[name]
    sources = graph.sources(name)
    newer = [(source, at) for source, at in sources if node.has_value and at > node.verified_at]
    why = [{"node": encodable(name), "text": f"verified at revision {node.verified_at}"}] if newer else []
    why += [{"node": encodable(s), "text": f"{encodable(s)} was touched at revision {at}"} for s, at in newer]
    return {
        "name": encodable(name),
        "state": states[name],
        "origin": node.origin,
        "verified": node.verified_at if node.has_value else None,
        "changed": node.changed_at if node.has_value else None,
        "computed": node.computed_at or None,
        **(_value(node) if node.has_value else {"value": None, "exact": None}),
        "why": why,
        "sources": [{"node": encodable(s), "touched": at, "newer": (s, at) in newer} for s, at in sources],
        "inputs": [{"node": encodable(each), "state": states.get(each, "missing")} for each in node.inputs],
        "would_compute": _computed(graph, states, name),
    }


def _computed(graph: StoredGraph, states: dict[str, str], name: str) -> int:
    """Return how many values a pull may compute at most."""
    pending, seen = [name], set[str]()
    while pending:
        current = pending.pop()
        if current in seen or states.get(current, "missing") not in ("outdated", "missing"):
            continue
        node = graph.nodes.get(current)
        if node is not None and not node.inputs:
            continue
        seen.add(current)
        pending += node.inputs if node is not None else ()
    return len(seen)
