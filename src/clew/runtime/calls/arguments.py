"""Call a node's function with arguments from the values of an item.

An input comes from the first of these that has it: the payload, the state, the bound values, the default of the
parameter. A mutable default is copied for each call. How to call a node is computed once per program. Most nodes read
only values that are certainly in the state, and use a faster path.

Every call is guarded (``clew.runtime.calls.mutation_check``): plain and async functions here, generators by the host,
because they end when they are exhausted.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from itertools import islice
from types import MappingProxyType
from typing import Any

from clew.engine.fast_path import UNSIZED
from clew.engine.frame import Item
from clew.engine.program import Program
from clew.errors import ClassChangedError
from clew.graph import Node
from clew.graph.key_functions import state_names, wanted_by_key
from clew.graph.signature import MISSING
from clew.runtime.calls.mutation_check import Guard, Input, guard_of
from clew.state.stored_object import StoredObject, find_stored, have_been_made
from clew.state.values.codec import why_unbuilt

Arguments = tuple[list[Any], dict[str, Any]]
Call = Callable[[Item, Any], Any]
"""Calls the function of an item, with a context if the function takes one."""

FIELDS = 64
"""How many fields of a whole state are guarded."""

_UNCHANGING = (type(None), bool, int, float, complex, str, bytes, tuple, frozenset, type)


def calls_of(program: Program) -> list[tuple[Call, bool, bool]]:
    """Return for each node how to call it, whether it takes a context, and whether a call needs no preparation."""
    calls: list[tuple[Call, bool, bool]] = []
    for node in program.nodes:
        takes_context = any(p.kind == "context" for p in node.params)
        effects = node.side_effects
        is_bare = (
            not takes_context
            and node.mode in ("sync", "async")
            and not (effects.recordable or effects.requires_idempotency)
        )
        calls.append((_call_of(program, node), takes_context, is_bare))
    program.calls = calls
    return calls


def _call_of(program: Program, node: Node) -> Call:
    call = _plain_call_of(program, node)
    if node.rescuer is None:
        return call
    rescue = _plain_call_of(program, node.rescuer)
    return lambda item, context: (call if item.node is node else rescue)(item, context)


def _plain_call_of(program: Program, node: Node) -> Call:
    func = node.func
    sources = tuple(p.source for p in node.params)
    plain = all(
        p.kind == "value" and not p.keyword_only and p.default is MISSING and p.source not in program.bound
        for p in node.params
    )

    guarded = Guard.start if node.mode == "async" else Guard.call

    def general(item: Item, context: Any) -> Any:
        inputs: list[Input] = []
        args, kwargs = arguments(item, context, inputs)
        guard = guard_of(item, inputs)
        return func(*args, **kwargs) if guard is None else guarded(guard, func, *args, **kwargs)

    if not plain:
        return general
    if len(sources) == 1:
        (source,) = sources

        def one(item: Item, context: Any) -> Any:
            batch = item.batch
            payload = batch.payloads[item.index]
            value = (
                payload[source]
                if payload is not None and source in payload
                else batch.working_state.values[source]
            )
            if type(value) in UNSIZED:
                return func(value)
            guard = guard_of(item, ((source, value),))
            return func(value) if guard is None else guarded(guard, func, value)

        return one

    def short(item: Item, context: Any) -> Any:
        batch = item.batch
        values, payload = batch.working_state.values, batch.payloads[item.index]
        if payload is not None:
            args = [payload[source] if source in payload else values[source] for source in sources]
        else:
            args = [values[source] for source in sources]
        if UNSIZED.issuperset(map(type, args)):
            return func(*args)
        guard = guard_of(item, zip(sources, args, strict=True))
        return func(*args) if guard is None else guarded(guard, func, *args)

    return short


def arguments(item: Item, context: Any, inputs: list[Input] | None = None) -> Arguments:
    """Return the arguments of an item's function; append values from state and payload to `inputs`."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    inputs = [] if inputs is None else inputs
    for param in item.node.params:
        if param.kind == "context":
            value = context
        elif param.kind == "error":
            value = item.failures[0].error
        elif param.kind == "state":
            values = item.values()
            inputs.extend(islice(values.items(), FIELDS))
            value = whole_state(item, values)
        else:
            value = item.seen_value(param.source)
            if value is not MISSING:
                inputs.append((param.source, value))
            else:
                value = item.frame.program.bound.get(param.source, MISSING)
            if value is MISSING:
                value = param.default
                if type(value) not in _UNCHANGING:
                    value = copy.deepcopy(value)
        if param.keyword_only:
            kwargs[param.name] = value
        else:
            args.append(value)
    return args, kwargs


def unbuilt_input(item: Item, run_id: str) -> ClassChangedError | None:
    """Return an error if an input of an item holds a stored instance whose class is missing or has changed."""
    if item.node.subgraph is not None:
        return None  # the nodes inside read the values
    values = item.values() if item.node.reads_state else {}
    for param in item.node.params:
        if param.kind == "value":
            values = {**values, param.source: item.lookup(param.source, None)}
    for name, value in values.items():
        found = find_stored(value)
        if found is not None:
            return _unbuilt(found, item, run_id, f"reads {name!r}")
    return None


def check_built(value: Any, item: Item, run_id: str, what: str) -> None:
    """Raise ClassChangedError if a recorded value holds an instance whose class is missing or has changed."""
    found = find_stored(value) if have_been_made() else None
    if found is not None:
        raise _unbuilt(found, item, run_id, f"gets {what}")


def _unbuilt(found: StoredObject, item: Item, run_id: str, what: str) -> ClassChangedError:
    why = why_unbuilt(found)
    return ClassChangedError(
        f"run {run_id!r}, step {item.step}: node {item.node.name!r} at {item.path} {what}: {why}",
        name=getattr(why, "name", "") or found.name,
        missing=getattr(why, "missing", ()),
    )


def whole_state(item: Item, values: Mapping[str, Any]) -> Any:
    """Return the read-only state for a `state` parameter: an instance of the schema, else a mapping."""
    schema = item.frame.program.schema
    if schema is None:
        return MappingProxyType(values)
    return schema.instance(values)


def call_key_function(item: Item, function: Callable[..., Any], option: str) -> Any:
    """Return what a key function returns for the inputs of an item."""
    node = item.node
    positional, named = wanted_by_key(node, function, option)
    values = {p.name: item.lookup(p.source, p.default) for p in node.params if p.kind == "value"}
    wanted = state_names(node) & {*positional, *named}
    if wanted:
        values.update(dict.fromkeys(wanted, whole_state(item, item.values())))
    return function(*[values[name] for name in positional], **{name: values[name] for name in named})
