"""Hashes that show whether a graph, or the code of a node, has changed since a run was recorded.

``structure_hash`` covers what decides which items exist and how they depend on each other: names, kinds, parameters,
outputs, targets, links, and the schema's fields with types, reducers and whether they have defaults; also those of
subgraphs. It is the same in every process, and for a graph that ``clew.graph.skeleton`` rebuilds from a description.
It does not cover docstrings, descriptions and JSON Schemas.

``graph_code`` has the hashes of a graph's code (``code_hashes``): of each node, of each reducer, and of all together.
They are computed on first use, and again only if a module value that they cover was assigned again.

``field_hashes`` shows whether the validation of a field has changed. A hash covers the type of the field with the
classes of the user's package that it names, its constraints and validators, and the configuration of its class. Fields
of schemas that validate nothing have no hash.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any
from weakref import WeakKeyDictionary

from clew.graph.annotations import function_name, shown
from clew.graph.hashing.code_hashes import CodeHash, Read, are_current, code_hash, rules_hash
from clew.graph.signature import MISSING
from clew.state.schema import StateSchema
from clew.state.values.codec import digest, encode

if TYPE_CHECKING:
    from clew.graph.graph import Graph
    from clew.graph.node import Node


def structure_hash(graph: Graph) -> str:
    """Return the digest of a graph's structure."""
    return digest(b"clew:structure", encode(structure(graph)))


def structure(graph: Graph) -> dict[str, Any]:
    """Return a graph's structure as plain data; it is what `structure_hash` hashes."""
    schema = graph.schema
    return {
        "nodes": [_node(node) for node in graph.nodes.values()],
        "edges": sorted(map(list, graph.edges)),
        "entry": sorted(graph.entry),
        "selected": None if graph.selected is None else list(graph.selected),
        "state": None
        if schema is None
        else {
            field.name: [
                shown(field.type),
                None if field.reducer is None else function_name(field.reducer),
                field.has_default,
            ]
            for field in schema.fields.values()
        },
    }


def _node(node: Node) -> dict[str, Any]:
    inner = node.subgraph
    return {
        "name": node.name,
        "kind": node.kind,
        "params": [[p.name, p.source, p.kind, p.keyword_only, p.default is not MISSING] for p in node.params],
        "shape": node.shape,
        "writes": [list(pair) for pair in node.writes.items()],
        "targets": list(node.targets),
        "pruned": list(node.pruned),
        "multi": node.multi,
        "when": None if node.when is None else list(node.when),
        "after": {"all_of": sorted(node.after)} if node.is_join else sorted(node.after),
        "eager": node.eager,
        "cutoff": node.cutoff is not None,
        "subgraph": None
        if inner is None
        else {
            "graph": structure(inner.graph),
            "transform_input": inner.transform_input is not None,
            "transform_output": inner.transform_output is not None,
            "mapped": list(inner.mapped),
            "mode": inner.mode,
        },
    }


@dataclass(frozen=True, eq=False)
class GraphCode:
    """The hashes of a graph's code. `reads` are the module values that they cover."""

    digest: str
    nodes: Mapping[str, str]
    reducers: Mapping[str, str]
    unhashed: Mapping[str, tuple[str, ...]]
    reads: tuple[Read, ...] = field(repr=False)


def graph_code(graph: Graph) -> GraphCode:
    """Return the hashes of a graph's code: the same object while nothing that they cover has changed."""
    known: GraphCode | None = graph.__dict__.get("_code")
    if known is not None and (not known.reads or are_current(known.reads)):
        return known
    fields = {} if graph.schema is None else graph.schema.fields
    reducers = {name: code_hash(each.reducer) for name, each in fields.items() if each.reducer is not None}
    parts = {name: _parts(node) for name, node in graph.nodes.items()}
    nodes = {name: _joint_digest(each) for name, each in parts.items()}
    codes = [part.encode(errors="surrogatepass") for pair in nodes.items() for part in pair]
    reduced = {name: part.digest for name, part in reducers.items()}
    made = graph.__dict__["_code"] = GraphCode(
        digest(b"clew:graph code", *codes, b"reducers", *map(str.encode, reduced.values())),
        MappingProxyType(nodes),
        reduced,
        {name: whats for name in graph.nodes if (whats := _unhashed(parts[name]))},
        tuple(read for part in chain(reducers.values(), *parts.values()) if part for read in part.reads),
    )
    return made


def _joint_digest(parts: Iterable[CodeHash | GraphCode | None]) -> str:
    return digest(b"clew:node code", *(part.digest.encode() if part else b"" for part in parts))


def _parts(node: Node) -> tuple[CodeHash | GraphCode | None, ...]:
    """Return the hashes of a node: of its function or its subgraph, its cutoff and its rescue function."""
    inner = node.subgraph
    rescue = () if node.rescue is None else (_hashed(node, "rescue", node.rescue.func),)
    if inner is None:
        return _hashed(node, "func", node.func), _hashed(node, "cutoff", node.cutoff), *rescue
    return (
        graph_code(inner.graph),
        _hashed(node, "transform_input", inner.transform_input),
        _hashed(node, "transform_output", inner.transform_output),
        _hashed(node, "cutoff", node.cutoff),
        *rescue,
    )


def _hashed(node: Node, what: str, func: Any) -> CodeHash | None:
    """Return the hash of a function of a node. The node keeps it, because other graphs may have the node too."""
    if func is None:
        return None
    known = node.__dict__.setdefault("_code", {})
    found: CodeHash | None = known.get(what)
    if found is None or not found.is_current():
        annotations = [p.annotation for p in node.params] if what in ("func", "rescue") else ()
        found = known[what] = code_hash(func, annotations)
    return found


def _unhashed(parts: Iterable[CodeHash | GraphCode | None]) -> tuple[str, ...]:
    """Return what the hash of a node does not cover; in a subgraph with the name of the inner node."""
    found: set[str] = set()
    for part in parts:
        if isinstance(part, GraphCode):
            found |= {f"{name}: {what}" for name, whats in part.unhashed.items() for what in whats}
        elif part is not None:
            found.update(part.unhashed)
    return tuple(sorted(found))


_known: WeakKeyDictionary[StateSchema, dict[str, str]] = WeakKeyDictionary()


def field_hashes(schema: StateSchema | None) -> Mapping[str, str]:
    """Return the hashes of the fields of a schema, by name."""
    if schema is None or not schema.validates:
        return {}
    found = _known.get(schema)
    if found is None:
        found = _known[schema] = {name: _hash(schema, name) for name in schema.fields}
    return found


def _hash(schema: StateSchema, name: str) -> str:
    bare, metadata, rules = schema.rules(name)
    # a reducer has a separate hash
    kept = tuple(each for each in metadata if each is not schema.fields[name].reducer)
    annotation = Annotated[(bare, *kept)] if kept else bare
    return rules_hash(schema.cls, annotation, dict(rules), schema.fields[name].reducer is None)[:16]
