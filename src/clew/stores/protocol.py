"""What a store is: rows about runs, a log of entries for each run, and who owns a run.

A store does not know what entries mean. It upholds these rules, and `clew.stores.conformance` checks them:

- An `append` is all or nothing, and durable when it returns.
- An entry is named by (run, kind, path, n). The same entry again, with the same digest, is no error and changes
  nothing; another digest under the same name is a `CommitConflictError`, and nothing of that append is kept.
- What an append both adds and drops is never written; what it drops and is not there is no error.
- Who appends shows the fence that `claim` gave; a run that nobody ever claimed has the fence 0. A later claim makes
  earlier fences stale: whoever comes back with one gets `RunOwnedError`, and nothing is kept. Two claims at once: one
  wins. A fence fits one run only, also when that run is deleted and another one gets its id.
- A run is claimed from a living owner only when the lease has run out; from a dead one at once, where the store can
  tell. An owner is a name: it may claim again what it owns. Releasing keeps the fence good until the next claim.
- A lease is measured by one clock that all users of the store share: the server's, or the machine's since boot. No
  caller brings a time. An owner that renews its lease in time keeps its run, whatever anybody's wall clock says. A
  lease of 0 seconds has run out at once.
- Large contents are kept once, by their digest (hex SHA-256), for as long as a run that brought them is there.
- An update that releases a run keeps a census of its log in its row, until the next one that does.
- Nothing is dropped unless asked for. A run that has a fork cannot be deleted before that one (StoreError), and none
  can be created whose parent is not there (UnknownRunError): if one forks what another deletes, one of them fails.
- An id that is not there is an `UnknownRunError`, but to `release`, which people call to clean up.
- What is handed out does not change later. All methods may be called from several threads at once.
- Ids, kinds and paths are text of any length; what a store cannot keep exactly (NUL, half a surrogate pair), it
  refuses with a `StoreError`.

`encodes` says whether bodies are bytes. The store in memory keeps whatever objects it is given.

A store that waits for a disk at each write may offer to wait once for several: see `DeferredSync`. One that rarely
has to wait for anybody may say so when it would have to: see `Prompt`. Event loops wait for any other on a thread.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Protocol

import msgspec

OWN_STEP = "step"
"""The one kind that a store knows: an entry of this kind with the path "" is one of the run's own steps. These are most
of a log and are read by ranges of `n`, so a store may keep them apart."""


class LogEntry(msgspec.Struct, frozen=True):
    """One entry of a run's log. `n` (64 bits, signed) orders the entries of one kind and path."""

    kind: str
    path: str
    n: int
    body: Any
    digest: bytes = b""

    @property
    def name(self) -> tuple[str, str, int]:
        """What names it within its run."""
        return self.kind, self.path, self.n


class Statement(msgspec.Struct, frozen=True):
    """A write to the database that the store is in, in its own SQL; with `many`, once for each of `values`."""

    sql: str
    values: Any = ()
    many: bool = False


class RunRow(msgspec.Struct):
    """What is known about a run beside its log. `start` and `error` are bytes where the store encodes."""

    run_id: str
    graph: str = ""  # the graph's name
    start: Any = None  # S(0): as a whole or, for a fork, what was changed in a state of its parent
    seed: int = 0
    status: str = "running"
    created: float = 0.0
    updated: float = 0.0
    parent: str | None = None  # the run that this one was forked from, and where
    parent_step: int | None = None
    error: Any = None  # why it failed: bytes, or what the store was given; once it is read, the exception
    structure: str = ""  # the graph's structure hash
    codes: Mapping[str, str] = {}  # each node's code hash
    start_digest: str = ""  # the digest of S(0)
    description: Any = (
        ""  # the digest of the blob that describes the graph; the graph itself where nothing is encoded
    )
    target: str = ""  # MODULE:GRAPH, where the run was started from one
    damage: str = (
        ""  # what is wrong with this row, as far as the store can tell; such a row is listed, not read
    )
    # What the log had when the run was last let go of by an update, None if it never was: the number of entries of
    # each kind, but of the run's own steps (kind `OWN_STEP`, path ""), under "", the n of the last one.
    census: Mapping[str, int] | None = None
    failures: tuple[Any, ...] = ()  # once it is read: why it failed, and where


class Owner(msgspec.Struct, frozen=True):
    """Who has a run, and for how long. `is_alive` is False where the store can tell that the process is gone."""

    name: str
    expires_in: float  # seconds until its lease runs out; 0 or less if it has
    is_alive: bool = True

    @property
    def holds(self) -> bool:
        """Whether nobody else can claim the run now."""
        return self.is_alive and self.expires_in > 0


class DeferredSync(Protocol):
    """What a store has beside the rest of `Store` if it can wait for the disk later.

    With ``wait=False`` its `create` and `append` do what they always do: others see it, and it survives the process. A
    power cut, though, may take it until `sync` has returned, or any later write that was waited for.
    """

    defers: bool
    """Whether it can. Without this, or if it is False, nobody says `wait` or calls `sync`."""

    def sync(self) -> None:
        """Return when all that was written so far is on the disk."""


class WouldWait(Exception):
    """A store would have to wait for somebody else, and was asked not to. Nothing was read or changed."""


class Prompt(Protocol):
    """What a store has beside the rest of `Store` if it can be asked not to wait for anybody."""

    def at_once(self) -> Store:
        """The same store, of which every operation raises `WouldWait` where this one would wait for another process or
        thread. It is closed with this one."""


class Store(Protocol):
    """Where runs are kept."""

    encodes: bool

    def create(
        self,
        row: RunRow,
        blobs: Mapping[str, bytes] = ...,
        *,
        owner: str = ...,
        lease: float = ...,
        entries: Sequence[Any] = ...,
    ) -> int:
        """Keep a new run, with `entries` as its log, all or nothing. RunExistsError if its id is taken, UnknownRunError
        if its parent is not there. With an `owner`, `claim` it too: the fence, else 0."""

    def row(self, run_id: str) -> RunRow:
        """One run. UnknownRunError if there is none of that id, StoreCorruptError if its row is damaged."""

    def rows(self, status: str | None = None) -> list[RunRow]:
        """All runs, or those of one status, in the order in which they were created."""

    def update(
        self, run_id: str, *, status: str, updated: float, error: Any, fence: int, release: bool = ...
    ) -> None:
        """Change what is known about a run, and with `release` stop being its owner and take a census of its log."""

    def claim(self, run_id: str, owner: str, *, lease: float) -> int:
        """Become the owner of a run; the fence to show from now on. RunOwnedError if a living owner has it."""

    def renew(self, run_id: str, fence: int, *, lease: float) -> None:
        """Stay the owner. RunOwnedError if somebody else is."""

    def release(self, run_id: str, fence: int) -> None:
        """Stop being the owner; nothing if somebody else is."""

    def owner(self, run_id: str) -> Owner | None:
        """Who owns a run, or died owning it; None if it was released, or never claimed."""

    def append(
        self,
        run_id: str,
        entries: Sequence[Any],
        fence: int,
        *,
        drop: Sequence[tuple[str, str, int]] = ...,
        blobs: Mapping[str, bytes] = ...,
        statements: Sequence[Statement] = ...,
    ) -> None:
        """Add entries, take away those named in `drop`, keep blobs and execute statements, all or nothing.

        StoreError if a statement is refused. Where all entries are there already, statements are not executed again.
        """

    def rehearse(self, statements: Sequence[Statement]) -> None:
        """Execute statements and take them back; raises what the database raises. StoreError if there is none."""

    def entries(
        self, run_id: str, *, after: int = 0, upto: int | None = None, skip: Collection[str] = ...
    ) -> Sequence[Any]:
        """A run's log by kind, path and n, without the kinds in `skip`; of its own steps (`OWN_STEP`) those
        after `after` only, and not those after `upto`."""

    def within(
        self,
        run_id: str,
        kinds: Collection[str],
        paths: Sequence[tuple[str, str]] | None = ...,
        *,
        after: int = ...,
        upto: int | None = ...,
    ) -> Sequence[Any]:
        """A part of a run's log by kind, path and n: the entries of some kinds, with `paths` those only whose path is
        in one of these ranges, each from its first text up to, and without, its second. They do not overlap. Of the
        run's own steps those after `after` only, and not those after `upto`. No other entry is read for it."""

    def census(self, run_id: str) -> Mapping[str, int]:
        """What the log of a run has now, counted as in `RunRow.census`. Nothing is read for it but names."""

    def find(self, run_id: str, kind: str, path: str) -> Sequence[Any]:
        """The entries of one kind and path, by n."""

    def last(self, run_id: str, kind: str, path: str, n: int) -> Any:
        """The entry of one kind and path with the largest n up to `n`, or None."""

    def blob(self, digest: str) -> bytes:
        """A large content. StoreCorruptError if it is missing or damaged."""

    def delete(self, run_id: str) -> None:
        """Forget a run. UnknownRunError if there is none of that id, StoreError if a fork builds on it."""

    def check(self) -> Iterator[str]:
        """Look at everything; yields a sentence for each thing that is wrong."""

    def close(self) -> None:
        """Let go of whatever the store holds, and of the runs that it owns. Closing twice is no error."""
