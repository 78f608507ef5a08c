"""A store in memory: for tests, for graphs that need no durability, and the default of `Graph.run`.

- It keeps the last `keep` finished runs, or all with ``keep=None``. It never drops running, waiting and paused runs,
  parents of forks, and heads of threads. Children do not count; they are dropped with their run.
- Entries can be any objects. Those that are not a `LogEntry` are stored in order and returned unchanged.
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
from clew.stores.lease_clock import BOOT_CLOCK, LeaseClock
from clew.stores.messages import (
    MOST_RECENT,
    NO_DATABASE,
    conflict,
    exists,
    has_fork,
    lost_content,
    moved,
    owned,
    taken_over,
    unknown,
)
from clew.stores.protocol import OWN_STEP, CachedResult, LogEntry, Owner, RunRow, Statement, ThreadMove
from clew.stores.results import MemoryResults


class _Run(msgspec.Struct):
    row: RunRow
    number: int  # never reused, so that a fence belongs to one run
    log: list[Any] = []
    named: dict[tuple[str, str, int], LogEntry] = {}
    blobs: set[str] = set()
    fence: int = 0
    owner: str = ""
    until: float = 0.0


def _census(named: Iterable[tuple[str, str, int]]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for kind, path, n in named:
        if kind == OWN_STEP and not path:
            counts[""] = max(n, counts.get("", n))
        else:
            counts[kind] = counts.get(kind, 0) + 1
    return counts


class MemoryStore:
    """A store in memory."""

    encodes = False
    defers = False
    mark_interval = 0.25

    def __init__(self, keep: int | None = 1_000, *, clock: LeaseClock = BOOT_CLOCK) -> None:
        count: Any = keep
        if count is not None and (not isinstance(count, int) or isinstance(count, bool) or count < 0):
            raise ValueError(f"keep: expected a number of runs >= 0 or None, got {keep!r}")
        self._keep = keep
        self._limit = keep or 0  # how many runs there may be until old ones are dropped
        self._clock = clock
        self._runs: dict[str, _Run] = {}
        self._children: dict[str, list[str]] = {}  # run -> its children
        self._inner = 0  # the number of children
        self._heads: dict[str, str] = {}  # of threads
        self._created = 0
        self._blobs: dict[str, bytes] = {}
        self._results = MemoryResults()
        self._lock = Lock()

    def at_once(self) -> MemoryStore:
        """Return this store, which never waits."""
        return self

    def sync(self) -> None:
        """Do nothing: no data is on a disk."""

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
        entries: Sequence[Any] = (),
        wait: bool = True,
        thread: ThreadMove | None = None,
    ) -> int:
        """Create a run, and claim it for `owner` if given. Raise RunExistsError if the id exists."""
        with self._lock:
            for other in (row.parent, row.child_of):
                if other is not None:
                    self._find(other)
            if row.run_id in self._runs:
                raise RunExistsError(exists(row.run_id))
            if thread is not None:
                if (head := self._heads.get(thread.name)) != thread.expected:
                    raise ThreadMovedError(moved(thread.name, head))
                self._heads[thread.name] = row.run_id
            self._created += 1
            run = self._runs[row.run_id] = _Run(replace(row), self._created)
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
        return self.claim(row.run_id, owner, lease=lease) if owner else 0

    def _drop_oldest(self) -> None:
        excess = len(self._runs) - self._inner - (self._keep or 0)
        needed = {run.row.parent for run in self._runs.values()} | set(self._heads.values())
        ended = [
            run_id
            for run_id, run in self._runs.items()
            if run.row.child_of is None
            and run.row.status not in ("running", "waiting", "paused")
            and needed.isdisjoint(self._family(run_id))
        ]
        for run_id in ended[:excess]:
            for each in self._family(run_id):
                self._drop(each)
        left = len(self._runs) - self._inner
        # If forks need all the others, looking again at each new run would take longer and longer.
        self._limit = left + left // 8 if left > (self._keep or 0) else self._keep or 0

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
        """Return a run. Raise UnknownRunError if it does not exist."""
        with self._lock:
            return replace(self._find(run_id).row)

    def rows(self, status: str | None = None, *, of: str | None = None) -> list[RunRow]:
        """Return all runs, those with a status, or the children of one run, in the order of their creation."""
        with self._lock:
            runs = self._runs.values() if not of else [self._runs[run] for run in self._children.get(of, ())]
            return [
                replace(run.row)
                for run in runs
                if (status is None or run.row.status == status) and (of != "" or run.row.child_of is None)
            ]

    def update(
        self, run_id: str, *, status: str, updated: float, error: Any, fence: int, release: bool = False
    ) -> None:
        """Update the row of a run, and release the run if `release` is set."""
        with self._lock:
            run = self._owned(run_id, fence)
            row = run.row
            row.status, row.updated, row.error = status, updated, error
            if release:
                run.owner, run.until = "", 0.0
                row.census = _census(run.named)

    def delete(self, run_id: str) -> None:
        """Delete a run and its children. Their forks must be deleted first."""
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
        """Replace the initial state of a fork, which no longer has a parent."""
        with self._lock:
            run = self._owned(row.run_id, fence)
            run.row = replace(run.row, start=row.start, parent=None, parent_step=None)
            self._put(run, blobs)

    def head(self, thread: str) -> str | None:
        """Return the run at the head of a thread, or None."""
        return self._heads.get(thread)

    def threads(self) -> list[tuple[str, str]]:
        """Return all threads by name, each with its head."""
        return sorted(self._heads.items())

    # -- owners ------------------------------------------------------------------------------------------

    def claim(self, run_id: str, owner: str, *, lease: float) -> int:
        """Become the owner of a run, and return its fence. Raise RunOwnedError if it has a living owner."""
        with self._lock:
            run, now = self._find(run_id), self._clock.monotonic()
            if run.owner and run.owner != owner and run.until > now:
                raise RunOwnedError(owned(run_id, run.owner, run.until - now))
            run.fence = (run.fence or run.number << 32) + 1
            run.owner, run.until = owner, now + lease
            return run.fence

    def renew(self, run_id: str, fence: int, *, lease: float) -> None:
        """Extend the lease."""
        with self._lock:
            self._owned(run_id, fence).until = self._clock.monotonic() + lease

    def release(self, run_id: str, fence: int) -> None:
        """Give up the ownership."""
        with self._lock:
            run = self._runs.get(run_id)
            if run is not None and run.fence == fence:
                run.owner, run.until = "", 0.0

    def owner(self, run_id: str) -> Owner | None:
        """Return the owner of a run, or None."""
        with self._lock:
            run = self._find(run_id)
            return Owner(run.owner, run.until - self._clock.monotonic()) if run.owner else None

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
    ) -> None:
        """Add entries atomically."""
        if statements:
            raise StoreError(NO_DATABASE)
        with self._lock:
            run = self._owned(run_id, fence)
            if LogEntry not in set(map(type, entries)) and not drop and not blobs:
                run.log += entries
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
        """Return the log of a run."""
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
        """A part of a run's log: some kinds, and of these the paths in some ranges."""
        return [
            entry
            for entry in self.entries(run_id, after=after, upto=upto)
            if type(entry) is LogEntry
            and entry.kind in kinds
            and (paths is None or any(first <= entry.path < beyond for first, beyond in paths))
        ]

    def change_mark(self, run_id: str, kinds: Collection[str]) -> Any:
        """Return a value that changes with the run."""
        with self._lock:
            run = self._find(run_id)
            named = sum(name[0] in kinds or name[0] == OWN_STEP for name in run.named)
            last = max((name[2] for name in run.named if name[0] in kinds), default=0)
            return run.number, run.row.status, run.row.updated, len(run.log), named, last, run.until

    def counts(self, run_id: str) -> Mapping[tuple[str, str], int]:
        """Count the entries of a run by kind and path."""
        with self._lock:
            names = self._find(run_id).named
            return Counter((kind, path) for kind, path, _ in names if kind != OWN_STEP or path)

    def find(self, run_id: str, kind: str, path: str) -> Sequence[Any]:
        """Return the entries of one kind and path, by n."""
        with self._lock:
            named = self._find(run_id).named
            return [named[name] for name in sorted(n for n in named if n[0] == kind and n[1] == path)]

    def last(self, run_id: str, kind: str, path: str, n: int) -> Any:
        """Return the entry of one kind and path with the largest n up to `n`, or None."""
        return next((entry for entry in reversed(self.find(run_id, kind, path)) if entry.n <= n), None)

    def blob(self, digest: str) -> bytes:
        """Return a blob."""
        try:
            return self._blobs[digest]
        except KeyError:
            raise StoreCorruptError(lost_content(digest, "the store", is_there=False)) from None

    # -- cached results ----------------------------------------------------------------------------------

    def cached(self, key: str) -> CachedResult | None:
        """Return a cached result, or None if it does not exist or has expired."""
        with self._lock:
            return self._results.find(key, self._clock.time())

    def cache(
        self, key: str, node: str, body: bytes, blobs: Mapping[str, bytes] = {}, *, ttl: float | None = None
    ) -> None:
        """Store a result of a node."""
        with self._lock:
            for digest, content in blobs.items():
                self._blobs.setdefault(digest, content)
            self._release(self._results.put(key, node, body, blobs, self._clock.time(), ttl))

    def clear_cache(self, node: str | None = None) -> int:
        """Delete the cached results of a node, or all."""
        with self._lock:
            count, digests = self._results.drop(node)
            self._release(digests)
            return count

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
