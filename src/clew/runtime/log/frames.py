"""Nodes and graphs by path: what an item in a subgraph belongs to."""

from __future__ import annotations

from typing import Any

from clew.errors import InputError
from clew.graph import Graph


def graph_at(graph: Graph, prefix: str) -> Graph:
    """Return the graph of the frame at `prefix`, without outer bindings: they do not affect digests."""
    for part in prefix.split("/")[:-1]:
        inside = graph.nodes[part.partition("#")[0]].subgraph
        assert inside is not None
        graph = inside.graph
    return graph


def is_interrupt(graph: Graph, path: str) -> bool:
    """Return whether the item at a path is of an interrupt node. A path of a call, or into a child, is not."""
    if "!" in path:
        return False
    inside, _, last = path.rpartition("/")
    node = graph_at(graph, f"{inside}/" if inside else "").nodes.get(last.partition("#")[0])
    return node is not None and node.kind == "interrupt"


def check_answer(graph: Graph, path: str, answer: Any) -> None:
    """Raise InputError if the state schema rejects an answer, while the question is still open.

    A question about a call is not of an interrupt node. A question of a child is checked by the child.
    """
    if "!" in path:
        return
    inside, _, last = path.rpartition("/")
    graph = graph_at(graph, f"{inside}/") if inside else graph
    node, schema = graph.nodes[last.partition("#")[0]], graph.schema
    if node.kind == "interrupt" and schema is not None:
        try:
            schema.validate_update(node.outputs[0], answer)
        except ValueError as error:
            raise InputError(
                f"the answer to {path!r} does not match {node.outputs[0]!r}: {error}; answer again"
            ) from error
