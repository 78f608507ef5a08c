"""Nodes and graphs by path: what an item in a subgraph belongs to."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from clew.engine.options import PriorWork
from clew.engine.stops import check_path, place_of
from clew.errors import GraphChangedError, InputError
from clew.graph import Graph, Node
from clew.runtime.log.entries.records import START, STEP, names_of
from clew.state.values.conversion import converted
from clew.stores import LogEntry, Store

if TYPE_CHECKING:
    from clew.engine.records import Question
    from clew.runtime.log.run_log import RunLog


def graph_at(graph: Graph, prefix: str) -> Graph:
    """Return the graph of the frame at `prefix`, without outer bindings: they do not affect digests."""
    for part in prefix.split("/")[:-1]:
        inside = graph.nodes[part.partition("#")[0]].subgraph
        assert inside is not None
        graph = inside.graph
    return graph


def node_at(graph: Graph, path: str) -> tuple[Graph, Node] | None:
    """Return the node of the item at a path, also by its name alone, and the graph that contains it, if it exists."""
    *outer, last = (part.partition("#")[0] for part in path.split("/"))
    for name in outer:
        node = graph.nodes.get(name)
        if node is None or node.subgraph is None:
            return None
        graph = node.subgraph.graph
    return (graph, graph.nodes[last]) if last in graph.nodes else None


def is_interrupt(graph: Graph, path: str) -> bool:
    """Return whether the item at a path is of an interrupt node. A path of a call, or into a child, is not."""
    found = None if "!" in path else node_at(graph, path)
    return found is not None and found[1].kind == "interrupt"


def checked_answer(graph: Graph, question: Question, answer: Any, *, is_json: bool) -> Any:
    """Return an answer while the question is still open; raise InputError if the state schema rejects it, and
    GraphChangedError if the graph lacks the node.

    An answer that came as JSON is converted to the type of the value that it becomes, for every kind of schema. A
    question about a call is not of an interrupt node. A question of a child is checked by the child. One that has a
    plain type, such as bool, is checked for it here; the node converts to all other types, and asks again.
    """
    path = question.path
    _check_plain_type(question, answer)
    if "!" in path:
        return answer
    found = node_at(graph, path)
    if found is None:
        raise GraphChangedError(
            f"this graph does not have the node that asks at {path!r}; add the node again"
        )
    node, schema = found[1], found[0].schema
    if node.kind == "interrupt" and schema is not None:
        name = node.outputs[0]
        try:
            if is_json and schema.fields[name].reducer is None:
                answer = converted(schema.fields[name].type, answer)
            schema.validate_update(name, answer)
        except ValueError as error:
            raise InputError(
                f"the answer to {path!r} does not match {name!r}: {error}; answer again"
            ) from error
    return answer


_PLAIN = {"boolean": (bool,), "integer": (int,), "number": (int, float), "string": (str,)}


def _check_plain_type(question: Question, answer: Any) -> None:
    schema = question.schema
    if type(answer) not in (bool, int, float, str, list, dict, type(None)) or not isinstance(schema, dict):
        return
    if schema.keys() == {"type"} and (expected := _PLAIN.get(schema["type"])):
        is_valid = type(answer) in expected
    else:
        is_valid = schema.keys() != {"enum"} or answer in schema["enum"]
    if not is_valid:
        raise InputError(
            f"the answer to {question.path!r} has to be {question.type}, got {answer!r}; answer again"
        )


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


def open_paths(log: RunLog) -> Iterator[str]:
    """Yield the paths of open work: of questions, of finished items, and of open subgraphs and what ran in them."""
    done = log.outcomes()
    yield from (*log.asked, *log.finished)
    for prefix, (start, steps) in log.frames.items():
        if _is_open(log, done, prefix, start.epoch):
            yield prefix[:-1]
            yield from (prefix + outcome.path for step in steps for outcome in step.outcomes)


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


def open_frames(
    store: Store, run_id: str, graph: Graph, visits: Mapping[str, int], finished: Collection[str]
) -> list[LogEntry]:
    """Read the frames of items without a committed step, given each node's visits and the finished items."""
    found, visits = list[LogEntry](), dict(visits)
    nodes = [name for name, node in graph.nodes.items() if node.subgraph is not None]
    while nodes:  # lookahead can be several visits ahead of the last step
        items = [(name, f"{name}#{visits.get(name, 0)}") for name in nodes]
        inside = store.within(
            run_id, names_of(START, STEP), [span for _, item in items for span in _spans(item)]
        )
        found += inside
        begun = {entry.path.partition("#")[0] for entry in inside}
        nodes = [name for name, item in items if name in begun or item in finished]
        visits.update((name, visits.get(name, 0) + 1) for name in nodes)
    return found


def _spans(item: str) -> list[tuple[str, str]]:
    """Return the path ranges of an item and its content. They exclude longer numbers: item#1 is not item#10."""
    return [(item, f"{item}0"), (f"{item}:", f"{item}\x7f")]
