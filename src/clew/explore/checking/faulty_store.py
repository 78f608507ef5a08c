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

WRITES = frozenset({"create", "claim", "append", "update", "release", "renew", "delete"})
"""The operations that change the store."""
_READS = frozenset(
    {"row", "rows", "owner", "entries", "within", "census", "find", "last", "blob", "rehearse", "check"}
)


class FaultyStore:
    """A store that passes each operation to another store, or lets it fail."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.encodes = store.encodes
        self.defers = False
        self.on_operation: Callable[[str], str | None] | None = None
        """Called before each operation; returns None, "refused" or "unconfirmed"."""
        for operation in WRITES | _READS:
            setattr(self, operation, partial(self._pass, operation))

    def _pass(self, operation: str, *args: Any, **kwargs: Any) -> Any:
        fails = self.on_operation(operation) if self.on_operation is not None else None
        if fails == "refused":
            raise StoreUnavailableError(f"injected fault: the store refused {operation!r}")
        result = getattr(self._store, operation)(*args, **kwargs)
        if fails is not None:
            raise StoreUnavailableError(f"injected fault: the store did not confirm {operation!r}")
        return result

    def at_once(self) -> FaultyStore:
<<<<<<< HEAD
        """Return this store; the one behind it is in memory."""
        return self

=======
        """Return this store: the store behind it is in memory."""
        return self

    def sync(self) -> None:
        """Do nothing: the store behind it is in memory."""

    # -- what writes -------------------------------------------------------------------------------------------

    def create(self, *args: Any, **kwargs: Any) -> int:
        return int(self._pass("create", *args, **kwargs))

    def claim(self, *args: Any, **kwargs: Any) -> int:
        return int(self._pass("claim", *args, **kwargs))

    def append(self, *args: Any, **kwargs: Any) -> None:
        self._pass("append", *args, **kwargs)

    def update(self, *args: Any, **kwargs: Any) -> None:
        self._pass("update", *args, **kwargs)

    def renew(self, *args: Any, **kwargs: Any) -> None:
        self._pass("renew", *args, **kwargs)

    def release(self, *args: Any, **kwargs: Any) -> None:
        self._pass("release", *args, **kwargs)

    def delete(self, *args: Any, **kwargs: Any) -> None:
        self._pass("delete", *args, **kwargs)

    # -- what only reads ---------------------------------------------------------------------------------------

    def row(self, run_id: str) -> RunRow:
        found: RunRow = self._pass("row", run_id)
        return found

    def rows(self, status: str | None = None) -> list[RunRow]:
        return list(self._pass("rows", status))

    def owner(self, run_id: str) -> Owner | None:
        found: Owner | None = self._pass("owner", run_id)
        return found

    def entries(self, *args: Any, **kwargs: Any) -> Sequence[Any]:
        found: Sequence[Any] = self._pass("entries", *args, **kwargs)
        return found

    def within(self, *args: Any, **kwargs: Any) -> Sequence[Any]:
        found: Sequence[Any] = self._pass("within", *args, **kwargs)
        return found

    def census(self, run_id: str) -> Mapping[str, int]:
        found: Mapping[str, int] = self._pass("census", run_id)
        return found

    def find(self, *args: Any) -> Sequence[Any]:
        found: Sequence[Any] = self._pass("find", *args)
        return found

    def last(self, *args: Any) -> Any:
        return self._pass("last", *args)

    def blob(self, digest: str) -> bytes:
        return bytes(self._pass("blob", digest))

    def rehearse(self, *args: Any) -> None:
        self._pass("rehearse", *args)

    def check(self) -> Iterator[str]:
        return iter(list(self._pass("check")))

>>>>>>> h/pd
    def close(self) -> None:
        """Close the store; closing never fails."""
        self._store.close()
