"""Reads runs from a store: first entries, then the log, then states.

`RunReader.open` reads the row of a run once and returns a `StoredRun`. That reads entries and verifies them: each
entry, the digests of each chain, and that no entry is missing since the run was last released. `log` returns the log
(`RunLog`), and `state` returns a state.

A run is read with its own graph: the engine's graph if it has the same structure, otherwise a graph without code, built
from the description stored with the run. So reading needs no user code and calls none. If the engine has no graph, no
registered class is built either.

Only the necessary entries are read. A state needs the run's own steps after the last snapshot before it, read in
batches. Continuing a run also needs the entries of its open items, but no subgraph that has ended. Only `whole` reads
the whole log.

A fork does not copy its parent. It stores the parent's run id and step, and the changed values. Loading a fork follows
its parents back to the nearest full state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from clew.engine.program import Program, program_of
from clew.engine.records import Failure, Step
from clew.engine.updates.deltas import deltas_from
from clew.errors import ClassChangedError, DecodeError, StoreCorruptError, UnknownRunError
from clew.graph import Graph
from clew.runtime.log.checks.fingerprints import conflict_rule, described, is_made_with
from clew.runtime.log.checks.integrity import (
    Chains,
    changed,
    digest_after_entry,
    is_harmless,
    last_step,
    missing,
    missing_entries,
    unread_paths,
    visits_of,
)
from clew.runtime.log.checks.schema_changes import with_defaults, without_unknown
from clew.runtime.log.checks.verification import digest_at
from clew.runtime.log.entries.call_records import CallIntent, Recall, RecordedCall
from clew.runtime.log.entries.codec import EntryDecoder
from clew.runtime.log.entries.large_values import Blobs, blobs_of, fetched
from clew.runtime.log.entries.records import (
    ACCEPTED,
    CALL,
    INTENT,
    JOURNAL,
    KINDS,
    MEASURED,
    PUBLISHED,
    RESUME,
    SNAPSHOT,
    STEP,
    STOPS,
    AcceptedChanges,
    Filled,
    PublishedData,
    is_own_step,
    names_of,
    with_epoch,
)
from clew.runtime.log.frames import open_frames
from clew.runtime.log.run_log import RunLog, read_log, with_accepted
from clew.runtime.log.run_rows import opened_row, row_of
from clew.runtime.log.snapshots import (
    SinceSnapshot,
    SnapshotDistance,
    StoredFork,
    credit_of,
    decode_fork,
    is_fork,
    read_snapshot,
    read_start,
)
from clew.runtime.log.state_cursor import StateCursor
from clew.runtime.log.turns import Turn, turned
from clew.state import GraphState, decode, position_of
from clew.stores import LogEntry, RunRow, Store
from clew.stores.protocol import LAST

T = TypeVar("T")

_SOME = 2_000  # steps that are read at a time
_OWN = [("", "\x01")]  # the path "", as a range
_INSIDE = [("\x01", "\U0010ffff")]  # all paths but ""
_OF_RUN = (RESUME, ACCEPTED, STOPS, MEASURED)  # kinds that a resume reads for the run itself
_OF_ITEMS = tuple(kind for kind in KINDS.values() if kind.need == "always" and kind not in _OF_RUN)
_OF_RUN_OR_STEP = names_of(STEP, *_OF_RUN)
_NO_RECORDS = names_of(SNAPSHOT, PUBLISHED)  # entries that say nothing about the run
_COUNTED = names_of(*_OF_RUN, *_OF_ITEMS)
_PARTLY_READ = names_of(*(kind for kind in KINDS.values() if kind.need == "open"))


class RunReader:
    """Opens the runs of one store for reading, with a graph or without one."""

    def __init__(self, graph: Graph | None, store: Store, on_conflict: str) -> None:
        self.graph = graph
        self.store = store
        self.on_conflict = on_conflict
        self._skeletons: dict[str, Graph] = {}  # by the digest of the description

    @property
    def classes(self) -> bool:
        """Whether registered classes are built."""
        return self.graph is not None

    def graph_of(self, row: RunRow) -> Graph:
        if self.graph is not None and is_made_with(row, self.graph):
            return self.graph
        found = self._skeletons.get(row.description)
        if found is None:
            try:
                found = described(self.store.blob(row.description))
            except StoreCorruptError as error:
                what = f"run {row.run_id!r}: the description of its graph is damaged ({error})"
                raise StoreCorruptError(f"{what}; pass the original graph") from error
            self._skeletons[row.description] = found
        return found

    def open(self, run_id: str) -> StoredRun:
        """Open a run for reading. Raise StoreCorruptError if its row is damaged."""
        row = opened_row(row_of(self.store, run_id), classes=self.classes)
        if row.damage:
            raise StoreCorruptError(row.damage)
        return self.run_of(row)

    def run_of(self, row: RunRow) -> StoredRun:
        return StoredRun(self, row)

    def rows(self, status: str | None = None, *, of: str | None = None) -> list[RunRow]:
        """List runs, as `Store.rows` does. The `error` of a run with a damaged row is a StoreCorruptError."""
        rows = [opened_row(row, classes=self.classes) for row in self.store.rows(status, of=of)]
        for row in rows:
            if row.damage:
                row.error = StoreCorruptError(row.damage)
        return rows

    def recall(self, run_id: str, *, intents: bool) -> Recall:
        """Return a function that looks up the recorded calls of an item, with `intents` also the call intents."""
        kinds = names_of(CALL, INTENT) if intents else names_of(CALL)

        def recall(path: str) -> Sequence[RecordedCall | CallIntent]:
            reader = EntryDecoder(run_id, self.store.blob, classes=self.classes)
            return [reader.record(entry) for kind in kinds for entry in self.store.find(run_id, kind, path)]

        return recall


class StoredRun:
    """One run in a store. Its row was read when the run was opened; everything else is read on demand."""

    def __init__(self, runs: RunReader, row: RunRow) -> None:
        self.row = row
        self._runs = runs
        self.store = runs.store
        self._run_id = row.run_id
        self._reader = self._reader_of()
        self.distance = SnapshotDistance(1)
        """How the last state was read."""

    def _reader_of(self, *, keeps: bool = False) -> EntryDecoder:
        row = self.row
        return EntryDecoder(row.run_id, self.store.blob, row.created, classes=self._runs.classes, keeps=keeps)

    @cached_property
    def graph(self) -> Graph:
        return self._runs.graph_of(self.accepted)

    def program(self, start: GraphState) -> Program:
        """Return the program of the run, which started from this state."""
        return program_of(self.graph, position_of(start).given)

    @cached_property
    def accepted(self) -> RunRow:
        """The row with the current graph of the run: the original one, or the last accepted one."""
        last = self._last_accepted
        return self.row if last is None else with_accepted(self.row, last)

    @cached_property
    def _last_accepted(self) -> AcceptedChanges | None:
        found = self.store.last(self._run_id, ACCEPTED.name, "", LAST)
        last: AcceptedChanges | None = None if found is None else self._reader.record(found)
        return last

    @property
    def _filled(self) -> Filled:
        """The defaults of fields that were added to the schemas after the run began."""
        return {} if self._last_accepted is None else self._last_accepted.filled

    @property
    def on_conflict(self) -> str:
        """The conflict rule of the run."""
        return conflict_rule(self.accepted.codes, self._runs.on_conflict)

    # -- logs --------------------------------------------------------------------------------------------

    def whole(self, before: Callable[[int], GraphState] | None = None) -> RunLog:
        """Read the whole log. `before` returns the states of its parent, if the caller has read them."""
        entries = self.store.entries(self._run_id)
        if before is not None and is_fork(self.row.start):
            start = self._forked(before((fork := self.fork()).step), fork)
        else:
            start = self.start()
        chains = Chains(self._run_id, entries, start.step, start.digest)
        self._raise(chains.damage(self.row))
        records = [self._reader.record(entry) for entry in entries if entry.kind not in _NO_RECORDS]
        log = self._log(start, records, chains)
        self._raise(missing_entries(self.row, entries))
        return log

    def log(self) -> RunLog:
        """Read the part of the log that is needed to continue from the last state, and the inbox: what the store gives
        in one read, and the content of open subgraphs."""
        continues = self.row.status != "completed"
        end = self.store.log_end(self._run_id, _COUNTED, base=SNAPSHOT.name, most=2 * _SOME, counts=continues)
        found = sorted(end.entries, key=lambda entry: entry.kind not in _OF_RUN_OR_STEP)
        snapshot = next((entry for entry in found if entry.kind == SNAPSHOT.name), None)
        entries = [entry for entry in found if entry is not snapshot]
        accepted = [entry for entry in entries if entry.kind == ACCEPTED.name]
        self._last_accepted = self._reader.record(accepted[-1]) if accepted else None
        start, since = self._before(snapshot, [entry.n for entry in entries if is_own_step(entry)])
        records = list[Any]()
        for entry in entries:
            before = self._reader.fetched
            records.append(self._reader.record(entry))
            if is_own_step(entry):
                since.add(len(entry.body) + self._reader.fetched - before)
        visits = visits_of(start, records)
        finished = {entry.path for entry in entries if entry.kind == JOURNAL.name}
        inside = open_frames(self.store, self._run_id, self.graph, visits, finished)
        entries += inside
        chains = Chains(self._run_id, entries, start.step, start.digest)
        self._raise(chains.damage(self.row))
        log = self._log(start, [*records, *map(self._reader.record, inside)], chains)
        log.since = since
        log.messages, log.has_children = end.messages, end.has_children
        self._raise(missing_entries(self.row, entries, _COUNTED, visits))
        if continues:
            self._check_unread(end.counts, visits, inside)
        return log

    def _log(self, start: GraphState, records: Sequence[Any], chains: Chains) -> RunLog:
        log = read_log(self.row, start, records, self._runs.on_conflict)
        log.digests = {"": chains.digests[""]}
        for prefix, (inner, _) in log.frames.items():
            log.digests[prefix] = chains.digests[with_epoch(prefix, inner.epoch)]
        log.failures = self._failures(start, log.failed_steps)
        return log

    def _raise(self, damage: Iterable[str]) -> None:
        for message in damage:
            raise StoreCorruptError(message)

    def _check_unread(
        self, counts: Mapping[tuple[str, str], int], visits: dict[str, int], read: Iterable[LogEntry]
    ) -> None:
        """Raise if an entry that is read only on demand, and that a resume may need, is missing or has a wrong name."""
        known = {*((kind, "") for kind in _NO_RECORDS), *((entry.kind, entry.path) for entry in read)}
        names = [name for name in counts if name[0] not in _COUNTED]
        for kind, ranges in unread_paths(names, known, visits).items():
            self.store.within(self._run_id, (kind,), ranges)  # the store verifies the names
        now: Counter[str] = Counter()
        for (kind, _), number in counts.items():
            now[kind] += number
        census = self.row.census or {}
        for kind in _PARTLY_READ:
            if now[kind] < census.get(kind, 0):
                entries = self.store.within(self._run_id, (kind,), _INSIDE)
                if not is_harmless(self.row, entries, kind, visits):
                    self._raise(missing_entries(self.row, entries, (kind,)))

    def _before(self, snapshot: LogEntry | None, steps: Sequence[int]) -> tuple[GraphState, SinceSnapshot]:
        """Return the state before the last steps, and the steps between the last snapshot and it."""
        start, weight = self._snapshot_of(snapshot) or (self.start(), 0)
        since = SinceSnapshot(weight)
        if len(steps) < 2 * _SOME or steps[0] <= start.step + 1:  # otherwise there may be more steps
            return start, since
        walk = self.walk(start, upto=steps[0] - 1)
        del start
        cursor, _ = next(walk)
        for _, size in walk:
            since.add(size)
        return cursor.state(), since

    def _failures(self, start: GraphState, steps: Iterable[int]) -> list[tuple[tuple[int, ...], Failure]]:
        """Return the confined and rescued failures of these steps up to a state, with their order."""
        index = self.program(start).index
        return [
            ((number, index.get(outcome.node, -1), max(outcome.index, 0)), failure)
            for number in sorted(steps)
            if number <= start.step
            for entry in self.own_steps(number, number)
            for step in [self._reader.record(entry)]
            for outcome in step.outcomes
            for failure in outcome.failures_in(step)
        ]

    def own_steps(self, first: int, last: int) -> Sequence[LogEntry]:
        return self.store.within(self._run_id, (STEP.name,), _OWN, after=first - 1, upto=last)

    def steps_between(self, after: int, upto: int) -> list[Step]:
        """Return the steps of the run itself with ``after < number <= upto``, as far as they are stored."""
        found = self.own_steps(after + 1, upto)
        for number, entry in enumerate(found, start=after + 1):
            if entry.n != number:
                raise StoreCorruptError(f"run {self._run_id!r}: {missing(number)}")
        return [self._reader.record(entry) for entry in found]

    def published(self, after: int) -> list[PublishedData]:
        """Return published data with a higher number."""
        last = self.store.last(self._run_id, PUBLISHED.name, "", LAST)
        if last is None or last.n <= after:
            return []
        found = self.store.find(self._run_id, PUBLISHED.name, "")
        return [self._reader.record(entry) for entry in found if entry.n > after]

    def description(self) -> bytes:
        """Return the stored description of the graph."""
        return self.store.blob(self.row.description)

    def exported(self, start: GraphState, blobs: Blobs) -> Sequence[LogEntry]:
        """Return the entries of the run after its initial state, and add the blobs that they refer to."""
        entries = self.store.entries(self._run_id, after=start.step, skip=_NO_RECORDS)
        for entry in entries:
            blobs.update(blobs_of(entry.body, self.store.blob))
        return entries

    # -- states ------------------------------------------------------------------------------------------

    def state(self, step: int | None = None, *, fetched: bool = True) -> GraphState:
        """Read S(step), by default the last state. Without `fetched`, large values may be `Kept`."""
        upto = LAST if step is None else step
        base = [self.snapshot(upto, keeps=not fetched) or (self.start(), 0)]
        # popped: a second reference to the state would force a copy of its lists
        cursor = self._walked(base.pop()[0], step)
        if step is not None and cursor.step != step:
            newest = self.store.last(self._run_id, STEP.name, "", LAST)
            last = cursor.step if newest is None else newest.n
            raise UnknownRunError(
                f"run {self._run_id!r} has no step {step}; it has steps {self.start().step} to {last}"
            )
        return cursor.state(fetched=fetched)

    def _walked(self, state: GraphState, upto: int | None, *, at_least: int = 0) -> StateCursor:
        walk = self.walk(state, upto=upto, at_least=at_least)
        del state
        cursor, _ = next(walk)
        for _, size in walk:
            self.distance.size += size
        return cursor

    def walk(
        self, state: GraphState, *, upto: int | None = None, at_least: int = 0
    ) -> Iterator[tuple[StateCursor, int]]:
        """Yield a cursor at `state` and then after each step, with the bytes of that step.

        Raise StoreCorruptError if a step is damaged, or missing up to `at_least`.
        """
        filled = self._filled.get("")
        if filled:
            state = with_defaults(state, filled)
        program = self.program(state)
        cursor = StateCursor(
            program, state, seed=self.row.seed, on_conflict=self.on_conflict, fetch=self._fetched
        )
        del state  # without a second reference, its lists are not copied
        yield cursor, 0
        reader = self._reader_of(keeps=True)
        newest = self.store.last(self._run_id, STEP.name, "", LAST if upto is None else upto)
        end = max(at_least, last_step(self.row, upto) or 0, 0 if newest is None else newest.n)
        while cursor.step < end:
            found = self.own_steps(cursor.step + 1, min(cursor.step + _SOME, end))
            for entry in found if found else (None,):
                if entry is None or entry.n != cursor.step + 1:
                    raise StoreCorruptError(f"run {self._run_id!r}: {missing(cursor.step + 1)}")
                digest = bytes(entry.digest)
                if digest_after_entry(bytes.fromhex(cursor.digest), entry) != digest:
                    raise StoreCorruptError(f"run {self._run_id!r}: {changed(entry.n)}")
                before = reader.fetched
                step = reader.record(entry)
                cursor.has_kept |= reader.has_kept
                cursor.add(step, digest.hex())
                yield cursor, len(entry.body) + reader.fetched - before

    def _fetched(self, value: Any) -> Any:
        try:
            return fetched(value, self.store.blob, classes=self._runs.classes)
        except StoreCorruptError as error:
            raise StoreCorruptError(f"run {self._run_id!r}: {value.where}: {error}") from error

    def start(self) -> GraphState:
        """Read the initial state. Forks are rebuilt from the nearest full state, in a loop: there may be thousands."""
        run: StoredRun = self
        forks: list[tuple[StoredRun, StoredFork]] = []
        while True:
            row = run.row
            upto = forks[-1][1].step if forks else row.parent_step
            base = run.snapshot(upto) if is_fork(row.start) or forks else None
            if base is not None and (forks or base[0].step == row.parent_step):
                state = base[0]
                break
            if not is_fork(row.start):
                state = run._first_state()
                break
            fork = run.fork()
            forks.append((run, fork))
            run = self._runs.open(fork.parent)
        while forks:
            child, fork = forks.pop()
            state = run._walked(state, fork.step, at_least=fork.step).state()
            state = child._forked(state, fork)
            child.distance = replace(
                run.distance, runs=run.distance.runs + 1, size=run.distance.size + len(child.row.start)
            )
            run = child
        return state

    def fork(self) -> StoredFork:
        """Read the change that a fork made to its parent's state."""
        try:
            return decode_fork(self.row.start)
        except (msgspec.MsgspecError, ValueError, TypeError) as error:
            raise StoreCorruptError(
                f"run {self._run_id!r}: its initial state is damaged ({error}); other runs can be read"
            ) from error

    def _forked(self, state: GraphState, fork: StoredFork) -> GraphState:
        """Return the first state of this fork, built from the state of its parent."""
        if fork.digest(state.digest) != self.row.start_digest:
            raise StoreCorruptError(
                f"run {self._run_id!r}: its initial state is damaged (digest mismatch); other runs can be read"
            )

        def read(stored: msgspec.Raw) -> Any:
            return decode(bytes(stored), blob=self.store.blob, classes=self._runs.classes, unfit="keep")

        values = self._restored(fork.step, lambda: read(fork.set))
        state = without_unknown(self._runs.graph_of(self.row), state.rooted())
        if fork.turn is not None:
            woken, digest = tuple(fork.turn), self.row.start_digest
            return self._restored(
                fork.step,
                lambda: turned(state, Turn(values, deltas_from(read(fork.deltas)), woken), lambda: digest),
            )
        known = state.versions  # a fork of a state that was set by hand repeats its values
        values = {name: value for name, value in values.items() if known.get(name) != fork.versions[name]}
        return state.set_multiple(values).with_digest(self.row.start_digest)

    def snapshot(self, upto: int | None, *, keeps: bool = False) -> tuple[GraphState, int] | None:
        """Read the last snapshot up to a step: the state and its weight."""
        found = None if upto is None else self.store.last(self._run_id, SNAPSHOT.name, "", upto)
        return self._snapshot_of(found, keeps=keeps)

    def _snapshot_of(self, found: LogEntry | None, *, keeps: bool = False) -> tuple[GraphState, int] | None:
        """Read a snapshot, if there is one."""
        if found is None:
            return None
        classes, blobs = self._runs.classes, set[str]()

        def blob(digest: str) -> bytes:
            blobs.add(digest)
            return self.store.blob(digest)

        read = self._restored(found.n, lambda: read_snapshot(found, blob, classes=classes, keeps=keeps))
        self.distance = SnapshotDistance(1, 0, blobs, credit_of(found))
        return read

    def _first_state(self) -> GraphState:
        row, classes = self.row, self._runs.classes
        return self._restored(
            0, lambda: read_start(row.start, row.start_digest, self.store.blob, classes=classes)
        )

    def _restored(self, step: int, load: Callable[[], T]) -> T:
        try:
            return load()
        except ClassChangedError:
            raise  # not damage: the class has changed
        except (DecodeError, StoreCorruptError, TypeError, ValueError) as error:
            raise StoreCorruptError(
                f"run {self._run_id!r}: the state at step {step} is damaged ({error})"
            ) from error

    def digest_at(self, step: int) -> str:
        """Return the stored digest of S(step). Raise StoreCorruptError if the step is missing."""
        return digest_at(self.store, self.row, step)
