"""The class `Graph`: nodes and their connections, validated when built and immutable afterwards.

Rules:

- A graph is a definition. It holds no run, so it can run many times, also concurrently.
- Nodes keep the order of their declaration. That order breaks all ties.
- Building a graph validates it (``validation.py``). One check is delayed until the graph is used: an input that the
  schema does not declare may still be bound.
- ``bind`` and ``select`` return new graphs. ``as_node`` and ``map_over`` put this one inside another.

``topology.py`` says which nodes wait for which; the engine runs them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from clew.errors import GraphError
from clew.graph.analysis.interface import Interface, read_interface
from clew.graph.analysis.selection import needed_nodes
from clew.graph.analysis.topology import Topology, writers_of
from clew.graph.analysis.validation import validate
from clew.graph.annotations import register_classes
from clew.graph.description import describe, describe_as_text
from clew.graph.hashing.hashes import graph_code, structure_hash
from clew.graph.names import names_of, nearest, similar
from clew.graph.node import Node, Param, as_node
from clew.graph.node_options import SubgraphOptions, Target, Targets
from clew.graph.option_checks import check_flag, check_names, check_text
from clew.graph.subgraph import MapMode
from clew.graph.subgraph_node import bound_inside, subgraph_node, unbound_inputs
from clew.state.schema import StateSchema, read_schema

if TYPE_CHECKING:
    from clew.runtime.result import RunResult
    from clew.runtime.settings import RunOptions
    from clew.state.input_types import Values

_MOST_DRAWN = 100
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
    """Values that only nodes removed by ``select`` read or write."""

    def __init__(
        self,
        nodes: Iterable[Any],
        *,
        name: str | None = None,
        state: type | None = None,
        edges: Iterable[Sequence[Target]] = (),
        entry: Targets | None = None,
        strict_types: bool = False,
    ) -> None:
        """Build and validate a graph. Raises `GraphError` with the first problem found.

        Args:
            nodes: Nodes, gates, plain functions and other graphs. Their order breaks ties.
            name: The name of the graph, also used if it becomes a node of another graph.
            state: A TypedDict, dataclass, pydantic model or msgspec struct that declares the values.
            edges: Control links in addition to the dataflow: pairs of nodes, or longer chains.
            entry: The node or nodes where a loop starts, if it could start in several places.
            strict_types: Whether writers and readers of a value must agree on its type.
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
        self._engine: Any = None  # kept by `clew.runtime.graph_runs.engine_of`
        annotations = [p.annotation for node in self.nodes.values() for p in node.params]
        annotations += [node.returns for node in self.nodes.values()]
        register_classes([state, *annotations])
        validate(self)

    def __repr__(self) -> str:
        from clew.display import listed

        return f"<Graph {self.name or 'without name'}: {listed(self.nodes)}>"

    def _repr_html_(self) -> str:
        if len(self.nodes) > _MOST_DRAWN:  # a large drawing is slow, and cannot be read
            from clew.display import block, page

            return page(block(repr(self)))
        return f'<div style="max-width:100%;overflow:auto">{self.draw("svg")}</div>'

    @cached_property
    def _interface(self) -> Interface:
        return read_interface(self)

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """All inputs of a run: required ones, seeds of loops, optional ones (`Interface`)."""
        return self._interface.required + self._interface.seeds + self._interface.optional

    @property
    def required_inputs(self) -> tuple[str, ...]:
        """The inputs that a run needs: some node reads them, and no other node writes them."""
        return self._interface.required

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        """The values that nodes write, in order of declaration; after ``select``, the selected ones."""
        if self.selected is not None:
            return self.selected
        return tuple(dict.fromkeys(value for node in self.nodes.values() for value in node.outputs))

    @cached_property
    def value_names(self) -> tuple[str, ...]:
        """The values that nodes read or write, or that the schema declares."""
        read = [value for node in self.nodes.values() for value in node.inputs]
        written = [value for node in self.nodes.values() for value in node.outputs]
        return tuple(dict.fromkeys([*read, *written, *(self.schema.fields if self.schema else ())]))

    def bind(self, **values: Any) -> Graph:
        """Return a graph whose nodes receive these values without storing them in the state: clients, settings."""
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
        """Return a graph with only the nodes that these values need."""
        if not values:
            raise GraphError("select() needs at least one value; name the outputs that you want.")
        for name in check_names(values, "the arguments of select()"):
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
        # A part of a validated graph is valid; validating it again would repeat its warnings.
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
        graph._engine = None
        return graph

    def as_node(
        self,
        name: str | None = None,
        *,
        inputs: Iterable[str] | None = None,
        outputs: Iterable[str] | None = None,
        transform_input: Callable[[Any], Any] | None = None,
        transform_output: Callable[[Any], Any] | None = None,
        **options: Unpack[SubgraphOptions],
    ) -> Node:
        """Return a node that runs this graph inside another one.

        Args:
            name: The node's name. Default: the graph's name.
            inputs: The values to read from the outer state. Default: the inputs of this graph.
            outputs: The values to write to the outer state. Default: the outputs of this graph.
            transform_input: ``f(outer values) -> inner values``. Without ``inputs`` it receives the whole state.
            transform_output: ``f(inner state) -> update of the outer state``.
            options: The options of ``@node``: ``after, eager, retry, timeout, ...``
        """
        return subgraph_node(
            self,
            name,
            inputs=inputs,
            outputs=outputs,
            transform_input=transform_input,
            transform_output=transform_output,
            **options,
        )

    def map_over(
        self, *values: str, mode: MapMode = "zip", name: str | None = None, **options: Unpack[SubgraphOptions]
    ) -> Graph:
        """Return a graph that runs this one for each element of ``values``: inputs and outputs become lists."""
        if not values:
            raise GraphError("map_over() needs at least one input; name the inputs to map over.")
        if mode not in ("zip", "product"):
            raise GraphError(f"mode: expected 'zip' or 'product', got {mode!r}.")
        for value in check_names(values, "the arguments of map_over()"):
            if value not in self.inputs:
                raise GraphError(
                    f"the graph has no input {value!r} to map over; {nearest(value, self.inputs)}"
                )
        node = subgraph_node(self, name, mapped=tuple(dict.fromkeys(values)), mode=mode, **options)
        return Graph([node], name=node.name)

    @overload
    def describe(self, *, json: Literal[False] = False) -> str: ...
    @overload
    def describe(self, *, json: Literal[True]) -> dict[str, Any]: ...
    def describe(self, *, json: bool = False) -> str | dict[str, Any]:
        """Describe the graph as text, or as plain data with ``json=True``, with the code that no code hash covers."""
        unhashed = graph_code(self).unhashed
        if json:
            return {**describe(self), "unhashed": {name: list(found) for name, found in unhashed.items()}}
        return describe_as_text(self, unhashed)

    def draw(self, format: Literal["mermaid", "dot", "svg"] = "mermaid") -> str:
        """Draw the graph."""
        from clew.drawing.formats import draw

        return draw(self, format)

    @cached_property
    def structure_hash(self) -> str:
        """A digest of nodes, values and links. A run can only be resumed with the same one."""
        return structure_hash(self)

    @property
    def node_hashes(self) -> Mapping[str, str]:
        """A digest of each node's code, with the constants and functions that it names (``clew.graph.hashing``)."""
        return graph_code(self).nodes

    @property
    def code_hash(self) -> str:
        """A digest of the code of all nodes and reducers."""
        return graph_code(self).digest

    @cached_property
    def has_async_nodes(self) -> bool:
        """Whether any node, at any depth, is an async function."""
        return any(
            node.mode in ("async", "async_generator")
            or (node.rescue is not None and node.rescue.mode == "async")
            or (node.subgraph is not None and node.subgraph.graph.has_async_nodes)
            for node in self.nodes.values()
        )

    @cached_property
    def has_cached_nodes(self) -> bool:
        """Whether any node, at any depth, is cached."""
        return any(
            node.cache is not None or (node.subgraph is not None and node.subgraph.graph.has_cached_nodes)
            for node in self.nodes.values()
        )

    if not TYPE_CHECKING:  # a type checker reports an unknown attribute

        def __getattr__(self, name: str) -> Any:
            """Explain which method replaces one that similar libraries have."""
            hint = _HABITS.get(name)
            if hint is None:
                meant = None if name.startswith("_") else similar(name, dir(type(self)))
                end = f"; did you mean {meant!r}?" if meant else ""
                raise AttributeError(f"a graph has no {name!r}{end}")
            raise AttributeError(f"a graph has no {name!r}: {hint}")

    @overload
    def run(self, values: Values, /, **options: Unpack[RunOptions]) -> RunResult: ...
    @overload
    def run(self, values: None = None, /, **inputs: Any) -> RunResult: ...
    def run(self, values: Values | None = None, /, **options: Any) -> RunResult:
        """Run the graph in memory and return its result.

        With a mapping or a `GraphState` (to continue from it), keyword arguments are options of `Engine`. Without
        one, they are the values.
        """
        if values is not None and not options and self._engine is not None:
            result: RunResult = self._engine.run(values)
            return result
        from clew.runtime.graph_runs import checked, engine_of

        if values is None:
            return engine_of(self, {}).run(checked(self, options))
        progress = options.pop("progress", False) if options else False
        return engine_of(self, options).run(values, progress=progress)

    @overload
    async def arun(self, values: Values, /, **options: Unpack[RunOptions]) -> RunResult: ...
    @overload
    async def arun(self, values: None = None, /, **inputs: Any) -> RunResult: ...
    async def arun(self, values: Values | None = None, /, **options: Any) -> RunResult:
        """Run the graph in memory, as `run` does, for asyncio."""
        if values is not None and not options and self._engine is not None:
            result: RunResult = await self._engine.arun(values)
            return result
        from clew.runtime.graph_runs import checked, engine_of

        if values is None:
            return await engine_of(self, {}).arun(checked(self, options))
        progress = options.pop("progress", False) if options else False
        return await engine_of(self, options).arun(values, progress=progress)


_GIVEN = "pass nodes and edges to the constructor: Graph([f, g], edges=[...]); most edges follow from names"
_HABITS = {
    **dict.fromkeys(("add_node", "add_edge", "add_sequence", "set_entry_point", "set_finish_point"), _GIVEN),
    "add_conditional_edges": "a gate is a node: @route(targets=[...])",
    "compile": "call graph.run(values) directly, or use Engine(graph, store=...)",
    "invoke": "call graph.run(values)",
    "ainvoke": "await graph.arun(values)",
    "stream": "Engine(graph).stream(values) yields the events",
    "astream": "Engine(graph).astream(values) yields the events",
}


def inside_event_loop() -> bool:
    """Return whether the caller runs on an asyncio loop."""
    asyncio = sys.modules.get("asyncio")  # importing it would be slow, and it is not needed
    return asyncio is not None and asyncio._get_running_loop() is not None


def _used(nodes: Mapping[str, Node]) -> set[str]:
    return {value for node in nodes.values() for value in (*node.inputs, *node.outputs)}


def _nodes(given: Iterable[Any], schema: type | None) -> dict[str, Node]:
    if isinstance(given, (Node, Graph)) or not isinstance(given, Iterable):
        raise GraphError(f"Graph: expected a list of nodes, got {given!r}; write Graph([...]).")
    nodes: dict[str, Node] = {}
    for item in given:
        if isinstance(item, (str, list, tuple)):
            raise GraphError(
                f"Graph: expected a node, a function or a graph, got {item!r}; write Graph([f, g])."
            )
        node = item.as_node() if isinstance(item, Graph) else as_node(item)
        if node.name in nodes:
            raise GraphError(f"two nodes have the name {node.name!r}; change one with rename(name=...).")
        nodes[node.name] = node if schema is None else _with_schema(node, schema)
    return nodes


def _with_schema(node: Node, schema: type) -> Node:
    """Return the node with parameters that are annotated with the schema as whole-state parameters."""

    def is_state(p: Param) -> bool:
        # A generic class with arguments may be another object each time: Page[int] == Page[int].
        is_schema = type(p.annotation) is type(schema) and p.annotation == schema
        return p.kind == "value" and (is_schema or p.hint == schema.__name__)

    if not any(map(is_state, node.params)):
        return node
    return replace(node, params=tuple(replace(p, kind="state") if is_state(p) else p for p in node.params))


def _edges(given: Iterable[Sequence[Target]]) -> tuple[tuple[str, str], ...]:
    if not isinstance(given, Iterable):
        raise GraphError(f"edges= of a Graph: expected a list of pairs of nodes, got {given!r}.")
    pairs: dict[tuple[str, str], None] = {}
    for chain in given:
        if not isinstance(chain, (list, tuple)) or len(chain) < 2:
            raise GraphError(f"edges= of a Graph: expected a pair of nodes or a longer chain, got {chain!r}.")
        pairs.update(dict.fromkeys(pairwise(names_of(chain, "edges="))))
    return tuple(pairs)
