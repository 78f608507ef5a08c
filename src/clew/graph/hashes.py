"""Hashes that show whether a graph, or the code of a node, has changed since a run was recorded.

``structure_hash`` covers what decides which items exist and how they depend on each other: names, kinds, parameters,
outputs, targets, links, and the schema's fields with types, reducers and whether they have defaults; also those of
subgraphs. It is the same in every process, and for a graph that ``clew.graph.skeleton`` rebuilds from a description.
It does not cover docstrings, descriptions and JSON Schemas.

``code_hash`` covers what a function does: instructions with their constants and names, defaults and closure values. It
does not cover line numbers, docstrings, comments, or functions called by global name. A value is hashed by its
canonical encoding, or by its class if it has none. A function in a closure is hashed by its code, so the hash of a
decorated function covers the function. The hash depends on the Python version, because instructions do.
"""

from __future__ import annotations

import dis
import functools
import inspect
import types
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from clew.errors import EncodeError
from clew.graph.annotations import function_name, shown
from clew.graph.signature import MISSING
from clew.state.codec import digest, encode

if TYPE_CHECKING:
    from clew.graph.graph import Graph
    from clew.graph.node import Node

# Only the flags that affect how a function is called and run.
_FLAGS = (
    inspect.CO_VARARGS
    | inspect.CO_VARKEYWORDS
    | inspect.CO_GENERATOR
    | inspect.CO_COROUTINE
    | inspect.CO_ASYNC_GENERATOR
)
_SKIPPED = frozenset({"EXTENDED_ARG", "CACHE", "NOP", "RESUME"})


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
        "after": sorted(node.after),
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


def graph_code_hash(graph: Graph) -> str:
    """Return the digest of the code of a graph's nodes and reducers."""
    parts = [part.encode() for pair in graph.node_hashes.items() for part in pair]
    fields = () if graph.schema is None else graph.schema.fields.values()
    reducers = [code_hash(field.reducer).encode() for field in fields if field.reducer is not None]
    return digest(b"clew:graph code", *parts, b"reducers", *reducers)


def node_code_hash(node: Node) -> str:
    """Return the digest of a node's code: its function or its subgraph, its cutoff and its rescue."""
    inner = node.subgraph
    if inner is None:
        parts = [code_hash(node.func), _optional(node.cutoff)]
    else:
        parts = [
            inner.graph.code_hash,
            _optional(inner.transform_input),
            _optional(inner.transform_output),
            _optional(node.cutoff),
        ]
    if node.rescue is not None:
        parts.append(code_hash(node.rescue.func))
    return digest(b"clew:node code", *(part.encode() for part in parts))


def _optional(func: Callable[..., Any] | None) -> str:
    return "" if func is None else code_hash(func)


def code_hash(func: Callable[..., Any]) -> str:
    """Return the digest of a function's code."""
    return digest(b"clew:code", *_callable(func, ()))


def _callable(func: Any, inside: tuple[int, ...]) -> Iterator[bytes]:
    """Yield the parts of a callable. ``inside`` holds the enclosing ones, because a closure may hold its function."""
    if id(func) in inside:
        yield b"recursion"
        return
    inside = (*inside, id(func))
    if isinstance(func, types.FunctionType):
        yield from _code(func.__code__)
        yield from _value((func.__defaults__, func.__kwdefaults__), inside)
        for name, cell in zip(func.__code__.co_freevars, func.__closure__ or (), strict=True):
            yield name.encode()
            yield from _cell(cell, inside)
    elif isinstance(func, functools.partial):
        yield b"partial"
        yield from _callable(func.func, inside)
        yield from _value((func.args, func.keywords), inside)
    elif inspect.ismethod(func):
        yield from _callable(func.__func__, inside)
        yield _class(func.__self__)
    elif hasattr(func, "__wrapped__"):  # a node, or what functools.lru_cache makes
        yield from _callable(func.__wrapped__, inside)
    elif isinstance(func, type) or inspect.isroutine(func):
        yield function_name(func).encode()
    else:
        yield _class(func)
        yield from _callable(type(func).__call__, inside)
        yield from _value(vars(func) if hasattr(func, "__dict__") else None, inside)


def _cell(cell: types.CellType, inside: tuple[int, ...]) -> Iterator[bytes]:
    try:
        value = cell.cell_contents
    except ValueError:
        yield b"empty"
    else:
        yield from _value(value, inside)


def _code(code: types.CodeType) -> Iterator[bytes]:
    """Yield the parts of a code object. Constants are hashed by value, because a docstring shifts their numbers."""
    shape = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags & _FLAGS)
    yield repr((shape, code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])).encode()
    yield code.co_exceptiontable
    for instruction in dis.get_instructions(code):
        if instruction.opname in _SKIPPED:
            continue
        yield instruction.opname.encode()
        if instruction.opcode in dis.hasconst:
            yield from _value(instruction.argval, ())
        else:
            yield instruction.argrepr.encode() or repr(instruction.argval).encode()


def _value(value: Any, inside: tuple[int, ...]) -> Iterator[bytes]:
    """Yield the parts of a constant, a default or a closure value."""
    if isinstance(value, types.CodeType):
        yield b"code"
        yield from _code(value)
    elif value is ...:
        yield b"..."
    elif type(value) is tuple:
        yield b"tuple %d" % len(value)
        for item in value:
            yield from _value(item, inside)
    elif type(value) is dict and all(isinstance(key, str) for key in value) and id(value) not in inside:
        yield b"dict %d" % len(value)
        for key in sorted(value):
            yield key.encode()
            yield from _value(value[key], (*inside, id(value)))
    elif callable(value) and not isinstance(value, type):
        yield b"function"
        yield from _callable(value, inside)
    elif isinstance(value, type):
        yield function_name(value).encode()
    else:
        try:
            yield encode(value)
        except EncodeError:
            yield _class(value)


def _class(value: Any) -> bytes:
    return f"{type(value).__module__}:{type(value).__qualname__}".encode()
