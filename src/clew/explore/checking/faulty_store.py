"""A store whose operations can fail. The simulated process reaches its disk through it.

An operation can be "refused": nothing is read or changed. A write can also be "unconfirmed": it is carried out, and
then reported as failed. Both happen to real stores: a file is locked, or a connection breaks before or after a commit.

Code that inspects the run uses the disk directly, so its reads are neither counted nor made to fail.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from clew.errors import StoreUnavailableError
from clew.stores import Store

WRITES = frozenset(
    {"create", "claim", "append", "update", "release", "renew", "delete", "cache", "clear_cache"}
)
"""The operations that change the store."""


class FaultyStore:
    """A store that passes each operation to another store, or lets it fail."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.encodes = store.encodes
        self.defers = False
        self.on_operation: Callable[[str], str | None] | None = None
        """Called before each operation; returns None, "refused" or "unconfirmed"."""

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        getattr(self._store, operation)  # raises if the store has no such operation
        return partial(self._pass, operation)

    def _pass(self, operation: str, *args: Any, **kwargs: Any) -> Any:
        fails = self.on_operation(operation) if self.on_operation is not None else None
        if fails == "refused":
            raise StoreUnavailableError(f"injected fault: the store refused {operation!r}")
        result = getattr(self._store, operation)(*args, **kwargs)
        if fails is not None:
            raise StoreUnavailableError(f"injected fault: the store did not confirm {operation!r}")
        return result

    def at_once(self) -> FaultyStore:
        """Return this store; the one behind it is in memory."""
        return self

    def sync(self) -> None:
        """Do nothing: the store behind it is in memory."""

    def close(self) -> None:
        """Close the store; closing never fails."""
        self._store.close()
