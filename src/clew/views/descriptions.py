"""Stored descriptions of graphs as JSON: what `clew.graph.description` has written, without building a graph.

A description comes from a store, and may be damaged or forged: what has an unexpected form is left out.
"""

from __future__ import annotations

from typing import Any

import msgspec

from clew.errors import StoreCorruptError
from clew.runtime.log.reader import StoredRun

Json = dict[str, Any]


def description_of(run: StoredRun) -> Json:
    """Return the description of the graph of a run. Raise StoreCorruptError if it is damaged."""
    try:
        found = msgspec.json.decode(run.store.blob(run.accepted.description))
    except (msgspec.MsgspecError, RecursionError) as error:
        raise StoreCorruptError(f"the description of a graph is damaged: {error}") from error
    if not isinstance(found, dict):
        raise StoreCorruptError("the description of a graph is damaged: it is not an object")
    return found


def nodes_of(form: Json) -> list[Json]:
    nodes = form.get("nodes")
    return [node for node in nodes if isinstance(node, dict)] if isinstance(nodes, list) else []


def frame_description(form: Json, path: str) -> Json | None:
    """Return the description of the graph that contains the item at a path; None if it has none."""
    for part in path.split("/")[:-1]:
        name = part.partition("#")[0]
        node = next((each for each in nodes_of(form) if each.get("name") == name), None)
        inside = None if node is None else node.get("subgraph")
        inner = inside.get("graph") if isinstance(inside, dict) else None
        if not isinstance(inner, dict):
            return None
        form = inner
    return form
