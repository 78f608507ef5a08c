"""The store protocol: rows about runs, a log of entries for each run, and ownership of runs.

A store does not interpret entries. `clew.stores.conformance` checks these rules:

- An `append` is atomic, and durable when it returns.
- (run, kind, path, n) identifies an entry. Appending the same entry again, with the same digest, changes nothing. A
  different digest raises `CommitConflictError`, and nothing of that append is written.
- An entry that an append both adds and drops is not written. Dropping an entry that does not exist is not an error.
- An append passes the fence that `claim` returned; a run that was never claimed has the fence 0. A later claim makes
  earlier fences stale: an append with a stale fence raises `RunOwnedError` and writes nothing. Of two concurrent
  claims one wins. A fence is valid for one run only, even if the run is deleted and its id is used again.
- An owner is a name that is never used again, with one lease for all of its runs. Creating or claiming a run registers
  its owner, and renews the lease if less than half of it is left. `renew` and `retire` concern the owner, not a run.
- A run can be claimed if it was released, or if its owner is dead. An owner is dead once it is declared dead: because
  its lease has expired, or immediately, if the store can detect that its process has ended. A claim checks the owner of
  its run for this, `expire` checks all owners. Until then, an owner can renew an expired lease. Afterwards, renewing
  and claiming raise `OwnerDeadError`. Its fences stay valid until the next claim, as after a release.
- The owner of a run cannot claim it again, except with the token of its claim, to repeat a claim whose outcome is
  unknown. Tokens are unique.
- A child belongs to the owner of the outermost run. A claim of the child itself always succeeds; it only raises the
  fence of the child and stores the token.
- Messages to a run are numbered in the order of their commits and received once, by the append that logs them. Messages
  with the same id are one message. Messages are deleted with their run.
- The queue and the pages of `page` have their own rules: `clew.stores.queue`, `clew.stores.pages`.
- Leases are measured by one clock that all users of the store share: the clock of the server, or of the machine since
  boot. Callers pass no times. An owner that renews its lease in time keeps its runs, regardless of wall clocks. A lease
  of 0 seconds has expired.
- Large contents are stored once, by digest (hex SHA-256), as long as a run that references them exists.
- An update that releases a run stores a census of its log in its row. It is valid until the next such update.
- Nothing is deleted implicitly, except that the children of a run are deleted with it, in one transaction. A run that
  has a fork, or a child that has one, cannot be deleted (StoreError). A run whose parent does not exist, or that is a
  child of a run that does not exist, cannot be created (UnknownRunError). If a creation and a deletion of the other run
  are concurrent, one of them fails.
- An unknown run id raises `UnknownRunError`, except in `release`, which callers use to clean up.
- Returned objects do not change later. All methods are safe to call from several threads.
- Ids, kinds and paths are text of any length; owners and tokens have at most 200 characters. A store raises
  `StoreError` for text that it cannot store exactly (NUL, lone surrogates).

`encodes` says whether bodies are bytes; the memory store stores arbitrary objects instead. Some features are optional:
to delay waiting for the disk (`defers`, `sync`), to offer access that never waits (`at_once`), to wake workers
(`listen`), to limit how long calls wait for a server (`wait_at_most`), and to detect at low cost whether a run has
changed (`change_mark`). A class that inherits from `Store` has none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol, TypedDict, Unpack

import msgspec

from clew.error_text import line_of

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
    attributes: Mapping[str, str] = {}  # given by the user, to find it
    queue: str = ""  # the queue into which it was last put; it stays when the run ends

    def __repr__(self) -> str:
        """Return the parts that a person looks for, without stored bytes."""
        of = f" of {self.graph!r}" if self.graph else ""
        failed = f", {line_of(self.error)}" if isinstance(self.error, BaseException) else ""
        text = f"<RunRow {self.run_id!r}{of}: {self.status}{failed}>"
        return text if len(text) <= 300 else f"{text[:296]}...>"


class ThreadMove(msgspec.Struct, frozen=True):
    """A new run becomes the head of a thread whose head is `expected`: a run id, or None for a new thread."""

    name: str
    expected: str | None = None


class QueueEntry(msgspec.Struct, frozen=True):
    """The place of a run in a queue. The lowest priority number goes first."""

    queue: str = "default"  # at most 200 characters
    priority: int = 0  # 32 bits, signed
    due: float | None = None  # seconds since the epoch; None: at once


class TakenRun(msgspec.Struct, frozen=True):
    """A run that `Store.take` has claimed."""

    row: RunRow
    fence: int
    tries: int  # takes in a row, with this one, between which the run committed nothing
    is_new: bool  # nothing was ever committed: the log is empty


class QueueCount(msgspec.Struct, frozen=True):
    """The number of entries in a queue."""

    queue: str
    ready: int
    later: int  # due later
    taken: int
    oldest: float | None  # seconds for which the oldest ready run has waited


class Message(msgspec.Struct, frozen=True):
    """A message to a run. `body` is bytes if the store encodes."""

    n: int  # numbers the messages of the run, from 1
    id: str  # unique for the run, chosen by the sender; at most 200 characters
    kind: str  # answer, signal or cancel
    body: Any


class LogEnd(msgspec.Struct, frozen=True):
    """The end of a run's log, as it was at one moment."""

    entries: Sequence[Any]  # in the order of kind, path and n
    counts: Mapping[tuple[str, str], int]  # of the entries of each kind and path, without the run's own steps
    messages: Sequence[Message]  # in the inbox
    has_children: bool


class Owner(msgspec.Struct, frozen=True):
    """The owner of a run and its lease. `is_alive` is False if it was declared dead, or the store has detected that its
    process is gone."""

    name: str
    expires_in: float  # seconds until the lease expires; 0 or less if it has expired
    is_alive: bool = True
    token: str = ""  # of the claim

    @property
    def holds(self) -> bool:
        """Whether no other owner can claim the run now."""
        return self.is_alive and self.expires_in > 0


class WorkerRow(msgspec.Struct, frozen=True):
    """A registered owner. A store may forget it an hour after the end of its lease; then it is dead."""

    owner: str
    label: str
    host: str
    pid: int
    started: float  # seconds since the epoch
    expires_in: float  # seconds until the lease expires; 0 or less if it has expired
    is_alive: bool = True
    info: Mapping[str, Any] = {}  # its own description: JSON


class CachedResult(msgspec.Struct, frozen=True):
    """A cached result: its bytes, and the seconds since it was stored, by the clock of the store."""

    body: bytes
    age: float


class QueueListener(Protocol):
    """Wakes one worker when a run becomes ready."""

    def be_idle(self, is_idle: bool) -> None:
        """Set whether the worker waits for runs; only then it is woken."""

    def close(self) -> None:
        """Stop waking it."""


class WouldWait(Exception):
    """An operation of `Store.at_once` would have to wait. Nothing was read or changed."""


class PageQuery(TypedDict, total=False):
    """What `Store.page` lists. Stores check `limit`, `cursor` and `order`."""

    status: str | None
    graph: str | None
    attributes: Mapping[str, str]
    text: str
    prefix: str
    after: float | None
    before: float | None
    limit: int
    cursor: str | None
    order: Literal["newest", "oldest"]
    children: bool
    due: bool


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

    def listen(self, wake: Callable[[], None]) -> QueueListener | None:
        """Call `wake`, from another thread, when a run may have become ready while the worker is idle. A call may be
        missing or unnecessary, so a worker also polls. None if this store cannot do that."""
        return None

    def wait_at_most(self, seconds: float | None) -> None:
        """Let all calls wait no longer than this for an unavailable server from now on; None: as long as usual."""
        return None  # noqa: RET501 - see `sync`

    mark_interval: float = 1.0
    """The seconds between two calls of `change_mark` by one follower of a run."""

    def change_mark(self, run_id: str, kinds: Collection[str]) -> Any:
        """Return a value that differs from an earlier one if the run has changed since: its row, the steps of the run
        itself, its inbox, or its entries of these kinds. It may also differ for other reasons. It is cheap."""
        row, end = self.row(run_id), self.log_end(run_id, (), most=1)
        newest = [self.last(run_id, kind, "", LAST) for kind in kinds]
        return row.status, row.updated, end.counts, end.entries, newest, [each.n for each in end.messages]

    def create(
        self,
        row: RunRow,
        blobs: Mapping[str, bytes] = ...,
        *,
        owner: str = ...,
        lease: float = ...,
        token: str = ...,
        entries: Sequence[Any] = ...,
        wait: bool = ...,
        thread: ThreadMove | None = ...,
        queue: QueueEntry | None = ...,
    ) -> int:
        """Store a new run with `entries` as its log, atomically. With an `owner`, claim it and return the fence; else
        return 0. With a `thread`, the run becomes its head. With a `queue`, it has no owner, and its status is queued.
        Raises RunExistsError if the id is taken, UnknownRunError if the parent does not exist, ThreadMovedError if the
        thread has another head than expected."""

    def row(self, run_id: str) -> RunRow:
        """Return a run. Raises UnknownRunError if it does not exist, StoreCorruptError if its row is damaged."""

    def rows(self, status: str | None = None, *, of: str | None = None) -> list[RunRow]:
        """Return all runs, or those with a status, in order of creation. With `of`, return only the children of that
        run; with ``of=""`` only runs that are not children."""

    def page(self, **query: Unpack[PageQuery]) -> tuple[list[RunRow], str | None]:
        """Return up to `limit` runs, without start and codes, and the cursor of the next page or None
        (`clew.stores.pages`). They match all that is given: a status, a graph name, attributes, a text in their id,
        graph name or attributes, the beginning of their id, and creation times with ``after <= created < before``. With
        `due`, only runs whose entry in a queue is due, now or later, and not parked. Raises StoreError for an invalid
        cursor."""

    def tally(self) -> Mapping[str, int]:
        """Count the runs that are not children, by their status."""

    def update(
        self,
        run_id: str,
        *,
        status: str,
        updated: float,
        error: Any,
        fence: int,
        release: bool = ...,
        due: float | None = ...,
    ) -> None:
        """Update the row of a run. With `release`, also release the run and store a census of its log. The entry in the
        queue is deleted or parked; with `release` and `due`, it is due then (`clew.stores.queue`)."""

    def claim(self, run_id: str, owner: str, *, lease: float, token: str = ...) -> int:
        """Become the owner of a run and return the fence. Raises RunOwnedError if a living owner has it, OwnerDeadError
        if `owner` was declared dead."""

    def release(self, run_id: str, fence: int) -> None:
        """Stop being the owner. Does nothing if another owner has the run."""

    def owner(self, run_id: str) -> Owner | None:
        """Return the owner of a run, alive or dead; None if the run was released or never claimed. The owner of a child
        is that of the outermost run, with the token of the child; if that run has no owner, its last one, dead."""

    def register(
        self, owner: str, *, lease: float, label: str = ..., info: Mapping[str, Any] | None = ...
    ) -> None:
        """Register an owner that has no run yet, or describe one that is registered, and renew its lease. Raises
        OwnerDeadError if it was declared dead."""

    def renew(self, owner: str, *, lease: float, info: Mapping[str, Any] | None = ...) -> None:
        """Extend the lease of an owner, and with `info` replace its description. Raises OwnerDeadError if it
        was declared dead, or is not registered."""

    def retire(self, owner: str) -> None:
        """Declare this owner dead: it has ended. Does nothing if it is not registered."""

    def expire(self) -> int:
        """Declare all owners dead whose lease has expired or whose process has ended; return how many."""

    def workers(self) -> list[WorkerRow]:
        """Return the registered owners, in the order of their names."""

    def take(
        self,
        owner: str,
        *,
        structures: Collection[str],
        queues: Collection[str],
        limit: int,
        lease: float,
        token: str = ...,
    ) -> list[TakenRun]:
        """Claim up to `limit` ready runs from the queues, in their order (`clew.stores.queue`). Declares owners dead
        whose lease has expired. Raises OwnerDeadError if `owner` was declared dead."""

    def enqueue(
        self,
        run_id: str,
        fence: int,
        *,
        status: str,
        due: float | None = ...,
        queue: str = ...,
        priority: int | None = ...,
    ) -> None:
        """Release a run with a status, and make it due: now, or at `due`. Without `queue` and `priority`, it keeps
        those that it has; a run that was never queued gets those of `QueueEntry()`."""

    def queues(self) -> list[QueueCount]:
        """Count the entries of each queue, in the order of the names. Parked entries are not counted."""

    def entry(self, run_id: str) -> QueueEntry | None:
        """Return the place of a run in its queue; None if it has none. A parked entry is due at infinity."""

    def time(self) -> float:
        """Return the time of the clock that due times are measured by, in seconds since the epoch."""

    def send(self, run_id: str, message_id: str, kind: str, body: Any) -> int:
        """Put a message into the inbox of a run, and return its number. An id that was sent before changes nothing. If
        the run sleeps or waits in a queue, it becomes due. Raises UnknownRunError if the run does not exist."""

    def inbox(self, run_id: str) -> list[Message]:
        """Return the messages that no append has received yet, by their numbers."""

    def addressed(self, run_ids: Sequence[str]) -> Collection[str]:
        """Return those of these runs that have messages in their inboxes. Runs that do not exist have none."""

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
        received: Sequence[int] = ...,
    ) -> None:
        """Add entries, remove those named in `drop`, store blobs, execute statements and remove the messages with the
        numbers `received`, atomically.

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

    def log_end(
        self, run_id: str, kinds: Collection[str], *, base: str = ..., most: int, counts: bool = ...
    ) -> LogEnd:
        """Read, at one moment, what continuing a run needs: all entries of some kinds, the last entry of the kind
        `base` with the path "", the last steps of the run itself after the n of that entry, at most `most`, the inbox,
        and whether the run has children. With `counts`, also count the entries, without reading their bodies. The kinds
        contain neither `base` nor `OWN_STEP`; the base "" is not a kind."""

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
