"""Cached results of nodes, in the store of an engine: ``@node(cache=True)``.

A result is what the function of a node returned. Its key is a digest of the node's name, the hash of its code
(``clew.graph.hashing.code_hashes``), its targets, and its arguments by parameter, with bound values, or what the key
function of ``Cache(key=...)`` returned. So runs, processes and machines with the same store share results.

Rules:

- A failure is never stored. A result that cannot be encoded, or inputs that cannot, fail the item (`EncodeError`).
- A hit becomes an outcome with the mark `cached`. A resume or a replay takes it from the log like any other.
- Two items that miss at the same time both call the function; the last result counts.
- A damaged result, a result of a class that has changed, and a store that fails count as a miss: the function is
  called, with a `GraphWarning`. If the store stays unavailable, writing the run's own log raises the error.
- Large results are blobs. The log of the run refers to the same blobs.
- The key is computed before the function is called. On an event loop, threads wait for the store (`on_loop`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from inspect import isawaitable
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Protocol

from clew.engine.frame import Item
from clew.errors import DecodeError, EncodeError, GraphError, GraphWarning, StoreError
from clew.graph import END, Command, Graph, Send
from clew.graph.names import name_of
from clew.graph.signature import MISSING
from clew.runtime.calls.arguments import call_key_function
from clew.state import decode, digest, encode, fingerprint, stored_value
from clew.state.stored_object import holds_stored
from clew.stores import MemoryStore, Store, WouldWait
from clew.stores.memory.store import NOWHERE

if TYPE_CHECKING:
    from clew.engine.machine import Machine
    from clew.runtime.calls.reuse import ResultReuse
    from clew.runtime.process.clock import Clock


class Caller(Protocol):
    """The parts of a session that the cache uses."""

    machine: Machine
    clock: Clock
    off_loop: Any  # threads that wait for the store; None without an event loop
    reuse: ResultReuse | None
    cache_keys: dict[Item, str]


class ResultCache:
    """Reads and writes the cached results of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def settle(self, session: Caller, item: Item) -> bool:
        """Use a cached result for an item, and return whether it needs no call."""
        try:
            key = session.cache_keys[item] = key_of_result(item)
        except EncodeError as error:
            session.machine.fail(item, error, session.clock.time())
            return True
        hit = None if _is_forced(session, item) else self.find(key, item)
        if hit is None:
            return False
        del session.cache_keys[item]
        _use(session, item, hit)
        return True

    def keep(self, session: Caller, item: Item, value: Any) -> EncodeError | None:
        """Store what the function of an item returned; return an error if it cannot be encoded."""
        key = session.cache_keys.pop(item, None)
        if key is not None and item.node.cache is not None:  # the result of a rescue is not cached
            try:
                self._write(key, item, *encoded_result(item, value))
            except EncodeError as error:
                return error
        return None

    async def on_loop(self, session: Caller, item: Item, call: Callable[[], Any]) -> Any:
        """`settle`, the call of the function and `keep`, on an event loop that does not wait for the store."""
        off_loop, attempt, key = session.off_loop, item.attempt, key_of_result(item)
        assert off_loop is not None
        hit = None if _is_forced(session, item) else await off_loop.open(partial(self.find, key, item))
        if hit is not None:
            if item.live and item.attempt == attempt:
                _use(session, item, hit)
            return None
        value = call()
        if isawaitable(value):
            value = await value
        if type(value) is CoroutineType:  # a forgotten await, which the session reports
            return value
        await off_loop.open(partial(self._write, key, item, *encoded_result(item, value)))
        return value

    def find(self, key: str, item: Item, *, at_once: bool = False) -> Sequence[Any] | None:
        """Return what the function returned, in a list of one; None if there is no valid result."""
        store = self._now() if at_once else self._store
        cache = item.node.cache
        assert cache is not None
        try:
            found = store.cached(key)
            if found is None or (cache.ttl is not None and found.age >= cache.ttl):
                return None
            value = decoded_result(found.body, store.blob)
        except (StoreError, DecodeError, GraphError, LookupError, TypeError, ValueError) as error:
            _warn(item, f"cannot be read ({type(error).__name__}: {error}); the node is called")
            return None
        return None if holds_stored([value]) else [value]

    def _write(
        self, key: str, item: Item, body: bytes, blobs: Mapping[str, bytes], *, at_once: bool = False
    ) -> None:
        store = self._now() if at_once else self._store
        cache = item.node.cache
        assert cache is not None
        try:
            store.cache(key, item.node.name, body, blobs, ttl=cache.ttl)
        except StoreError as error:
            _warn(item, f"cannot be stored ({error})")

    def _now(self) -> Store:
        store = self._store.at_once()
        if store is None:
            raise WouldWait("a cached result")
        return store


def cache_for(graph: Graph | None, store: Store) -> ResultCache | None:
    """Return the cache of a graph with cached nodes. A run that is not kept shares results only with itself."""
    if graph is None or not graph.has_cached_nodes:
        return None
    return ResultCache(MemoryStore() if store is NOWHERE else store)


def key_of_result(item: Item) -> str:
    """Return the key of an item's result. Raise EncodeError if an input cannot be encoded."""
    node = item.node
    assert node.cache is not None
    if node.cache.key is not None:
        inputs: Any = call_key_function(item, node.cache.key, "Cache(key=...)")
        what = f"the key of the cached node {node.name!r}"
        hint = "return strings, numbers or tuples"
    else:
        found = {p.name: item.lookup(p.source, MISSING) for p in node.params if p.kind == "value"}
        inputs = [  # defaults are part of the code
            {name: value for name, value in found.items() if value is not MISSING},
            item.values() if node.reads_state else None,
        ]
        what = f"the inputs of the cached node {node.name!r}"
        hint = "name what identifies the result with cache=Cache(key=...)"
    try:
        content = fingerprint(inputs, at=what)
    except EncodeError as error:
        raise EncodeError(f"{item.path}: {error}; {hint}") from error
    code = item.frame.program.graph.node_hashes[node.name]
    return digest(b"clew:result", node.name.encode(), code.encode(), encode(list(node.targets)), content)


def encoded_result(item: Item, value: Any) -> tuple[bytes, dict[str, bytes]]:
    """Encode what a function returned: a value, or the decision of a gate, with its blobs."""
    blobs: dict[str, bytes] = {}
    node = item.node
    try:
        if isinstance(value, Command):
            update = None if value.update is None else dict(value.update)
            plain: Any = ["command", update, _choices(value.goto)]
        elif node.kind == "route":
            plain = ["choice", _choices(value)]
        else:
            return stored_value(value, at=f"the result of {node.name!r}", blobs=blobs), blobs
        body = stored_value(plain, at=f"the result of {node.name!r}", blobs=blobs)
        return b"d" + body, blobs
    except EncodeError as error:
        raise EncodeError(
            f"node {node.name!r} at {item.path} is cached and returned a value that cannot be stored: {error}"
        ) from error


def decoded_result(body: bytes, blob: Callable[[str], bytes]) -> Any:
    """Return what a function returned."""
    if not body.startswith(b"d"):
        return decode(body, blob=blob, unfit="keep")
    plain = decode(body[1:], blob=blob, unfit="keep")
    if plain[0] == "command":
        return Command(plain[1], _chosen(plain[2]))
    return _chosen(plain[1])


def _choices(value: Any) -> Any:
    """Return targets as plain data: one, a list of them, or None."""
    if isinstance(value, list | tuple):
        return ["many", *map(_choices, value)]
    if value is None:
        return None
    if isinstance(value, Send):
        return ["send", value.target, dict(value.payload)]
    return ["end"] if value is END else ["to", name_of(value, "a cached gate")]


def _chosen(plain: Any) -> Any:
    match plain:
        case None:
            return None
        case ["many", *several]:
            return [_chosen(one) for one in several]
        case ["send", target, payload]:
            return Send(target, payload)
        case ["end"]:
            return END
        case ["to", name]:
            return name
    raise DecodeError("these bytes are not a decision")


def _is_forced(session: Caller, item: Item) -> bool:
    return session.reuse is not None and session.reuse.is_forced(item)


def _use(session: Caller, item: Item, hit: Sequence[Any]) -> None:
    session.machine.counters.cached += 1
    session.machine.finish(item, hit[0], session.clock.time(), cached=True)


def _warn(item: Item, what: str) -> None:
    warnings.warn(
        f"the cached result of node {item.node.name!r} at {item.path} {what}", GraphWarning, stacklevel=2
    )
