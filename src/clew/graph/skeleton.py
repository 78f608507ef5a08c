"""Rebuild a graph from its description, without the user's code.

The skeleton has the nodes, links, values and rules of the described graph, so everything that only reads a run gives
the same results: due items, versions, wakes, reasons, digests. Anything that would call the user's code raises
`InputError`: nodes, transforms of subgraphs, custom reducers, defaults.

A description comes from a store and may be damaged or forged. It is validated completely before it is used; a problem
raises `StoreCorruptError`. Names of functions and types are only text. Nothing is imported by name, and the only
functions that are looked up are the reducers of this library.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from types import MappingProxyType
from typing import Any

import msgspec

from clew.errors import InputError, StoreCorruptError
from clew.graph.annotations import function_name
from clew.graph.graph import Graph
from clew.graph.node import Node, NodeKind, Shape
from clew.graph.signature import ABSENT, MISSING, Param, ParamKind
from clew.graph.subgraph import MapMode, Subgraph
from clew.graph.subgraph_node import MAX_DEPTH
from clew.state.reducers import Reducer, append, merge
from clew.state.schema import Field, StateSchema


class _ParamForm(msgspec.Struct):
    name: str
    source: str
    kind: ParamKind
    keyword_only: bool
    has_default: bool
    type: str


class _FieldForm(msgspec.Struct):
    type: str
    reducer: str | None
    has_default: bool


class _StateForm(msgspec.Struct):
    name: str
    validates: bool
    is_mapping: bool
    fields: dict[str, _FieldForm]


class _SubgraphForm(msgspec.Struct):
    graph: _GraphForm
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    transform_input: bool
    transform_output: bool
    mapped: tuple[str, ...]
    mode: MapMode


class _NodeForm(msgspec.Struct):
    name: str
    kind: NodeKind
    description: str
    params: tuple[_ParamForm, ...]
    shape: Shape
    writes: tuple[tuple[str, str], ...]
    targets: tuple[str, ...]
    pruned: tuple[str, ...]
    multi: bool
    when: tuple[str, str] | None
    after: tuple[str, ...]
    is_join: bool
    eager: bool
    cutoff: bool
    subgraph: _SubgraphForm | None


class _GraphForm(msgspec.Struct):
    name: str | None
    bound: tuple[str, ...]
    selected: tuple[str, ...] | None
    unselected: frozenset[str]
    state: _StateForm | None
    nodes: tuple[_NodeForm, ...]
    edges: tuple[tuple[str, str], ...]
    entry: tuple[str, ...]


_OWN: dict[str, Reducer] = {function_name(own): own for own in (operator.add, merge, append)}


def skeleton(description: Any) -> Graph:
    """Make a graph from a description (``graph.describe(json=True)``).

    Raises:
        StoreCorruptError: The data is not a description of a graph.
    """
    try:
        form = msgspec.convert(description, _GraphForm)
    except (msgspec.ValidationError, UnicodeError) as error:
        raise StoreCorruptError(f"the description of a graph is damaged: {error}") from error
    except RecursionError:
        raise StoreCorruptError("the description of a graph is damaged: it is nested too deeply") from None
    return _graph(form, 1)


def _graph(form: _GraphForm, depth: int) -> Graph:
    if depth > MAX_DEPTH:
        raise StoreCorruptError(
            f"the description of a graph is damaged: it nests more than {MAX_DEPTH} graphs"
        )
    nodes = {node.name: _node(node, depth) for node in form.nodes}
    _check(form, nodes)
    graph = object.__new__(Graph)
    graph.name = form.name
    graph.schema = None if form.state is None else _schema(form.state)
    graph.nodes = MappingProxyType(nodes)
    graph.edges = form.edges
    graph.entry = form.entry
    graph.strict_types = False
    graph.bound = MappingProxyType(dict.fromkeys(form.bound))
    graph.selected = form.selected
    graph.unselected = form.unselected
    graph._topologies = {}
    graph._engine = None
    return graph


def _check(form: _GraphForm, nodes: dict[str, Node]) -> None:
    """Raise StoreCorruptError for references to nodes that do not exist."""
    if len(nodes) < len(form.nodes):
        raise StoreCorruptError("the description of a graph is damaged: two nodes have the same name")
    for node in form.nodes:
        _check_names(nodes, node.after, f"node {node.name!r} runs after")
        _check_names({*nodes, "END"}, node.targets, f"node {node.name!r} leads to")
        if (node.kind == "subgraph") != (node.subgraph is not None) or (node.kind == "ifelse") != (
            node.when is not None
        ):
            raise StoreCorruptError(
                f"the description of a graph is damaged: node {node.name!r} is not a valid {node.kind}"
            )
    for pair in form.edges:
        _check_names(nodes, pair, "an edge joins")
    _check_names(nodes, form.entry, "it starts at")


def _check_names(known: Iterable[str], names: Iterable[str], what: str) -> None:
    for name in names:
        if name not in known:
            raise StoreCorruptError(
                f"the description of a graph is damaged: {what} {name!r}, which does not exist"
            )


def _node(form: _NodeForm, depth: int) -> Node:
    return Node(
        name=form.name,
        func=_absent(f"the code of node {form.name!r}"),
        kind=form.kind,
        params=tuple(
            Param(p.name, p.source, p.kind, p.keyword_only, ABSENT if p.has_default else MISSING, p.type)
            for p in form.params
        ),
        outputs=tuple(value for _, value in form.writes),
        shape=form.shape,
        writes=MappingProxyType(dict(form.writes)),
        targets=form.targets,
        pruned=form.pruned,
        multi=form.multi,
        when=form.when,
        after=form.after,
        is_join=form.is_join,
        eager=form.eager,
        cutoff=_absent(f"the cutoff of node {form.name!r}") if form.cutoff else None,
        description=form.description,
        subgraph=None if form.subgraph is None else _subgraph(form.subgraph, form.name, depth),
    )


def _subgraph(form: _SubgraphForm, name: str, depth: int) -> Subgraph:
    return Subgraph(
        graph=_graph(form.graph, depth + 1),
        inputs=form.inputs,
        outputs=form.outputs,
        transform_input=_absent(f"transform_input= of {name!r}") if form.transform_input else None,
        transform_output=_absent(f"transform_output= of {name!r}") if form.transform_output else None,
        mapped=form.mapped,
        mode=form.mode,
    )


def _schema(form: _StateForm) -> StateSchema:
    fields = {
        name: Field(
            name,
            field.type,
            _reducer(name, field.reducer),
            field.has_default,
            _absent(f"the default of {name!r}"),
        )
        for name, field in form.fields.items()
    }
    try:
        return StateSchema.described(form.name, fields, validates=form.validates, is_mapping=form.is_mapping)
    except ValueError as error:
        raise StoreCorruptError(
            f"the description of a graph is damaged: {form.name!r} is not a class name"
        ) from error


def _reducer(value: str, name: str | None) -> Reducer | None:
    if name is None:
        return None
    if name in _OWN:
        return _OWN[name]
    reducer = _absent(f"the reducer of {value!r}")
    reducer.__module__, _, reducer.__qualname__ = name.partition(":")
    return reducer


def _absent(what: str) -> Callable[..., Any]:
    """Return a function that raises InputError, in place of the user's."""

    def absent(*args: Any, **kwargs: Any) -> Any:
        raise InputError(
            f"{what} is not available, because the graph was read from a run's log; pass the graph to the Engine"
        )

    return absent
