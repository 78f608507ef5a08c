"""The archive: runs of one graph in a store, written and read as a whole.

It knows how a run begins on disk (its row, and the state that it starts from) and how it is read again: from the last
snapshot before the step that is asked for, with the digests of all steps after it checked. A fork keeps no copy of its
parent: it says which run and step it goes on from, and what was changed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import count
from typing import Any

import msgspec

from clew.engine.programs import program_of
from clew.errors import CheckpointError, DecodeError, StoreCorruptError
from clew.graph import Graph
from clew.runtime.codes import Codes, codes_of
from clew.runtime.crash_points import reach
from clew.runtime.doubts import Intent
from clew.runtime.failures import error_of, plain_error
from clew.runtime.ledger import Durability, Ledger
from clew.runtime.log import RunLog, read_log
from clew.runtime.recorder import Recall, RecordedCall
from clew.runtime.wire import Reader, Writer, snapshot_bytes
from clew.state import GraphState, decode, encode
from clew.stores import Entry, RunRow, Store

LAST = 1 << 62


class Archive:
    """The runs of one graph in one store."""

    def __init__(self, graph: Graph, store: Store, on_conflict: str) -> None:
        self._graph = graph
        self._store = store
        self._on_conflict = on_conflict
        self._codes = Codes(graph)

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
    ) -> int:
        """Keep a new run, and become its owner where the store is one that others may use too: the fence."""
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
            codes=self._codes,
            target=target,
        )
        if not self._store.encodes:
            self._store.create(row)
            return 0
        row.structure = self._graph.structure_hash
        row.codes = codes_of(self._graph)
        row.start = self.start_bytes(start, parent, parent_step)
        reach("before-create")
        fence = self._store.create(row, owner=owner, lease=lease, now=now)
        reach("after-create")
        return fence

    def start_bytes(self, start: GraphState, parent: str | None, step: int | None) -> bytes:
        """What is kept of the state that a run begins with: all of it, or which step of which run, and what was set."""
        if parent is None:
            return start.to_checkpoint()
        touched = {name: start.get(name) for name in sorted(start.position.touched)}
        return encode({"parent": parent, "step": step, "set": touched}, at="fork", ordered=True)

    def fresh_ledger(
        self, run_id: str, start: GraphState, seed: int, created: float, fence: int, durability: Durability
    ) -> Ledger:
        """A ledger for a run that has just been created."""
        if not self._store.encodes:
            return Ledger(self._store, run_id, fence)
        return Ledger(
            self._store,
            run_id,
            fence,
            durability=durability,
            writer=Writer({"": start.digest}, seed, created),
            snapshot=lambda: self.state(run_id),
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
            weight=log.weight,
            since=log.since,
            journaled=log.journaled,
        )

    def begin(self, run_id: str, fence: int, now: float) -> None:
        """A stretch of a run begins: it had stopped, and is gone on with."""
        self._update(run_id, "running", now, None, fence, release=False)

    def close(self, run_id: str, fence: int, status: str, now: float, error: BaseException | None) -> None:
        """A stretch of a run has ended: others may have it."""
        self._update(run_id, status, now, error, fence, release=self._store.encodes)

    def _update(
        self, run_id: str, status: str, now: float, error: BaseException | None, fence: int, *, release: bool
    ) -> None:
        kept: Any = error
        if self._store.encodes and error is not None:
            kept = encode(plain_error(error), at="error", ordered=True)
        reach("before-update")
        self._store.update(run_id, status=status, updated=now, error=kept, fence=fence, release=release)
        reach("after-update")

    def claim(self, run_id: str, owner: str, lease: float, now: float) -> int:
        """Become the owner of a run, where the store is one that others may use too."""
        if not self._store.encodes:
            return 0
        reach("before-claim")
        fence = self._store.claim(run_id, owner, lease=lease, now=now)
        reach("after-claim")
        return fence

    def release(self, run_id: str, fence: int) -> None:
        """Let others have a run."""
        if self._store.encodes:
            self._store.release(run_id, fence)

    # -- reading -----------------------------------------------------------------------------------------

    def row(self, run_id: str) -> RunRow:
        """What is known about a run, its error as an exception."""
        return self._opened(self._store.row(run_id))

    def rows(self, status: str | None = None) -> list[RunRow]:
        """All runs."""
        return [self._opened(row) for row in self._store.rows(status)]

    def _opened(self, row: RunRow) -> RunRow:
        if self._store.encodes and row.error is not None:
            row = msgspec.structs.replace(row, error=error_of(decode(row.error)))
        return row

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

    def state(self, run_id: str, step: int | None = None) -> GraphState:
        """S(step), the last one by default; read from the snapshot before it."""
        log = self.log(run_id, upto=step)
        chain = log.chain(program_of(self._graph, log.start.position.given))
        return chain.state(chain.last if step is None else step)

    def log(self, run_id: str, *, upto: int | None = None, whole: bool = False) -> RunLog:
        """A run's log: from the last snapshot up to `upto`, or from its beginning if `whole`."""
        row = self.row(run_id)
        if not self._store.encodes:
            return read_log(row, row.start, self._store.entries(run_id), self._on_conflict)
        snapshot = None
        if not whole:
            snapshot = self._store.last(run_id, "snapshot", "", LAST if upto is None else upto)
        if snapshot is None:
            start, after, weight = self.start(row), 0, 0
        else:
            start, weight = self._unpacked(run_id, snapshot)
            after = snapshot.n
        reader = Reader(run_id, self._store.blob, row.created)
        entries = self._store.entries(run_id, after=after, skip=() if whole else ("call", "intent"))
        records = [reader.record(entry) for entry in entries if entry.kind != "snapshot"]
        log = read_log(row, start, records, self._on_conflict)
        log.weight = weight
        log.since = sum(len(entry.body) for entry in entries if entry.kind == "step" and not entry.path)
        self._verify(log, {(e.path, e.n): e.digest for e in entries if e.kind == "step"})
        return log

    def start(self, row: RunRow) -> GraphState:
        """The state that a run began with."""
        data: bytes = row.start
        if not data.startswith(b"{"):
            return self._restored(row.run_id, 0, data)
        fork: Mapping[str, Any] = decode(data)
        state = self.state(fork["parent"], fork["step"])
        return state.set_multiple(fork["set"]) if fork["set"] else state

    def _unpacked(self, run_id: str, snapshot: Entry) -> tuple[GraphState, int]:
        """The state in a snapshot, and its weight."""
        try:
            data = snapshot_bytes(snapshot)
        except DecodeError as error:
            raise StoreCorruptError(
                f"run {run_id!r}: the state at step {snapshot.n} is damaged ({error})"
            ) from error
        return self._restored(run_id, snapshot.n, data), len(data)

    def _restored(self, run_id: str, step: int, data: bytes) -> GraphState:
        try:
            return GraphState.from_checkpoint(data)
        except CheckpointError as error:
            if "register" in str(error):
                raise
            raise StoreCorruptError(
                f"run {run_id!r}: the state at step {step} is damaged ({error})"
            ) from error

    def _verify(self, log: RunLog, stored: Mapping[tuple[str, int], bytes]) -> None:
        chain = log.chain(program_of(self._graph, log.start.position.given))
        for step in log.steps:
            if chain.digest(step.number) != stored["", step.number].hex():
                raise StoreCorruptError(
                    f"run {log.row.run_id!r}: step {step.number} is damaged: its digest does not fit its content; "
                    f"other runs can be read, and this one up to step {step.number - 1}"
                )


_process: tuple[int, str] = (0, "")
_owners = count(1)


def fresh_owner() -> str:
    """A name for an owner of a run: which process, for messages, and what no other owner has, here or elsewhere."""
    global _process
    here = os.getpid()
    if _process[0] != here:  # the first time, or the first time after a fork
        _process = (here, os.urandom(4).hex())
    return f"process {here} ({_process[1]}.{next(_owners)})"
