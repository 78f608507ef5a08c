"""The inputs of a graph.

Values that nodes read by name and that are not bound are inputs of one of three kinds:

- *required*: some node needs the value (no default in the signature, and no schema default that applies), and no other
  node writes it. Required fields of a dataclass, pydantic or msgspec schema that no node writes are also required,
  even if no node reads them (`required_fields`).
- *seeds*: only nodes on the same loop as a reader write the value. Passing it decides where the loop starts.
- *optional*: no node writes the value, and no reader needs it: it has a default, or the reader is the target of a gate
  that may ``Send`` it. If a node reads the whole state, all schema fields that no node writes are also optional.

Other values that nodes write are not inputs, but a run accepts them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clew.graph.analysis.loops import Heads, find_loops
from clew.graph.analysis.topology import Link, links, seeds_that_count, writers_of
from clew.graph.annotations import mentions
from clew.graph.gates import Send

if TYPE_CHECKING:
    from clew.graph.graph import Graph
    from clew.graph.node import Node


@dataclass(frozen=True)
class Interface:
    """The names of a graph's inputs, by kind."""

    required: tuple[str, ...]
    seeds: tuple[str, ...]
    optional: tuple[str, ...]


def read_interface(graph: Graph) -> Interface:
    """Return the inputs of a graph; each kind is in the order in which nodes read them."""
    writers = writers_of(graph.nodes)
    loop_of = loops_of(graph.nodes, links(graph.nodes, graph.edges))
    inputs = list(_inputs(graph, writers))
    given = [(value, reader) for value, reader, others in inputs if not others]
    required = dict.fromkeys([*_needed(graph, given), *required_fields(graph)])
    seeds = [
        value
        for value, reader, others in inputs
        if value in writers and all(_on_one_loop(loop_of, reader.name, name) for name in others)
    ]
    optional = [value for value, _ in given if value not in writers]
    if graph.schema is not None and any(node.reads_state for node in graph.nodes.values()):
        optional += [
            field for field in graph.schema.fields if field not in writers and field not in graph.bound
        ]
    return Interface(tuple(required), _others(seeds, required), _others(optional, required))


def _needed(graph: Graph, given: Iterable[tuple[str, Node]]) -> Iterator[str]:
    """Yield the values without another writer that their reader cannot run without."""
    defaults = seeds_that_count(graph)
    sent_to = {target for node in graph.nodes.values() if may_send(node) for target in node.targets}
    for value, reader in given:
        if value in reader.required and value not in defaults and reader.name not in sent_to:
            yield value


def _inputs(graph: Graph, writers: Mapping[str, list[str]]) -> Iterator[tuple[str, Node, list[str]]]:
    """Yield the values that nodes read by name, each with its reader and the other nodes that write it."""
    for reader in graph.nodes.values():
        for value in reader.inputs:
            if value not in graph.bound:
                yield value, reader, [name for name in writers.get(value, ()) if name != reader.name]


def _on_one_loop(loop_of: Mapping[str, int], reader: str, writer: str) -> bool:
    return reader in loop_of and loop_of.get(writer) == loop_of[reader]


def _others(values: Iterable[str], required: Mapping[str, None]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(value for value in values if value not in required))


def required_fields(graph: Graph) -> tuple[str, ...]:
    """Return the schema fields that a run needs to construct an instance of the schema.

    They have no default and no reducer, no node writes them, and they are not bound. Fields that only unselected nodes
    use are not needed. A TypedDict has no required fields: it is a mapping at run time, and a key that a
    node reads by name is required anyway.
    """
    schema = graph.schema
    if schema is None or schema.is_mapping:
        return ()
    written = writers_of(graph.nodes)
    return tuple(
        name
        for name, field in schema.fields.items()
        if not (field.has_default or field.reducer is not None)
        and not (name in written or name in graph.bound or name in graph.unselected)
    )


def loops_of(nodes: Mapping[str, Node], among: tuple[Link, ...]) -> dict[str, int]:
    """Return the number of the loop of each node that is on one. Nested loops count as one."""
    names = list(nodes)
    index = {name: i for i, name in enumerate(names)}
    pairs = tuple(dict.fromkeys((index[link.source], index[link.target]) for link in among))
    # Without heads, loops are not split into inner ones: the result is the strongly connected sets.
    headless = Heads(frozenset(), lambda *_: False, lambda *_: False, lambda _: False, _no_nodes, _no_nodes)
    loops, _ = find_loops(len(names), pairs, headless)
    return {names[member]: number for number, loop in enumerate(loops) for member in loop.members}


def _no_nodes(_: int) -> tuple[int, ...]:
    return ()


def may_send(node: Node) -> bool:
    """Return whether a node may return ``Send``s, according to its annotation."""
    if not node.targets or node.kind == "ifelse":
        return False
    return node.kind == "node" or node.returns in (Any, object) or mentions(node.returns, Send)
