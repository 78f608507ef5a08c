"""A line to a store: every operation of a process passes over it, and any of them can fail.

An operation that is told to fail is refused: nothing is read or changed. One that writes may also be carried out and
not confirmed. Both happen to real stores: a file that cannot be locked, a connection that breaks before or after a
commit.

Who looks at a run from outside has no line to the store but the store itself, so what is looked at is neither counted
nor made to fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from clew.errors import StoreUnavailableError
from clew.stores import Owner, RunRow, Store

WRITES = frozenset({"create", "claim", "append", "update", "release", "renew", "delete"})
"""The operations that change something."""


class FaultyStore:
    """A store that is reached over something that breaks."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.encodes = store.encodes
        self.defers = False
        self.on_operation: Callable[[str], str | None] | None = None
        """Asked before each operation: None, or how it fails ("refused" or "unconfirmed")."""

    def _pass(self, operation: str, *args: Any, **kwargs: Any) -> Any:
        fails = self.on_operation(operation) if self.on_operation is not None else None
        if fails == "refused":
            raise StoreUnavailableError(f"the store did not carry out {operation!r}, as it was told to")
        done = getattr(self._store, operation)(*args, **kwargs)
        if fails is not None:
            raise StoreUnavailableError(
                f"the store carried out {operation!r} and did not say so, as it was told to"
            )
        return done

    def at_once(self) -> FaultyStore:
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

    def close(self) -> None:
        """Closing is no operation on what is kept."""
        self._store.close()
