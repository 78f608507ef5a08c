"""Graph: nodes and what connects them, checked when it is built and unchanged ever after.

Rules:

- A graph is a definition. It holds no run, so one graph may be run many times, also at once.
- Nodes are ordered as declared; that order breaks ties everywhere.
- What is wrong is said when the graph is built (``validate.py``). One thing waits until it is used: an input
  that the schema does not declare may still be bound.
- ``bind`` and ``select`` return new graphs, ``as_node`` and ``map_over`` put this one inside another.

What a graph means when it runs is in ``topology.py`` (who waits for whom) and in the engine.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, overload

from clew.errors import GraphError
from clew.graph.annotations import register_classes
from clew.graph.description import describe, describe_as_text
from clew.graph.hashes import graph_code_hash, node_code_hash, structure_hash
from clew.graph.interface import Interface, read_interface, writers_of
from clew.graph.names import names_of, nearest
from clew.graph.node import Node, Param, as_node
from clew.graph.option_checks import check_flag, check_names, check_text
from clew.graph.selection import needed_nodes
from clew.graph.subgraph import MapMode
from clew.graph.subgraph_node import bound_inside, subgraph_node, unbound_inputs
from clew.graph.topology import Topology
from clew.graph.validation import check_declared, validate
from clew.state.schema import StateSchema, read_schema

if TYPE_CHECKING:
    from clew.state.input_types import Values

_NOTHING: Mapping[str, Any] = MappingProxyType({})


class Graph:
    """A graph of functions over named values."""

    name: str | None
    nodes: Mapping[str, Node]
    schema: StateSchema | None
    edges: tuple[tuple[str, str], ...]
    entry: tuple[str, ...]
    strict_types: bool
    bound: Mapping[str, Any]
    selected: tuple[str, ...] | None
    unselected: frozenset[str]
    """Values that only nodes which ``select`` left out read or write."""

    def __init__(
        self,
        nodes: Iterable[Any],
        *,
        name: str | None = None,
        state: type | None = None,
        edges: Iterable[Iterable[Any]] = (),
        entry: Any = None,
        strict_types: bool = False,
    ) -> None:
        """Build a graph, or raise `GraphError` that says what is wrong with it.

        Args:
            nodes: Nodes, gates, plain functions and other graphs, in the order that breaks ties.
            name: What the graph is called, also as a node of another graph.
            state: A TypedDict, dataclass, pydantic model or msgspec struct that declares the values.
            edges: Control links beside the dataflow: pairs of nodes, or longer chains.
            entry: Where a loop that could start in several places starts; one node, or several.
            strict_types: Whether producers and consumers of a value must agree on its type.
        """
        self.name = None if name is None else check_text(name, "name= of a Graph")
        self.schema = None if state is None else read_schema(state)
        self.nodes = MappingProxyType(_nodes(nodes, state))
        self.edges = _edges(edges)
        self.entry = () if entry is None else names_of(entry, "entry=")
        self.strict_types = check_flag(strict_types, "strict_types= of a Graph")
        self.bound = _NOTHING
        self.selected = None
        self.unselected = frozenset()
        self._topologies: dict[frozenset[str], Topology] = {}
        annotations = [p.annotation for node in self.nodes.values() for p in node.params]
        annotations += [node.returns for node in self.nodes.values()]
        register_classes([state, *annotations])
        validate(self)

    def __repr__(self) -> str:
        return f"<Graph {self.name or 'without name'}: {', '.join(self.nodes)}>"

    @cached_property
    def _interface(self) -> Interface:
        return read_interface(self)

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """What a run must or may be given: required inputs, seeds of loops, optional ones (`Interface`)."""
        return self._interface.required + self._interface.seeds + self._interface.optional

    @property
    def required_inputs(self) -> tuple[str, ...]:
        """What a run must be given: needed by some node, and written by no other."""
        return self._interface.required

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        """The values that nodes write, in order of declaration; after ``select``, the selected ones."""
        if self.selected is not None:
            return self.selected
        return tuple(dict.fromkeys(value for node in self.nodes.values() for value in node.outputs))

    @cached_property
    def value_names(self) -> tuple[str, ...]:
        """Every value that nodes read or write, or the schema declares."""
        read = [value for node in self.nodes.values() for value in node.inputs]
        written = [value for node in self.nodes.values() for value in node.outputs]
        return tuple(dict.fromkeys([*read, *written, *(self.schema.fields if self.schema else ())]))

    def bind(self, **values: Any) -> Graph:
        """A graph in which these values are there without being state: clients, models, settings."""
        read = {value for node in self.nodes.values() for value in node.inputs}
        if self.schema is not None:  # a field that is required has to be given or bound
            read |= self.schema.fields.keys() - writers_of(self.nodes).keys()
        known = {*read, *unbound_inputs(self)}
        for name in values:
            if name not in known:
                raise GraphError(
                    f"no node reads {name!r}, so it cannot be bound; {nearest(name, sorted(known))}"
                )
        nodes = {name: bound_inside(node, values) for name, node in self.nodes.items()}
        bound = {name: value for name, value in values.items() if name in read}
        return self._changed(nodes=MappingProxyType(nodes), bound=MappingProxyType({**self.bound, **bound}))

    def select(self, *values: str) -> Graph:
        """A graph with only what these values need."""
        if not values:
            raise GraphError("select() needs at least one value; name what you want to get.")
        for name in check_names(values, "what select() is given"):
            if name not in self.outputs:
                raise GraphError(
                    f"no node writes {name!r}, so it cannot be selected; {nearest(name, self.outputs)}"
                )
        nodes = needed_nodes(self.nodes, self.edges, values)
        return self._changed(
            nodes=MappingProxyType(nodes),
            edges=tuple(pair for pair in self.edges if pair[1] in nodes),
            entry=tuple(name for name in self.entry if name in nodes),
            selected=tuple(dict.fromkeys(values)),
            unselected=self.unselected | (_used(self.nodes) - _used(nodes)),
        )

    def _changed(self, **changes: Any) -> Graph:
        # A part of a graph that was checked needs no second check, and would warn twice.
        fields = (
            "name",
            "schema",
            "nodes",
            "edges",
            "entry",
            "strict_types",
            "bound",
            "selected",
            "unselected",
        )
        graph = object.__new__(type(self))
        graph.__dict__.update({name: changes.get(name, getattr(self, name)) for name in fields})
        graph._topologies = {}
        return graph

    def as_node(
        self,
        name: str | None = None,
        *,
        inputs: Iterable[str] | None = None,
        outputs: Iterable[str] | None = None,
        enter: Callable[[Any], Any] | None = None,
        leave: Callable[[Any], Any] | None = None,
        **options: Any,
    ) -> Node:
        """This graph as a node of another (``nesting.py``).

        Args:
            name: The node's name; the graph's own by default.
            inputs: The values it reads outside; by default what the graph inside takes.
            outputs: The values it writes outside; by default what the graph inside makes.
            enter: ``enter(values) -> values inside``; without ``inputs`` it is given the whole state.
            leave: ``leave(state inside) -> update outside``.
            options: The options of ``@node``: ``after, eager, retry, timeout, ...``
        """
        return subgraph_node(self, name, inputs=inputs, outputs=outputs, enter=enter, leave=leave, **options)

    def map_over(self, *values: str, mode: MapMode = "zip", name: str | None = None, **options: Any) -> Graph:
        """A graph that runs this one for each element of ``values``: lists go in, and lists come out."""
        if not values:
            raise GraphError("map_over() needs at least one input; name what to run the graph for.")
        if mode not in ("zip", "product"):
            raise GraphError(f"mode is 'zip' or 'product', not {mode!r}.")
        for value in check_names(values, "what map_over() is given"):
            if value not in self.inputs:
                raise GraphError(f"the graph takes no {value!r} to map over; {nearest(value, self.inputs)}")
        node = subgraph_node(self, name, mapped=tuple(dict.fromkeys(values)), mode=mode, **options)
        return Graph([node], name=node.name)

    @overload
    def describe(self, *, json: Literal[False] = False) -> str: ...
    @overload
    def describe(self, *, json: Literal[True]) -> dict[str, Any]: ...
    def describe(self, *, json: bool = False) -> str | dict[str, Any]:
        """What the graph is: a text to read, or plain data with ``json=True``."""
        return describe(self) if json else describe_as_text(self)

    def draw(self, format: Literal["mermaid", "dot", "svg"] = "mermaid") -> str:
        """The graph as a drawing."""
        from clew.drawing.formats import draw

        return draw(self, format)

    @cached_property
    def structure_hash(self) -> str:
        """A digest of nodes, values and links: a run can only be resumed under the same."""
        return structure_hash(self)

    @cached_property
    def node_hashes(self) -> Mapping[str, str]:
        """A digest of each node's code."""
        return MappingProxyType({name: node_code_hash(node) for name, node in self.nodes.items()})

    @cached_property
    def code_hash(self) -> str:
        """A digest of the code of all nodes and reducers."""
        return graph_code_hash(self)

    @cached_property
    def depth(self) -> int:
        """How many graphs stand inside each other here; 1 if no node is a graph."""
        inner = [node.subgraph.graph.depth for node in self.nodes.values() if node.subgraph is not None]
        return 1 + max(inner, default=0)

    @cached_property
    def has_async_nodes(self) -> bool:
        """Whether some node, at any depth, is an async function."""
        return any(
            node.mode in ("async", "async_generator")
            or (node.subgraph is not None and node.subgraph.graph.has_async_nodes)
            for node in self.nodes.values()
        )

    @cached_property
    def has_cached_nodes(self) -> bool:
        """Whether some node, at any depth, is cached."""
        return any(
            node.cache or (node.subgraph is not None and node.subgraph.graph.has_cached_nodes)
            for node in self.nodes.values()
        )

    def __getattr__(self, name: str) -> Any:
        """What other libraries call it, for those who come from there."""
        hint = _HABITS.get(name)
        if hint is None:
            raise AttributeError(f"a graph has no {name!r}")
        raise AttributeError(f"a graph has no {name!r}: {hint}")

    def has_topology(self, given: frozenset[str]) -> bool:
        """Whether `topology` was asked for these names before, and so has accepted them."""
        return given in self._topologies

    def topology(self, given: frozenset[str] = frozenset()) -> Topology:
        """Who waits for whom in a run that is given these names."""
        found = self._topologies.get(given)
        if found is None:
            check_declared(self)
            found = self._topologies[given] = Topology(self, given)
        return found

    def run(self, values: Values | None = None, /, **options: Any) -> Any:
        """Run the graph in memory and return its result.

        Given a mapping (or a `GraphState`, to go on from it), keywords are options of `Engine`; without,
        they are the values.
        """
        from clew.runtime.engine import passing

        if values is None:
            return passing(self, {}).run(options)
        return passing(self, options).run(values)

    async def arun(self, values: Values | None = None, /, **options: Any) -> Any:
        """`run`, for asyncio."""
        from clew.runtime.engine import passing

        if values is None:
            return await passing(self, {}).arun(options)
        return await passing(self, options).arun(values)


_GIVEN = "nodes and edges are given when it is made: Graph([f, g], edges=[...]); most edges follow from names"
_HABITS = {
    **dict.fromkeys(("add_node", "add_edge", "add_sequence", "set_entry_point", "set_finish_point"), _GIVEN),
    "add_conditional_edges": "a gate is a node: @route(targets=[...])",
    "compile": "it can be run as it is: graph.run(values), or Engine(graph, store=...)",
    "invoke": "call graph.run(values)",
    "ainvoke": "await graph.arun(values)",
    "stream": "Engine(graph).stream(values) yields the events",
    "astream": "Engine(graph).astream(values) yields the events",
}


def inside_event_loop() -> bool:
    """Whether the caller runs on an asyncio loop. Where nobody imported asyncio, nobody does."""
    asyncio = sys.modules.get("asyncio")
    return asyncio is not None and asyncio._get_running_loop() is not None


def _used(nodes: Mapping[str, Node]) -> set[str]:
    return {value for node in nodes.values() for value in (*node.inputs, *node.outputs)}


def _nodes(given: Iterable[Any], schema: type | None) -> dict[str, Node]:
    if isinstance(given, (Node, Graph)) or not isinstance(given, Iterable):
        raise GraphError(f"Graph takes a list of nodes, not {given!r}; write Graph([...]).")
    nodes: dict[str, Node] = {}
    for item in given:
        node = item.as_node() if isinstance(item, Graph) else as_node(item)
        if node.name in nodes:
            raise GraphError(
                f"two nodes are called {node.name!r}; give one another name with rename(name=...)."
            )
        nodes[node.name] = node if schema is None else _with_schema(node, schema)
    return nodes


def _with_schema(node: Node, schema: type) -> Node:
    """The node with its parameters annotated with the schema as whole-state parameters."""

    def is_state(p: Param) -> bool:
        return p.kind == "value" and (p.annotation is schema or p.hint == schema.__name__)

    if not any(map(is_state, node.params)):
        return node
    return replace(node, params=tuple(replace(p, kind="state") if is_state(p) else p for p in node.params))


def _edges(given: Iterable[Iterable[Any]]) -> tuple[tuple[str, str], ...]:
    if not isinstance(given, Iterable):
        raise GraphError(f"edges= of a Graph is a list of pairs of nodes, not {given!r}.")
    pairs: dict[tuple[str, str], None] = {}
    for chain in given:
        if not isinstance(chain, (list, tuple)) or len(chain) < 2:
            raise GraphError(f"an edge is a pair of nodes, or a longer chain, not {chain!r}.")
        pairs.update(dict.fromkeys(pairwise(names_of(chain, "edges="))))
    return tuple(pairs)
