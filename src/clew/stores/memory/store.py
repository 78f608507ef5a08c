"""A store in memory: for tests, for graphs that need no durability, and the default of `Graph.run`.

- It keeps the last `keep` finished runs, or all with ``keep=None``. It never drops runs that have not ended,
  parents of forks, and heads of threads. Children do not count; they are dropped with their run. Finding the runs to
  drop means looking at all runs. So the store drops an eighth of them at a time, and holds more than `keep` until then.
- Entries can be any objects. Objects that are not a `LogEntry` are stored in order and returned unchanged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from threading import Lock
from typing import Any

import msgspec
from msgspec.structs import replace

from clew.errors import (
    CommitConflictError,
    RunExistsError,
    RunOwnedError,
    StoreCorruptError,
    StoreError,
    ThreadMovedError,
)
from clew.state.number_checks import is_int
from clew.stores.inherited_docs import with_docs
from clew.stores.lease_clock import BOOT_CLOCK, LeaseClock
from clew.stores.memory import inbox, ownership, pages, queue
from clew.stores.memory.kv import MemoryRows, MemoryTable
from clew.stores.memory.ownership import MemoryWorker
from clew.stores.memory.queue import put as put_entry
from clew.stores.messages import (
    MOST_RECENT,
    NO_DATABASE,
    conflict,
    exists,
    has_fork,
    lost_content,
    moved,
    taken_over,
    unknown,
)
from clew.stores.protocol import (
    OWN_STEP,
    CachedResult,
    LogEnd,
    LogEntry,
    Message,
    QueueEntry,
    RunRow,
    Statement,
    Store,
    ThreadMove,
)
from clew.stores.results import MemoryResults

_ACTIVE = ("queued", "running", "sleeping", "waiting", "paused", "compensating")


class _Run(msgspec.Struct):
    row: RunRow
    number: int  # never reused, so that a fence belongs to one run
    log: list[Any] = []
    named: dict[tuple[str, str, int], LogEntry] = {}
    blobs: set[str] = set()
    fence: int = 0
    owner: str = ""
    token: str = ""  # of the claim
    entry: queue.MemoryEntry | None = None  # in the queue
    inbox: dict[int, Message] = {}
    sent: dict[str, int] = {}  # ids of messages -> their numbers


def _census(named: Iterable[tuple[str, str, int]]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for kind, path, n in named:
        if kind == OWN_STEP and not path:
            counts[""] = max(n, counts.get("", n))
        else:
            counts[kind] = counts.get(kind, 0) + 1
    return counts


@with_docs
class MemoryStore(Store):
    """A store in memory."""

    encodes = False
    mark_interval = 0.25

    def __init__(self, keep: int | None = 1_000, *, clock: LeaseClock = BOOT_CLOCK) -> None:
        count: Any = keep
        if count is not None and not is_int(count, 0):
            raise ValueError(f"keep: expected a number of runs >= 0 or None, got {keep!r}")
        self._keep = keep
        self._limit = (keep or 0) * 9 // 8  # how many runs there may be until old ones are dropped
        self._clock = clock
        self._runs: dict[str, _Run] = {}
        self._children: dict[str, list[str]] = {}  # run -> its children
        self._inner = 0  # the number of children
        self._heads: dict[str, str] = {}  # of threads
        self._created = 0
        self._blobs: dict[str, bytes] = {}
        self._results = MemoryResults()
        self._workers: dict[str, MemoryWorker] = {}
        self._tables: dict[str, MemoryRows] = {}
        self._lock = Lock()

    def at_once(self) -> MemoryStore:
        """Return this store, which never waits."""
        return self

    def __repr__(self) -> str:
        return f"MemoryStore({len(self._runs)} runs)"

    # -- runs --------------------------------------------------------------------------------------------

    def create(
        self,
        row: RunRow,
        blobs: Mapping[str, bytes] = {},
        *,
        owner: str = "",
        lease: float = 0.0,
        token: str = "",
        entries: Sequence[Any] = (),
        wait: bool = True,
        thread: ThreadMove | None = None,
        queue: QueueEntry | None = None,
    ) -> int:
        with self._lock:
            for other in (row.parent, row.child_of):
                if other is not None:
                    self._find(other)
            if row.run_id in self._runs:
                raise RunExistsError(exists(row.run_id))
            if thread is not None and (head := self._heads.get(thread.name)) != thread.expected:
                raise ThreadMovedError(moved(thread.name, head))
            if owner:
                ownership.enroll(self, owner, lease)
            if thread is not None:
                self._heads[thread.name] = row.run_id
            self._created += 1
            run = self._runs[row.run_id] = _Run(replace(row), self._created)
            if queue is not None:
                run.row.status = "queued"
                put_entry(self, run, queue)
            if blobs:
                self._put(run, blobs)
            for entry in entries:
                if type(entry) is LogEntry:
                    run.named[entry.name] = entry
                else:
                    run.log.append(entry)
            if row.child_of is not None:
                self._children.setdefault(row.child_of, []).append(row.run_id)
                self._inner += 1
            elif self._keep is not None and len(self._runs) - self._inner > self._limit:
                self._drop_oldest()
            return ownership.take(run, owner, token) if owner else 0

    def _drop_oldest(self) -> None:
        excess = len(self._runs) - self._inner - (self._keep or 0)
        needed = {run.row.parent for run in self._runs.values()} | set(self._heads.values())
        ended = (
            run_id
            for run_id, run in self._runs.items()
            if run.row.child_of is None
            and run.row.status not in _ACTIVE
            and needed.isdisjoint(self._family(run_id))
        )
        for run_id in list(islice(ended, excess)):
            for each in self._family(run_id):
                self._drop(each)
        left = len(self._runs) - self._inner
        self._limit = left + left // 8

    def _family(self, run_id: str) -> list[str]:
        """Return a run, its children, their children and so on."""
        found = [run_id]
        for each in found:
            found += self._children.get(each, ())
        return found

    def _drop(self, run_id: str) -> None:
        run = self._runs.pop(run_id)
        self._children.pop(run_id, None)
        if run.row.child_of is not None:
            self._inner -= 1
            if run.row.child_of in self._children:  # otherwise its run was dropped before it
                self._children[run.row.child_of].remove(run_id)
        self._release(run.blobs)

    def _release(self, digests: set[str]) -> None:
        """Delete those blobs that nothing uses any more."""
        for digest in digests:
            used = self._results.uses(digest) or any(digest in run.blobs for run in self._runs.values())
            if not used:
                del self._blobs[digest]

    def _find(self, run_id: str) -> _Run:
        try:
            return self._runs[run_id]
        except KeyError:
            raise unknown(run_id, ((known,) for known in islice(reversed(self._runs), MOST_RECENT))) from None

    def row(self, run_id: str) -> RunRow:
        with self._lock:
            return replace(self._find(run_id).row)

    def rows(self, status: str | None = None, *, of: str | None = None) -> list[RunRow]:
        with self._lock:
            runs = self._runs.values() if not of else [self._runs[run] for run in self._children.get(of, ())]
            return [
                replace(run.row)
                for run in runs
                if (status is None or run.row.status == status) and (of != "" or run.row.child_of is None)
            ]

    page, tally = pages.page, pages.tally

    def update(
        self,
        run_id: str,
        *,
        status: str,
        updated: float,
        error: Any,
        fence: int,
        release: bool = False,
        due: float | None = None,
    ) -> None:
        with self._lock:
            run = self._owned(run_id, fence)
            row = run.row
            row.status, row.updated, row.error = status, updated, error
            if release:
                run.owner = run.token = ""
                row.census = _census(run.named)
            queue.settle(self, run, status, due, release=release)

    def delete(self, run_id: str) -> None:
        with self._lock:
            self._find(run_id)
            family = self._family(run_id)
            for other, run in self._runs.items():
                if run.row.parent in family and other not in family:
                    raise StoreError(has_fork(run.row.parent, other))
            parent = self._find(run_id).row.parent
            for name in [name for name, head in self._heads.items() if head == run_id]:
                if parent is None:
                    del self._heads[name]
                else:
                    self._heads[name] = parent
            for each in family:
                self._drop(each)
            self._limit = self._keep or 0

    def detach(self, row: RunRow, blobs: Mapping[str, bytes], fence: int) -> None:
        with self._lock:
            run = self._owned(row.run_id, fence)
            run.row = replace(run.row, start=row.start, parent=None, parent_step=None)
            self._put(run, blobs)

    def head(self, thread: str) -> str | None:
        return self._heads.get(thread)

    def threads(self) -> list[tuple[str, str]]:
        return sorted(self._heads.items())

    # -- owners ------------------------------------------------------------------------------------------

    claim, release, owner, fence = ownership.claim, ownership.release, ownership.owner, ownership.fence
    register, renew, retire = ownership.register, ownership.renew, ownership.retire
    expire, workers = ownership.expire, ownership.workers
    take, enqueue, queues = queue.take, queue.enqueue, queue.queues
    entry, time = queue.entry, queue.now
    send, inbox, addressed = inbox.send, inbox.inbox, inbox.addressed

    def _owned(self, run_id: str, fence: int) -> _Run:
        run = self._find(run_id)
        if run.fence != fence:
            raise RunOwnedError(taken_over(run_id))
        return run

    # -- logs --------------------------------------------------------------------------------------------

    def append(
        self,
        run_id: str,
        entries: Sequence[Any],
        fence: int,
        *,
        drop: Sequence[tuple[str, str, int]] = (),
        blobs: Mapping[str, bytes] = {},
        statements: Sequence[Statement] = (),
        wait: bool = True,
        received: Sequence[int] = (),
    ) -> None:
        if statements:
            raise StoreError(NO_DATABASE)
        with self._lock:
            run = self._owned(run_id, fence)
            if LogEntry not in set(map(type, entries)) and not drop and not blobs:
                run.log += entries
                inbox.receive(run, received)
                return
            fresh: dict[tuple[str, str, int], LogEntry] = {}
            plain: list[Any] = []
            gone = frozenset(drop)
            for entry in entries:
                if type(entry) is not LogEntry:
                    plain.append(entry)
                elif entry.name not in gone:
                    known = run.named.get(entry.name) or fresh.get(entry.name)
                    if known is None:
                        fresh[entry.name] = entry
                    elif known.digest != entry.digest:
                        raise CommitConflictError(conflict(run_id, entry))
            inbox.receive(run, received)
            run.log += plain
            run.named.update(fresh)
            for name in gone:
                run.named.pop(name, None)
            if blobs:
                self._put(run, blobs)

    def rehearse(self, statements: Sequence[Statement]) -> None:
        """Raise StoreError: memory has no database for statements."""
        raise StoreError(NO_DATABASE)

    def _put(self, run: _Run, blobs: Mapping[str, bytes]) -> None:
        run.blobs.update(blobs)
        for digest, content in blobs.items():
            self._blobs.setdefault(digest, content)

    def entries(
        self, run_id: str, *, after: int = 0, upto: int | None = None, skip: Collection[str] = ()
    ) -> Sequence[Any]:
        with self._lock:
            run = self._find(run_id)
            found = list(run.log)
            if run.named:
                named = (run.named[name] for name in sorted(run.named))
                found += [
                    entry
                    for entry in named
                    if entry.kind not in skip
                    and (
                        entry.kind != OWN_STEP
                        or entry.path
                        or (entry.n > after and (upto is None or entry.n <= upto))
                    )
                ]
            return found

    def within(
        self,
        run_id: str,
        kinds: Collection[str],
        paths: Sequence[tuple[str, str]] | None = None,
        *,
        after: int = 0,
        upto: int | None = None,
    ) -> Sequence[Any]:
        return [
            entry
            for entry in self.entries(run_id, after=after, upto=upto)
            if type(entry) is LogEntry
            and entry.kind in kinds
            and (paths is None or any(first <= entry.path < beyond for first, beyond in paths))
        ]

    def change_mark(self, run_id: str, kinds: Collection[str]) -> Any:
        with self._lock:
            run = self._find(run_id)
            named = sum(name[0] in kinds or name[0] == OWN_STEP for name in run.named)
            last = max((name[2] for name in run.named if name[0] in kinds), default=0)
            return (
                run.number,
                run.row.status,
                run.row.updated,
                len(run.log),
                named,
                last,
                run.fence,
                len(run.sent),
            )

    def log_end(
        self, run_id: str, kinds: Collection[str], *, base: str = "", most: int, counts: bool = True
    ) -> LogEnd:
        """Return the end of the log of a run. Objects that are not entries are not a part of it."""
        with self._lock:
            run = self._find(run_id)
            names = sorted(run.named)
            bases = [name for name in names if name[:2] == (base, "")][-1:]
            after = bases[0][2] if bases else 0
            steps = [name for name in names if name[:2] == (OWN_STEP, "") and name[2] > after]
            others = [name for name in names if name[0] in kinds]
            found = sorted([*bases, *steps[-most:], *others])
            number = Counter(name[:2] for name in names if name[:2] != (OWN_STEP, ""))
            return LogEnd(
                [run.named[name] for name in found],
                number if counts else {},
                list(run.inbox.values()),
                bool(self._children.get(run_id)),
            )

    def find(self, run_id: str, kind: str, path: str) -> Sequence[Any]:
        with self._lock:
            named = self._find(run_id).named
            return [named[name] for name in sorted(n for n in named if n[0] == kind and n[1] == path)]

    def last(self, run_id: str, kind: str, path: str, n: int) -> Any:
        return next((entry for entry in reversed(self.find(run_id, kind, path)) if entry.n <= n), None)

    def blob(self, digest: str) -> bytes:
        try:
            return self._blobs[digest]
        except KeyError:
            raise StoreCorruptError(lost_content(digest, "the store", is_there=False)) from None

    # -- cached results ----------------------------------------------------------------------------------

    def cached(self, key: str) -> CachedResult | None:
        with self._lock:
            return self._results.find(key, self._clock.time())

    def cache(
        self, key: str, node: str, body: bytes, blobs: Mapping[str, bytes] = {}, *, ttl: float | None = None
    ) -> None:
        with self._lock:
            for digest, content in blobs.items():
                self._blobs.setdefault(digest, content)
            self._release(self._results.put(key, node, body, blobs, self._clock.time(), ttl))

    def clear_cache(self, node: str | None = None) -> int:
        with self._lock:
            count, digests = self._results.drop(node)
            self._release(digests)
            return count

    def open_table(self, name: str) -> MemoryTable:
        """Open a key-value table, which lives as long as this store."""
        with self._lock:
            return MemoryTable(name, self._tables.setdefault(name, MemoryRows()))

    def table_names(self) -> list[str]:
        """Return the names of the key-value tables."""
        with self._lock:
            return list(self._tables)

    def check(self) -> Iterator[str]:
        """Yield nothing: memory is not checked."""
        return iter(())

    def close(self) -> None:
        """Do nothing: the runs stay readable."""


class _NullStore(MemoryStore):
    """A store that keeps nothing, like a memory store that has already dropped the run."""

    def create(self, row: RunRow, *_: Any, **__: Any) -> int:
        """Discard the run."""
        return 0

    def update(self, run_id: str, **_: Any) -> None:
        """Discard the update."""

    def inbox(self, run_id: str) -> list[Message]:
        """Return no messages, because none can be sent."""
        return []

    def append(
        self,
        run_id: str,
        entries: Sequence[Any],
        fence: int,
        *,
        statements: Sequence[Statement] = (),
        **_: Any,
    ) -> None:
        """Discard entries. Raise StoreError for statements, which need a database."""
        if statements:
            raise StoreError(NO_DATABASE)


NOWHERE = _NullStore()
"""The store of `Graph.run`: only the returned result remains of a run."""
