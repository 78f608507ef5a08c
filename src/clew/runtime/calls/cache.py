"""Results that are used again: ``@node(cache=True)``, one cache for each engine.

A result is used again for a node whose code is the same and whose inputs have the same canonical encoding. A node
that takes a context may do something new each time, and inputs that cannot be encoded cannot be compared: neither
is cached. The oldest results are dropped when there are too many.
"""

from __future__ import annotations

from typing import Any

from clew.engine.frame import Item
from clew.errors import EncodeError
from clew.graph.signature import MISSING
from clew.state import digest, encode

MOST = 10_000
"""How many results a cache keeps."""

NO_RESULT: Any = object()


def key_of(item: Item, *, with_context: bool = False) -> str | None:
    """What a result of this item depends on: code and inputs; None if that cannot be told."""
    node = item.node
    if not with_context and any(param.kind == "context" for param in node.params):
        return None
    found = {name: item.lookup(name, MISSING) for name in node.inputs}
    inputs = {name: value for name, value in found.items() if value is not MISSING}  # a default is code
    try:
        seen = encode([inputs, item.values() if node.reads_state else None])
    except EncodeError:
        return None
    code = item.frame.program.graph.node_hashes[node.name]
    return digest(node.name.encode(), code.encode(), seen)


class Cache:
    """What cached nodes returned, by code and inputs."""

    def __init__(self) -> None:
        self._results: dict[str, Any] = {}

    def get(self, key: str) -> Any:
        """The result for a key, or NO_RESULT."""
        return self._results.get(key, NO_RESULT)

    def put(self, key: str, value: Any) -> None:
        """Keep a result."""
        self._results[key] = value
        if len(self._results) > MOST:
            self._results.pop(next(iter(self._results)), None)
