"""The archive: runs of one graph in a store, written and read as a whole.

It knows how a run begins on disk (its row, and the state that it starts from) and how it is read again: from the last
snapshot before the step that is asked for, with the digests of all steps after it checked. A fork keeps no copy of its
parent: it says which run and step it goes on from, and what was changed; of a long line of forks every sixteenth has a
snapshot of its first state, so that loading one does not take all of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

from clew.engine.chain import Chain
from clew.engine.programs import program_of
from clew.errors import CheckpointError, DecodeError, StoreCorruptError
from clew.graph import Graph
from clew.runtime.codes import Codes, kept_codes
from clew.runtime.crash_points import reach
from clew.runtime.doubts import Intent
from clew.runtime.ledger import FIRST_SNAPSHOT, OUTWEIGH, Durability, Ledger
from clew.runtime.log import RunLog, read_log
from clew.runtime.recorder import Recall, RecordedCall
from clew.runtime.rows import opened_row, sealed_error
from clew.runtime.starts import first_state, fork_of, is_fork, kept_start
from clew.runtime.wire import Reader, Writer, snapshot_bytes, snapshot_entry
from clew.state import GraphState
from clew.stores import Entry, RunRow, Store
from clew.stores.memory import NOWHERE

LAST = 1 << 62
_DEEP = 16  # forks of forks, of which the last one gets a snapshot of its own


class Archive:
    """The runs of one graph in one store."""

    def __init__(self, graph: Graph, store: Store, on_conflict: str) -> None:
        self._graph = graph
        self._store = store
        self._on_conflict = on_conflict
        self._codes = Codes(graph, on_conflict)
        self._keeps = store is not NOWHERE

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
            codes=self._codes if on_conflict == self._on_conflict else Codes(self._graph, on_conflict),
            target=target,
        )
        if not self._store.encodes:
            self._store.create(row)
            return 0
        row.structure = self._graph.structure_hash
        row.codes = kept_codes(self._graph, on_conflict)
        row.start, blobs = kept_start(start, parent, parent_step)
        reach("before-create")
        fence = self._store.create(row, blobs, owner=owner, lease=lease, now=now)
        reach("after-create")
        if parent is not None and self._is_deep(row):
            self._store.append(run_id, [snapshot_entry(start)[0]], fence)
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
            snapshots=lambda: self.snapshots(run_id),
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
        )

    def begin(self, run_id: str, fence: int, now: float) -> None:
        """A stretch of a run begins: it had stopped, and is gone on with."""
        self._update(run_id, "running", now, None, fence, release=False)

    def close(self, run_id: str, fence: int, status: str, now: float, error: BaseException | None) -> None:
        """A stretch of a run has ended: others may have it."""
        if self._keeps:
            self._update(run_id, status, now, error, fence, release=self._store.encodes)

    def _update(
        self, run_id: str, status: str, now: float, error: BaseException | None, fence: int, *, release: bool
    ) -> None:
        kept: Any = error
        if self._store.encodes and error is not None:
            kept = sealed_error(error)
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
        """What is known about a run, its error as an exception. StoreCorruptError if that is damaged."""
        row = self._opened(self._store.row(run_id))
        if row.damage:
            raise StoreCorruptError(row.damage)
        return row

    def rows(self, status: str | None = None) -> list[RunRow]:
        """All runs. The error of one of which the row is damaged is the StoreCorruptError that says so."""
        rows = [self._opened(row) for row in self._store.rows(status)]
        for row in rows:
            if row.damage:
                row.error = StoreCorruptError(row.damage)
        return rows

    def _opened(self, row: RunRow) -> RunRow:
        if not self._store.encodes:
            return row
        return opened_row(row)

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
        base = None if whole else self._snapshot(run_id, LAST if upto is None else upto)
        start, weight = (self.start(row), 0) if base is None else base
        after = 0 if base is None else start.step
        return self._read(row, start, after, weight, upto=None if whole else upto, whole=whole)

    def _read(
        self,
        row: RunRow,
        start: GraphState,
        after: int,
        weight: int = 0,
        *,
        upto: int | None = None,
        whole: bool = False,
        sizes: list[int] | None = None,
    ) -> RunLog:
        """The log of a run from a state on, checked; `sizes` gets what each step weighs."""
        reader = Reader(row.run_id, self._store.blob, row.created)
        skip = () if whole else ("call", "intent")
        entries = self._store.entries(row.run_id, after=after, upto=upto, skip=skip)
        records, since = [], 0
        for entry in entries:
            if entry.kind == "snapshot":
                continue
            before = reader.fetched
            records.append(reader.record(entry))
            if entry.kind == "step" and not entry.path:
                size = len(entry.body) + reader.fetched - before
                since += size
                if sizes is not None:
                    sizes.append(size)
        log = read_log(row, start, records, self._on_conflict)
        log.weight, log.since = weight, since
        self._verify(log, {(e.path, e.n): e.digest for e in entries if e.kind == "step"})
        return log

    def snapshots(self, run_id: str) -> Iterator[Entry]:
        """The snapshots that a run lacks after its last one: those that would have been made on the way."""
        row = self.row(run_id)
        state, weight = self._snapshot(run_id, LAST) or (self.start(row), 0)
        sizes: list[int] = []
        log = self._read(row, state, state.step if weight else 0, weight, sizes=sizes)
        program, first, since = program_of(self._graph, state.position.given), 0, 0
        for place, size in enumerate(sizes, start=1):
            since += size
            if since > max(FIRST_SNAPSHOT, OUTWEIGH * weight):
                steps = log.steps[first:place]
                chain = Chain(program, state, steps, seed=row.seed, on_conflict=log.on_conflict)
                state, first, since = chain.state(chain.last), place, 0
                entry, weight = snapshot_entry(state)
                yield entry

    def start(self, row: RunRow) -> GraphState:
        """The state that a run began with. Forks are followed back to the first state that is there as a whole, and
        made again from there on; in a loop, as there may be thousands."""
        forks: list[tuple[RunRow, int, dict[str, Any]]] = []  # each with the step and the values of its fork
        while True:
            run_id = row.run_id
            upto = forks[-1][1] if forks else row.parent_step
            base = self._snapshot(run_id, upto) if is_fork(row.start) or forks else None
            if base is not None and (forks or base[0].step == row.parent_step):
                state, after = base[0], base[0].step
                break
            if not is_fork(row.start):
                state, after = self._restored(run_id, 0, row.start), 0
                break
            try:
                parent, step, values = fork_of(row.start, self._store.blob)
            except (DecodeError, StoreCorruptError, LookupError, TypeError, AttributeError) as error:
                raise StoreCorruptError(f"run {run_id!r}: what it began with is damaged ({error})") from error
            forks.append((row, step, values))
            row = self.row(parent)
        while forks:
            child, step, values = forks.pop()
            log = self._read(row, state, after, upto=step)
            chain = log.chain(program_of(self._graph, log.start.position.given))
            state = chain.state(log.step_of(chain, step))
            state = state.set_multiple(values) if values else state
            row, after = child, 0
        return state

    def _snapshot(self, run_id: str, upto: int | None) -> tuple[GraphState, int] | None:
        """The last snapshot up to a step, and its weight."""
        found = None if upto is None else self._store.last(run_id, "snapshot", "", upto)
        return None if found is None else self._unpacked(run_id, found)

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
            return first_state(data, self._store.blob)
        except (CheckpointError, DecodeError, StoreCorruptError, TypeError, ValueError) as error:
            if "register" in str(error):
                raise
            raise StoreCorruptError(
                f"run {run_id!r}: the state at step {step} is damaged ({error})"
            ) from error

    def _verify(self, log: RunLog, stored: Mapping[tuple[str, int], bytes]) -> None:
        chain = log.chain(program_of(self._graph, log.start.position.given))
        for place, step in enumerate(log.steps, start=chain.first + 1):
            if step.number != place:
                raise StoreCorruptError(
                    f"run {log.row.run_id!r}: step {place} is missing; other runs can be read, and this one up to step "
                    f"{place - 1}"
                )
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
