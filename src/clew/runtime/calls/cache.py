"""The result cache of an engine, for nodes with ``@node(cache=True)``.

A result is reused if the code of the node is the same and its inputs have the same canonical encoding. Nodes that take
a context are not cached, because each call may do something different. Inputs that cannot be encoded are not cached,
because they cannot be compared. A full cache drops its oldest result.
"""

from __future__ import annotations

from typing import Any

from clew.engine.frame import Item
from clew.errors import EncodeError
from clew.graph.signature import MISSING
from clew.state import digest, fingerprint

MAX_RESULTS = 10_000

NO_RESULT: Any = object()


def key_of(item: Item, *, with_context: bool = False) -> str | None:
    """Return a digest of the code and inputs of an item; None if its result cannot be reused."""
    node = item.node
    if not with_context and any(param.kind == "context" for param in node.params):
        return None
    found = {name: item.lookup(name, MISSING) for name in node.inputs}
    inputs = {
        name: value for name, value in found.items() if value is not MISSING
    }  # defaults are part of the code
    try:
        encoded = fingerprint([inputs, item.values() if node.reads_state else None])
    except EncodeError:
        return None
    code = item.frame.program.graph.node_hashes[node.name]
    return digest(node.name.encode(), code.encode(), encoded)


class Cache:
    """Results of cached nodes, by the digest of code and inputs."""

    def __init__(self) -> None:
        self._results: dict[str, Any] = {}

    def get(self, key: str) -> Any:
        """Return the result for a key, or NO_RESULT."""
        return self._results.get(key, NO_RESULT)

    def put(self, key: str, value: Any) -> None:
        """Store a result."""
        self._results[key] = value
        if len(self._results) > MAX_RESULTS:
            self._results.pop(next(iter(self._results)), None)
