"""The archive: runs of one graph in a store, as engines see them.

It knows how a run begins on disk (its row, and the state that it starts from), who writes on, and when it is let go of;
how it is read again is in ``clew.runtime.retrieval``. Of a long line of forks every sixteenth has a snapshot of its
first state, so that loading one does not take all of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cached_property
from itertools import count
from typing import Any

from clew.engine.programs import program_of
from clew.errors import StoreCorruptError
from clew.graph import Graph
from clew.runtime.codes import Codes, kept_codes
from clew.runtime.crash_points import reach
from clew.runtime.doubts import Intent
from clew.runtime.ledger import FIRST_SNAPSHOT, OUTWEIGH, Durability, Ledger
from clew.runtime.log import RunLog
from clew.runtime.recorder import Recall, RecordedCall
from clew.runtime.retrieval import LAST, Retrieval
from clew.runtime.rows import opened_row, sealed_error
from clew.runtime.snapshots import Blobs, snapshot_entry
from clew.runtime.starts import is_fork, kept_start
from clew.runtime.wire import Reader, Writer
from clew.state import GraphState
from clew.stores import Entry, RunRow, Store
from clew.stores.memory import NOWHERE

_DEEP = 16  # forks of forks, of which the last one gets a snapshot of its own


class Archive:
    """The runs of one graph in one store."""

    def __init__(self, graph: Graph, store: Store, on_conflict: str) -> None:
        self._graph = graph
        self._store = store
        self._on_conflict = on_conflict
        self._keeps = store is not NOWHERE

    @cached_property
    def _retrieval(self) -> Retrieval:  # few runs are read again
        return Retrieval(self._graph, self._store, self._on_conflict)

    # -- writing -----------------------------------------------------------------------------------------

    def create(
        self,
        run_id: str,
        start: GraphState,
        seed: int,
        now: float,
        *,
        parent: str | None = None,
        parent_step: int | None = None,
        target: str = "",
        owner: str = "",
        lease: float = 0.0,
        on_conflict: str = "error",
        wait: bool = True,
        at_once: bool = False,
    ) -> int:
        """Keep a new run, and become its owner where the store is one that others may use too: the fence."""
        if not self._keeps:
            return 0
        row = RunRow(
            run_id=run_id,
            graph=self._graph.name or "",
            start=start,
            seed=seed,
            status="running",
            created=now,
            updated=now,
            parent=parent,
            parent_step=parent_step,
            codes=Codes(self._graph, on_conflict),
            target=target,
        )
        if not self._store.encodes:
            self._store.create(row)
            return 0
        row.structure = self._graph.structure_hash
        row.codes = kept_codes(self._graph, on_conflict)
        row.start, blobs = kept_start(start, parent, parent_step)
        more: Any = {} if wait else {"wait": False}
        reach("before-create")
        fence = self._place(at_once).create(row, blobs, owner=owner, lease=lease, **more)
        reach("after-create")
        if parent is not None and self._is_deep(row):
            pieces: Blobs = {}
            entry, _ = snapshot_entry(start, pieces)
            self._store.append(run_id, [entry], fence, blobs=pieces)
        return fence

    def _is_deep(self, row: RunRow) -> bool:
        """Whether a fork has so many forks before it that it should not depend on all of them when it is loaded."""
        for _ in range(_DEEP):
            if not is_fork(row.start) or row.parent is None or row.parent_step is None:
                return False
            parent, step = row.parent, row.parent_step
            if self._store.last(parent, "snapshot", "", step) is not None:
                return False
            row = self._store.row(parent)
        return True

    def fresh_ledger(
        self,
        run_id: str,
        start: GraphState,
        seed: int,
        created: float,
        fence: int,
        durability: Durability,
        *,
        owes: bool = False,
    ) -> Ledger:
        """A ledger for a run that has just been created; with `owes`, without waiting for the disk."""
        if not self._store.encodes:
            return Ledger(self._store, run_id, fence)
        return Ledger(
            self._store,
            run_id,
            fence,
            durability=durability,
            writer=Writer({"": start.digest}, seed, created),
            snapshot=lambda: self.state(run_id),
            snapshots=lambda: self.snapshots(run_id),
            owes=owes,
        )

    def ledger(self, log: RunLog, fence: int, durability: Durability) -> Ledger:
        """A ledger that goes on where a run's log ends."""
        run_id = log.row.run_id
        if not self._store.encodes:
            return Ledger(self._store, run_id, fence)
        chain = log.chain(program_of(self._graph, log.start.position.given))
        digests = {"": chain.digest(chain.last)}
        for prefix, inner in log.inner_chains(self._graph):
            digests[prefix] = inner.digest(inner.last)
        return Ledger(
            self._store,
            run_id,
            fence,
            durability=durability,
            writer=Writer(digests, log.row.seed, log.row.created),
            snapshot=lambda: self.state(run_id),
            snapshots=lambda: self.snapshots(run_id),
            weight=log.weight,
            since=log.since,
            journaled=log.journaled,
            asked=log.asked,
        )

    def begin(self, run_id: str, fence: int, now: float) -> None:
        """A stretch of a run begins: it had stopped, and is gone on with."""
        self._update(run_id, "running", now, None, fence, release=False)

    def close(
        self,
        run_id: str,
        fence: int,
        status: str,
        now: float,
        error: BaseException | None,
        *,
        at_once: bool = False,
    ) -> None:
        """A stretch of a run has ended: others may have it."""
        if self._keeps:
            self._update(
                run_id, status, now, error, fence, release=self._store.encodes, store=self._place(at_once)
            )

    def _place(self, at_once: bool) -> Store:
        """The store; or the one that does not wait, for those who may not."""
        if not at_once:
            return self._store
        prompt: Store = self._store.at_once()  # type: ignore[attr-defined]
        return prompt

    def _update(
        self,
        run_id: str,
        status: str,
        now: float,
        error: BaseException | None,
        fence: int,
        *,
        release: bool,
        store: Store | None = None,
    ) -> None:
        kept: Any = error
        if self._store.encodes and error is not None:
            kept = sealed_error(error)
        reach("before-update")
        (store or self._store).update(
            run_id, status=status, updated=now, error=kept, fence=fence, release=release
        )
        reach("after-update")

    def claim(self, run_id: str, owner: str, lease: float) -> int:
        """Become the owner of a run, where the store is one that others may use too."""
        if not self._store.encodes:
            return 0
        reach("before-claim")
        fence = self._store.claim(run_id, owner, lease=lease)
        reach("after-claim")
        return fence

    def release(self, run_id: str, fence: int) -> None:
        """Let others have a run."""
        if self._store.encodes:
            self._store.release(run_id, fence)

    # -- reading -----------------------------------------------------------------------------------------

    def row(self, run_id: str) -> RunRow:
        """What is known about a run, its error as an exception. StoreCorruptError if that is damaged."""
        return self._retrieval.row(run_id)

    def log(self, run_id: str, *, upto: int | None = None, whole: bool = False) -> RunLog:
        """A run's log: what it takes to go on from its last state, or from S(upto); with `whole`, all of it."""
        return self._retrieval.log(run_id, upto=upto, whole=whole)

    def state(self, run_id: str, step: int | None = None) -> GraphState:
        """S(step), the last one by default; read from the snapshot before it."""
        return self._retrieval.state(run_id, step)

    def accepted(self, run_id: str) -> RunRow:
        """What is known about a run, with the graph that it goes on with."""
        return self._retrieval.accepted(self.row(run_id))

    def rows(self, status: str | None = None) -> list[RunRow]:
        """All runs. The error of one of which the row is damaged is the StoreCorruptError that says so."""
        rows = self._store.rows(status)
        if self._store.encodes:
            rows = [opened_row(row) for row in rows]
        for row in rows:
            if row.damage:
                row.error = StoreCorruptError(row.damage)
        return rows

    def recall(self, run_id: str, *, intents: bool) -> Recall:
        """Looks up the recorded calls of one item, and the intents to call."""
        if self._store.encodes:
            reader = Reader(run_id, self._store.blob)
            kinds = ("call", "intent") if intents else ("call",)
            return lambda path: [
                reader.record(entry) for kind in kinds for entry in self._store.find(run_id, kind, path)
            ]
        known: dict[str, list[RecordedCall | Intent]] = {}
        for entry in self._store.entries(run_id):
            if isinstance(entry, RecordedCall | Intent):
                known.setdefault(entry.path, []).append(entry)
        return lambda path: known.get(path, ())

    def snapshots(self, run_id: str) -> Iterator[tuple[Entry, Blobs]]:
        """The snapshots that a run lacks after its last one: those that would have been made on the way."""
        reading, since = self._retrieval, 0
        row = reading.row(run_id)
        state, weight = reading.snapshot(run_id, LAST) or (reading.start(row), 0)
        for advance, size in reading.walk(row, state):
            since += size
            if since > max(FIRST_SNAPSHOT, OUTWEIGH * weight):
                blobs: Blobs = {}
                entry, weight = snapshot_entry(advance.state(), blobs)
                yield entry, blobs
                since = 0


_process: tuple[int, str] = (0, "")
_owners = count(1)


def fresh_owner() -> str:
    """A name for an owner of a run: which process, for messages, and what no other owner has, here or elsewhere."""
    global _process
    here = os.getpid()
    if _process[0] != here:  # the first time, or the first time after a fork
        _process = (here, os.urandom(4).hex())
    return f"process {here} ({_process[1]}.{next(_owners)})"
