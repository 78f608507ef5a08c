"""The log writer: writes the records of a session to the store with the configured durability.

- ``sync``: each step is durable before the next one can be observed.
- ``async``: a background writer appends in order, with a bounded delay. Before a call to the outside world everything
  is written, so no call depends on a step that could be lost. This includes the run itself, which may have been created
  without waiting for the disk (`owes`).
- ``exit``: everything is written at the end in one append, followed by the snapshots that were due on the way.

The writer adds a snapshot of the whole state when the steps since the last one outweigh it (`SinceSnapshot`). So
loading a state reads a bounded multiple of its size, and at most about a thousand steps if it is small.

If the store can defer syncs, the last appends of a run do not wait for the disk; the update that ends the run does.

A run on an event loop never waits (`never_wait`). Writes that the store cannot take at once are queued, and later ones
queue behind them, so the order stays. Code that needs them durable waits on a thread (`catch_up`), or where blocking is
allowed (`ensure`, `barrier`).

After a failed write the writer rejects all others, because they would depend on missing entries. A value without an
encoding is found before any part of its record is written; the records before it are written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from threading import Lock
from time import perf_counter
from typing import Any, Literal

import msgspec

from clew.engine.records import FinishedItem, Outcome, Question, SingleItemStep, Step, Withdrawn
from clew.errors import EncodeError
from clew.runtime.log.background_writer import BackgroundWriter, Work, batches
from clew.runtime.log.entries.call_records import RecordedCall, digest_of_values
from clew.runtime.log.entries.codec import EntryEncoder
from clew.runtime.log.entries.large_values import Blobs
from clew.runtime.log.entries.records import (
    JOURNAL,
    MOST_PUBLISHED,
    PUBLISHED,
    QUESTION,
    SIGNAL,
    PublishedData,
    is_own_step,
    with_epoch,
)
from clew.runtime.log.entries.wait_records import WaitEnd
from clew.runtime.log.snapshots import SinceSnapshot, snapshot_entry
from clew.runtime.process import crash_points
from clew.runtime.process.crash_points import reach
from clew.state import GraphState, fingerprint
from clew.stores import LogEntry, Statement, Store, WouldWait

Durability = Literal["sync", "async", "exit"]
_TOGETHER = 64  # steps that are handed to the background writer together, because each hand-over costs time
LONG = 0.01  # seconds after which a step is handed over even if the batch is not full

NO_BLOBS: Mapping[str, bytes] = {}


class _Elsewhere:
    """A store that cannot write without waiting."""

    def append(self, *args: Any, **kwargs: Any) -> None:
        raise WouldWait


Name = tuple[str, tuple[int, ...]]
"""An item: its path, and the attempts of the items around it."""


class _Measured:
    """A store whose appends are measured."""

    def __init__(self, store: Any, report: Callable[[float], None]) -> None:
        self._store = store
        self._report = report

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def at_once(self) -> Any:
        prompt = self._store.at_once()
        return None if prompt is None else _Measured(prompt, self._report)

    def append(self, *args: Any, **kwargs: Any) -> None:
        began = perf_counter()
        self._store.append(*args, **kwargs)
        self._report(perf_counter() - began)


def _dropped_with(record: WaitEnd | PublishedData) -> list[tuple[str, str, int]]:
    """Return the entry that is no longer needed: a signal that was taken, the oldest published data."""
    if isinstance(record, PublishedData):
        return [(PUBLISHED.name, "", record.n - MOST_PUBLISHED)]
    return [(SIGNAL.name, record.name, record.signal)] if record.signal else []


class LogWriter:
    """Writes the log of one run as encoded entries."""

    waits = True  # whether closing may wait, or fail
    records: list[Any] | None = None  # all written records, if the store keeps objects

    _background: BackgroundWriter | None = None
    _failure: BaseException | None = None  # nothing is written after it: the log would have a gap
    _is_closing = False
    _never_waits = False
    _owes_snapshot = False

    def __init__(
        self,
        store: Store,
        run_id: str,
        fence: int,
        *,
        encoder: EntryEncoder,
        durability: Durability = "sync",
        snapshot: Callable[[], GraphState] | None = None,
        snapshots: Callable[[], Iterable[tuple[LogEntry, Blobs]]] | None = None,
        since: SinceSnapshot | None = None,
        finished: dict[tuple[str, tuple[int, ...]], list[int]] | None = None,
        owes: bool = False,
        asked: Mapping[str, Question] | None = None,
    ) -> None:
        self._store = store
        self._first: Any = store  # tries a write without waiting, before it is queued
        self._run_id = run_id
        self._fence = fence
        self._encoder = encoder
        # executed in the transaction of the item's outcome
        self.attached: dict[Name, Sequence[Statement]] = {}
        self._lock = Lock()
        self._durability = durability
        self._snapshot = snapshot
        self._snapshots = snapshots  # creates the snapshots that the store lacks
        self._since = since or SinceSnapshot()
        # numbers of the entries of finished items without a committed step
        self._finished = dict(finished or {})
        self._asked = dict(asked or {})  # open questions, by path
        self._late: list[Work] = []
        if owes:
            self._background = BackgroundWriter(self._append, self._settle)

    def measure(self, report: Callable[[float], None]) -> None:
        """Report the seconds that each append to the store takes, from the thread that makes it."""
        measured: Any = _Measured(self._store, report)
        self._first = measured if self._first is self._store else self._first
        self._store = measured

    @property
    def often(self) -> int:
        """The number of steps that a driver's fast path may hand over together; 0 means any number."""
        return {"exit": 0, "sync": 1, "async": _TOGETHER}[self._durability]

    @property
    def latency(self) -> int:
        """The total latency of all written steps, in microseconds."""
        return self._encoder.latency

    def check(self, value: Any, at: str) -> None:
        """Raise EncodeError if a value cannot be stored."""
        fingerprint(value, at=at)

    def image_of(self, values: Mapping[str, Any]) -> Any:
        """Return what a record stores about the values of a child: a digest. Raise EncodeError as `check` does."""
        return digest_of_values(values)

    @property
    def refused(self) -> tuple[Step | FinishedItem, Outcome] | None:
        """The outcome that could not be encoded, and its record."""
        return self._encoder.refused

    @property
    def is_lasting(self) -> bool:
        """Whether records reach the store before the run ends."""
        return self._durability != "exit"

    def rehearse(self, statements: Sequence[Statement]) -> None:
        """Execute statements and roll them back; raise the error of the database."""
        self._store.rehearse(statements)

    def attach(self, item: Name, statements: Sequence[Statement]) -> None:
        """Execute these statements in the transaction that stores the item's outcome; () removes them."""
        if statements:
            self.attached[item] = statements
        else:
            self.attached.pop(item, None)

    def never_wait(self) -> None:
        """Make `write` return without waiting for the store from now on."""
        if self._never_waits:
            return
        self._never_waits = True
        try:
            self._first = self._store.at_once() or _Elsewhere()
        except WouldWait:
            self._first = _Elsewhere()

    def write(self, records: Sequence[Any], blobs: Mapping[str, bytes] = NO_BLOBS) -> None:
        """Write records in order, with the blobs that they refer to."""
        encoder = self._encoder
        with self._lock:
            if self._failure is not None:
                self._raise()
            if blobs:
                encoder.blobs.update(blobs)
            try:
                if len(records) == 1 and type(records[0]) is SingleItemStep and not self.attached:
                    self._write_step(encoder, records[0])
                else:
                    self._write(encoder, records)
            except EncodeError:
                raise
            except BaseException as error:  # for example an interrupt: it is unknown how much was written
                self.fail(error)
                raise

    def _write_step(self, encoder: EntryEncoder, step: SingleItemStep) -> None:
        """Write a single step: `_write` for the fast path (``clew.engine.fast_path`` has the numbers)."""
        if self._finished:
            self._write(encoder, [step.step()])
            return
        try:
            entry = encoder.entry(step)
        except EncodeError as error:
            self._failure = error
            raise
        background = self._background
        if encoder.blobs or self._durability != "sync" or not (background is None or background.is_idle):
            blobs, encoder.blobs = encoder.blobs, {}
            self._since.add(sum(map(len, blobs.values())), 0)
            self._dispatch(([entry], (), blobs, ()))
        else:
            if crash_points.is_watched:
                reach("before-append")
            try:
                self._first.append(self._run_id, (entry,), self._fence)
            except WouldWait:
                self._background_writer().queue(([entry], (), {}, ()))
            if crash_points.is_watched:
                reach("after-append")
        if self._since.add(len(entry.body), 1, 0 if step.visit else 1):
            self._write_snapshot()

    def _write(self, encoder: EntryEncoder, records: Sequence[Any]) -> None:
        entries: list[LogEntry] = []
        drop: list[tuple[str, str, int]] = []
        statements: list[Statement] = []
        rejected: EncodeError | None = None
        for record in records:
            kind = type(record)
            if kind is FinishedItem:
                numbers = self._finished.setdefault((record.path, record.epoch), [])
                numbers.append(numbers[-1] + 1 if numbers else 0)
                record = msgspec.structs.replace(record, n=numbers[-1])
            elif kind is Withdrawn:
                drop += self._withdrawn(record)
                continue
            elif kind is Step and self._finished:
                drop += self._committed(record)
            try:
                if kind is Question and self._is_asked_again(encoder, record):
                    continue
                entries.append(encoder.entry(record))
            except EncodeError as error:
                rejected = error
                if kind in (RecordedCall, PublishedData):
                    continue  # its node gets the error; no other record depends on it
                self._failure = error
                break  # the records before it are written
            if kind is Question:
                entries = [each for each in entries[:-1] if each.name != entries[-1].name] + entries[-1:]
                self._replace_question(encoder, record, entries[-1])
            elif kind is WaitEnd or kind is PublishedData:
                drop += _dropped_with(record)
            if self.attached:
                statements += self._detached(record)
        blobs, encoder.blobs = encoder.blobs, {}
        if entries or drop:
            self._dispatch((entries, drop, blobs, statements))
        if steps := [len(entry.body) for entry in entries if is_own_step(entry)]:
            self._since.add(sum(steps) + sum(map(len, blobs.values())), len(steps))
        if rejected is not None:
            raise rejected
        if self._since.is_due:
            self._write_snapshot()

    def _withdrawn(self, record: Withdrawn) -> Iterator[tuple[str, str, int]]:
        """Yield the entries of a withdrawn item, and of the questions inside it."""
        yield from self._no_longer_finished(record.path, record.epoch)
        for path in [path for path in self._asked if record.covers(path)]:
            yield QUESTION.name, path, self._asked.pop(path).number

    def _committed(self, step: Step) -> Iterator[tuple[str, str, int]]:
        """Yield the entries of finished items that are now in a step."""
        for outcome in step.outcomes:
            yield from self._no_longer_finished(step.prefix + outcome.path, step.epoch)

    def _no_longer_finished(self, path: str, epoch: tuple[int, ...]) -> list[tuple[str, str, int]]:
        return [(JOURNAL.name, with_epoch(path, epoch), n) for n in self._finished.pop((path, epoch), ())]

    def _is_asked_again(self, encoder: EntryEncoder, question: Question) -> bool:
        """Return whether the question is stored with the error of a refused answer, which it keeps."""
        known = self._asked.get(question.path)
        if known is None or not known.error or known.number != question.number or question.error:
            return False
        same = msgspec.structs.replace(question, error=known.error, time=known.time)
        return encoder.entry(same).digest == encoder.entry(known).digest

    def _replace_question(self, encoder: EntryEncoder, question: Question, entry: LogEntry) -> None:
        """Drop the stored question of an item that restarted and rephrased it.

        If the process dies in between, the next resume asks again.
        """
        known = self._asked.get(question.path)
        if (
            known is not None
            and known.number == question.number
            and encoder.entry(known).digest != entry.digest
        ):
            self._dispatch(([], [entry.name], {}, ()))
        self._asked[question.path] = question

    def _detached(self, record: Any) -> list[Statement]:
        """Remove the statements attached to the items whose outcomes are in a record; return those of successes."""
        outcomes: Sequence[Outcome] = ()
        if isinstance(record, FinishedItem):
            outcomes = (record.outcome,)
        elif isinstance(record, Step):
            outcomes = record.outcomes
        found: list[Statement] = []
        for outcome in outcomes:
            statements = self.attached.pop((record.prefix + outcome.path, record.epoch), ())
            if outcome.error is None:
                found += statements
        return found

    def _append(self, work: Work) -> None:
        entries, drop, blobs, statements = work
        wait = not (self._is_closing and self._store.defers)
        reach("before-append")
        try:
            self._store.append(
                self._run_id, entries, self._fence, drop=drop, blobs=blobs, statements=statements, wait=wait
            )
        except BaseException as error:
            self._failure = error
            raise
        reach("after-append")

    def _dispatch(self, work: Work) -> None:
        if self._durability == "exit":
            self._late.append(work)
        elif self._durability == "sync":
            if not self._never_waits:
                self._append(work)
            elif not self._is_appended_at_once(work):
                self._background_writer().queue(work)
        elif self._never_waits:
            self._background_writer().follow(work)
        else:
            self._background_writer().put(work)

    def _background_writer(self) -> BackgroundWriter:
        if self._background is None:
            self._background = BackgroundWriter(self._append)
        return self._background

    def _is_appended_at_once(self, work: Work) -> bool:
        """Append without waiting, and return whether it succeeded. Queued work goes first, so then it returns False."""
        if not (self._background is None or self._background.is_idle):
            return False
        entries, drop, blobs, statements = work
        reach("before-append")
        try:
            if drop or blobs or statements:
                more: Any = {"statements": statements} if statements else {}
                self._first.append(self._run_id, entries, self._fence, drop=drop, blobs=blobs, **more)
            else:
                self._first.append(self._run_id, entries, self._fence)
        except WouldWait:
            return False
        reach("after-append")
        return True

    def _settle(self) -> None:
        """Wait for the disk now: the run was created without waiting."""
        try:
            self._store.sync()
        except BaseException as error:
            self._failure = error
            raise

    def _raise(self) -> None:
        if self._failure is not None:
            raise self._failure

    def fail(self, error: BaseException) -> None:
        """Reject all further writes with this error."""
        if self._failure is None:
            self._failure = error

    def barrier(self) -> None:
        """Return when all writes are durable. With ``exit`` nothing is durable before the end."""
        self._raise()
        if self._background is not None:
            self._background.join()
            self._raise()

    @property
    def is_settled(self) -> bool:
        """Whether nothing is queued."""
        return self._background is None or self._background.is_idle

    @property
    def is_behind(self) -> bool:
        """Whether the driver has to wait for `catch_up` before it continues."""
        if self._owes_snapshot:
            return True
        background = self._background
        if background is None:
            return False
        return not background.is_idle if self._durability == "sync" else background.is_far

    def mark(self) -> int:
        """Return a mark for everything written so far; see `is_past`."""
        return 0 if self._background is None else self._background.put_so_far

    def is_past(self, mark: int) -> bool:
        """Return whether everything written before a mark is in the store."""
        return not self._owes_snapshot and (self._background is None or self._background.done_so_far >= mark)

    def catch_up(self) -> None:
        """Write everything that is queued, and the snapshot if one is due."""
        self.barrier()
        if self._owes_snapshot:
            self._owes_snapshot = False
            try:
                if (work := self._next_snapshot()) is not None:
                    self._append(work)
            except BaseException as error:
                self.fail(error)
                raise

    def ensure(self) -> None:
        """Return when all writes are as durable as the configured durability demands."""
        if self._never_waits and self._durability == "sync":
            self.barrier()

    def abandon(self, error: BaseException) -> None:
        """Reject all further writes, and discard what is queued."""
        self.fail(error)
        if self._background is not None:
            self._background.close()

    def disown(self, error: BaseException) -> None:
        """Reject all further writes in a forked process, which has none of the threads."""
        self._lock, self._failure = Lock(), error
        self._background, self._late = None, []

    def close(self, *, at_once: bool = False) -> None:
        """Write everything that is left, and end the background writer."""
        if at_once and (self._late or not self.is_settled):
            raise WouldWait(self._run_id)
        self._is_closing = True
        late, self._late = self._late, []
        if self._background is not None:
            late += self._background.close()
            self._background = None
        if late and (self._failure is None or isinstance(self._failure, EncodeError)):
            for work in batches(late):
                self._append(work)
            if self._durability == "exit" and self._since.is_due and self._snapshots is not None:
                for entry, blobs in self._snapshots():
                    self._append(([entry], (), blobs, ()))
        self._is_closing = False
        self._raise()

    def _write_snapshot(self) -> None:
        if self._snapshot is None or self._durability == "exit":
            return
        if self._never_waits:
            self._owes_snapshot = True
            return
        self.barrier()
        work = self._next_snapshot()
        if work is None:
            return
        reach("before-snapshot")
        self._dispatch(work)
        reach("after-snapshot")

    def _next_snapshot(self) -> Work | None:
        assert self._snapshot is not None
        blobs: Blobs = {}
        entry, weight = snapshot_entry(self._snapshot(), blobs)
        return ([entry], (), blobs, ()) if self._since.is_worth(weight) else None
