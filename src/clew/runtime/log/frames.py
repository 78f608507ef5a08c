"""Nodes and graphs by path: what an item in a subgraph belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from clew.engine.options import PriorWork
from clew.engine.stops import check_path, place_of
from clew.errors import InputError
from clew.graph import Graph

if TYPE_CHECKING:
    from clew.runtime.log.run_log import RunLog


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


def open_frame(log: RunLog, graph: Graph, path: str) -> tuple[str, str]:
    """Return the prefix of the frame that contains a node by path, and the name of the node.

    The path is ``sub/tool``, or ``sub#0[2]/tool`` to choose between several frames. Raise InputError unless exactly one
    such frame is open: its item, and the items around it, have begun and have no outcome.
    """
    place, _, name = path.rpartition("/")
    place += "/"
    check_path(graph, place_of(place) + name, "as_node")
    done = log.outcomes()
    found = [
        prefix
        for prefix, (start, _) in log.frames.items()
        if place in (prefix, place_of(prefix)) and _is_open(log, done, prefix, start.epoch)
    ]
    if len(found) == 1:
        return found[0], name
    if found:
        paths = ", ".join(f"{prefix}{name}" for prefix in found)
        raise InputError(
            f"as_node={path!r}: run {log.row.run_id!r} has several open subgraphs there; name one: {paths}"
        )
    raise InputError(
        f"as_node={path!r}: {place[:-1]!r} is not open in run {log.row.run_id!r}: it has not begun, or it has "
        f"ended; stop inside it with stop_before=[{place_of(place) + name!r}], or give as_node={place_of(place)[:-1]!r}"
    )


def _is_open(log: RunLog, done: Mapping[str, Any], prefix: str, epoch: tuple[int, ...]) -> bool:
    """Return whether the items around a frame belong to their current attempts and have no outcome."""
    path = ""
    for part, attempt in zip(prefix.split("/"), epoch, strict=False):
        path += part
        # the index is that of the item in its batch, or of the frame in a mapped item
        items = (path, path[: path.rindex("[")]) if path.endswith("]") else (path,)
        if any(item in done or log.attempts.get(item, attempt) != attempt for item in items):
            return False
        path += "/"
    return True


def work_inside(log: RunLog, prefix: str) -> PriorWork:
    """Return the prior work in the frame at `prefix`, by paths within it."""

    def within(found: Mapping[str, Any]) -> dict[str, Any]:
        return {path[len(prefix) :]: each for path, each in found.items() if path.startswith(prefix)}

    frames = {path: found for path, found in within(log.frames).items() if path}
    return msgspec.structs.replace(
        PriorWork(within(log.finished)),
        answers=within(log.answers),
        attempts=within(log.attempts),
        frames=frames,
    )
