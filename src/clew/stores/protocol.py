"""The store protocol: rows about runs, a log of entries for each run, and ownership of runs.

A store does not interpret entries. `clew.stores.conformance` checks these rules:

- An `append` is atomic, and durable when it returns.
- (run, kind, path, n) identifies an entry. Appending the same entry again, with the same digest, changes nothing. A
  different digest raises `CommitConflictError`, and nothing of that append is written.
- An entry that an append both adds and drops is not written. Dropping an entry that does not exist is not an error.
- An append passes the fence that `claim` returned; a run that was never claimed has the fence 0. A later claim makes
  earlier fences stale: an append with a stale fence raises `RunOwnedError` and writes nothing. Of two concurrent
  claims one wins. A fence is valid for one run only, even if the run is deleted and its id is used again.
- A run can be claimed from a living owner only after its lease has expired, and from a dead owner immediately, if the
  store can detect that. An owner is a name; it may claim its own run again. After a release the fence stays valid until
  the next claim.
- Leases are measured by one clock that all users of the store share: the clock of the server, or of the machine since
  boot. Callers pass no times. An owner that renews its lease in time keeps its run, regardless of wall clocks. A lease
  of 0 seconds has expired.
- Large contents are stored once, by digest (hex SHA-256), as long as a run that references them exists.
- An update that releases a run stores a census of its log in its row. It is valid until the next such update.
- Nothing is deleted implicitly, except that the children of a run are deleted with it, in one transaction. A run that
  has a fork, or a child that has one, cannot be deleted (StoreError). A run whose parent does not exist, or that is a
  child of a run that does not exist, cannot be created (UnknownRunError). If a creation and a deletion of the other run
  are concurrent, one of them fails.
- An unknown run id raises `UnknownRunError`, except in `release`, which callers use to clean up.
- Returned objects do not change later. All methods are safe to call from several threads.
- Ids, kinds and paths are text of any length. A store raises `StoreError` for text that it cannot store exactly (NUL,
  lone surrogates).

`encodes` tells whether bodies are bytes. The memory store stores arbitrary objects.

Three abilities are optional. A store may delay waiting for the disk (`defers`, `sync`), it may offer access that never
waits (`at_once`), and it may tell cheaply whether a run has changed (`change_mark`). A class that inherits from `Store`
has the answers of a store that does none of this.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Protocol

import msgspec

OWN_STEP = "step"
"""The only kind that stores know: an entry of this kind with the path "" is a step of the run itself. These are most of
a log and are read by ranges of `n`, so a store may store them separately."""


LAST = 1 << 62
"""Larger than the n of any entry."""


class LogEntry(msgspec.Struct, frozen=True):
    """An entry of a run's log. `n` (64 bits, signed) orders the entries of one kind and path."""

    kind: str
    path: str
    n: int
    body: Any
    digest: bytes = b""

    @property
    def name(self) -> tuple[str, str, int]:
        """The identity of the entry within its run."""
        return self.kind, self.path, self.n


class Statement(msgspec.Struct, frozen=True):
    """A write to the store's database, in its SQL dialect. With `many`, it is executed once for each of `values`."""

    sql: str
    values: Any = ()
    many: bool = False


class RunRow(msgspec.Struct):
    """The data about a run outside its log. `start` and `error` are bytes if the store encodes."""

    run_id: str
    graph: str = ""  # the graph's name
    start: Any = None  # the initial state S(0); for a fork, the changes to a state of its parent
    seed: int = 0
    status: str = "running"
    created: float = 0.0
    updated: float = 0.0
    parent: str | None = None  # the run that this one was forked from, and the step
    parent_step: int | None = None
    error: Any = None  # why it failed: bytes, or the object passed to the store; after reading, the exception
    structure: str = ""  # the graph's structure hash
    codes: Mapping[str, str] = {}  # each node's code hash
    start_digest: str = ""  # the digest of S(0)
    description: Any = ""  # the digest of the blob that describes the graph; the graph if nothing is encoded
    target: str = ""  # MODULE:GRAPH, if the run was started from an import string
    damage: str = ""  # the damage found in this row; a damaged row is listed but cannot be read
    # The contents of the log when an update last released the run; None if that never happened. It maps each kind to
    # the number of its entries, and "" to the n of the last step of the run itself (kind `OWN_STEP`, path "").
    census: Mapping[str, int] | None = None
    failures: tuple[Any, ...] = ()  # after reading: why and where it failed
    child_of: str | None = None  # the run in which a node started this one
    place: str = ""  # where in that run: the path of the item, "!" and the number of the call


class ThreadMove(msgspec.Struct, frozen=True):
    """A new run becomes the head of a thread whose head is `expected`: a run id, or None for a new thread."""

    name: str
    expected: str | None = None


class Owner(msgspec.Struct, frozen=True):
    """The owner of a run and its lease. `is_alive` is False if the store has detected that the process is gone."""

    name: str
    expires_in: float  # seconds until the lease expires; 0 or less if it has expired
    is_alive: bool = True

    @property
    def holds(self) -> bool:
        """Whether no other owner can claim the run now."""
        return self.is_alive and self.expires_in > 0


class CachedResult(msgspec.Struct, frozen=True):
    """A cached result: its bytes, and the seconds since it was stored, by the clock of the store."""

    body: bytes
    age: float


class WouldWait(Exception):
    """An operation of `Store.at_once` would have to wait. Nothing was read or changed."""


class Store(Protocol):
    """Storage for runs."""

    encodes: bool

    defers: bool = False
    """Whether `create` and `append` can return before their data is on the disk.

    With ``wait=False`` they commit: other processes see the data, and it survives the end of this process. A power
    failure may lose it until `sync`, or a later write with ``wait=True``, has returned. A store that does not defer
    ignores `wait`."""

    def sync(self) -> None:
        """Wait until all committed data is on the disk."""
        return None  # noqa: RET501 - without it, type checkers treat the method as abstract

    def at_once(self) -> Store | None:
        """Return access to the same data that raises `WouldWait` instead of waiting for another process or thread.

        It is closed together with this store. None if the store has no such access; event loops then use it on a
        thread. A store that never waits returns itself."""
        return None

    mark_interval: float = 1.0
    """The seconds between two calls of `change_mark` by one follower of a run."""

    def change_mark(self, run_id: str, kinds: Collection[str]) -> Any:
        """Return a value that differs from an earlier one if the run has changed since: its row, the steps of the run
        itself, or its entries of these kinds. It may also differ for other reasons. It is cheap."""
        row = self.row(run_id)
        newest = [self.last(run_id, kind, "", LAST) for kind in (OWN_STEP, *kinds)]
        return row.status, row.updated, self.counts(run_id), newest

    def create(
        self,
        row: RunRow,
        blobs: Mapping[str, bytes] = ...,
        *,
        owner: str = ...,
        lease: float = ...,
        entries: Sequence[Any] = ...,
        wait: bool = ...,
        thread: ThreadMove | None = ...,
    ) -> int:
        """Store a new run with `entries` as its log, atomically. With an `owner`, claim it and return the fence; else
        return 0. With a `thread`, the run becomes its head. Raises RunExistsError if the id is taken, UnknownRunError
        if the parent does not exist, ThreadMovedError if the thread has another head than expected."""

    def row(self, run_id: str) -> RunRow:
        """Return a run. Raises UnknownRunError if it does not exist, StoreCorruptError if its row is damaged."""

    def rows(self, status: str | None = None, *, of: str | None = None) -> list[RunRow]:
        """Return all runs, or those with a status, in order of creation. With `of`, return only the children of that
        run; with ``of=""`` only runs that are not children."""

    def update(
        self, run_id: str, *, status: str, updated: float, error: Any, fence: int, release: bool = ...
    ) -> None:
        """Update the row of a run. With `release`, also release the run and store a census of its log."""

    def claim(self, run_id: str, owner: str, *, lease: float) -> int:
        """Become the owner of a run and return the fence. Raises RunOwnedError if a living owner has it."""

    def renew(self, run_id: str, fence: int, *, lease: float) -> None:
        """Extend the lease. Raises RunOwnedError if another owner has the run."""

    def release(self, run_id: str, fence: int) -> None:
        """Stop being the owner. Does nothing if another owner has the run."""

    def owner(self, run_id: str) -> Owner | None:
        """Return the owner of a run, alive or dead; None if the run was released or never claimed."""

    def append(
        self,
        run_id: str,
        entries: Sequence[Any],
        fence: int,
        *,
        drop: Sequence[tuple[str, str, int]] = ...,
        blobs: Mapping[str, bytes] = ...,
        statements: Sequence[Statement] = ...,
        wait: bool = ...,
    ) -> None:
        """Add entries, remove those named in `drop`, store blobs and execute statements, atomically.

        Raises StoreError if the database rejects a statement. If all entries exist already, the statements are not
        executed again.
        """

    def rehearse(self, statements: Sequence[Statement]) -> None:
        """Execute statements and roll them back; raises what the database raises. StoreError without a database."""

    def entries(
        self, run_id: str, *, after: int = 0, upto: int | None = None, skip: Collection[str] = ...
    ) -> Sequence[Any]:
        """Return a run's log by kind, path and n, without the kinds in `skip`. Of the run's own steps (`OWN_STEP`),
        return those with ``after < n <= upto``."""

    def within(
        self,
        run_id: str,
        kinds: Collection[str],
        paths: Sequence[tuple[str, str]] | None = ...,
        *,
        after: int = ...,
        upto: int | None = ...,
    ) -> Sequence[Any]:
        """Return the entries of some kinds by kind, path and n, without reading others. With `paths`, return only
        entries whose path is in one of these ranges, given as (first, end) with the end excluded. The ranges do not
        overlap. Of the run's own steps, return those with ``after < n <= upto``."""

    def counts(self, run_id: str) -> Mapping[tuple[str, str], int]:
        """Count the entries of each kind and path, but not the run's own steps, without reading their bodies."""

    def find(self, run_id: str, kind: str, path: str) -> Sequence[Any]:
        """Return the entries of one kind and path, by n."""

    def last(self, run_id: str, kind: str, path: str, n: int) -> Any:
        """Return the entry of one kind and path with the largest n that is not above `n`, or None."""

    def blob(self, digest: str) -> bytes:
        """Return a large content. Raises StoreCorruptError if it is missing or damaged."""

    def head(self, thread: str) -> str | None:
        """Return the run at the head of a thread, or None if the thread does not exist."""

    def threads(self) -> list[tuple[str, str]]:
        """Return all threads by name, each with its head."""

    def cached(self, key: str) -> CachedResult | None:
        """Return a cached result; None if it does not exist or its `ttl` has passed on the store's clock. Raises
        StoreCorruptError if it is damaged."""

    def cache(
        self, key: str, node: str, body: bytes, blobs: Mapping[str, bytes] = ..., *, ttl: float | None = ...
    ) -> None:
        """Store a result of a node, with the blobs that it refers to, instead of an earlier one of the same key.

        It lives apart from runs, expires `ttl` seconds after this call, and shares its blobs with them. A store may
        delete expired results at any time, and a store in memory also old ones."""

    def clear_cache(self, node: str | None = ...) -> int:
        """Delete the cached results of a node, or all; return how many there were."""

    def delete(self, run_id: str) -> None:
        """Delete a run and its children. If it is the head of a thread, its parent becomes the head; without a parent,
        the thread is deleted. Raises UnknownRunError if the run does not exist, StoreError if one has a fork."""

    def detach(self, row: RunRow, blobs: Mapping[str, bytes], fence: int) -> None:
        """Replace the initial state of a fork by that of `row`, which has no parent and else equals the stored row. The
        parent can then be deleted. Raises RunOwnedError if the fence is stale, UnknownRunError if the run is gone."""

    def check(self) -> Iterator[str]:
        """Check all stored data and yield a sentence for each problem."""

    def close(self) -> None:
        """Release all resources and all owned runs. Closing twice is not an error."""
