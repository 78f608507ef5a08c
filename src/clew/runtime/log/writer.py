"""The writer: carries what a session has to say to the store, as durable as was asked for.

``sync``   what a step did is durable before the next one can be observed;
``async``  a writer thread follows, in order and not too far behind; before a call to the outside world the writer is
           brought up to date, so no call is made on the strength of something that could be lost. That goes for the
           run itself too, which may have been created without waiting for the disk (`owes`);
``exit``   all is written at the end, in one go, and after it the snapshots that it would have had on the way.

A snapshot of the whole state is written whenever the updates since the last one outweigh it several times, so reading
any state takes a bounded multiple of its size, and the snapshots together weigh a fraction of the updates.

The last appends of a run do not wait for the disk, where the store can do without: the update that ends the run does.

A run that an event loop drives never has it wait (`never_wait`): what the store does not take at once is queued, and
whoever needs it to be durable before going on waits for that on a thread (`catch_up`), or where waiting is allowed
(`ensure`, `barrier`). While anything is queued all that follows is, so the order stays.

A write that fails is the last one: whatever came after it would build on something that is not there. A value that has
no encoding is found before anything of its record is written; what came before it is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import Lock
from typing import Any, Literal

import msgspec

from clew.engine.records import FinishedItem, Question, SingleItemStep, Step, Withdrawn
from clew.errors import EncodeError
from clew.runtime.crash_points import reach
from clew.runtime.log.background_writer import BackgroundWriter, Work, batches
from clew.runtime.log.call_records import RecordedCall
from clew.runtime.log.codec import EntryEncoder
from clew.runtime.log.large_values import Blobs
from clew.runtime.log.metrics import latency_of
from clew.runtime.log.records import JOURNAL, is_own_step, with_epoch
from clew.runtime.log.snapshots import snapshot_entry
from clew.state import GraphState
from clew.stores import LogEntry, Statement, Store, WouldWait

Durability = Literal["sync", "async", "exit"]
_TOGETHER = 64  # steps that are cheaper to hand to the background writer in one go
LONG = 0.01  # seconds after which a step is not kept back any longer
FIRST_SNAPSHOT = 256 * 1024
OUTWEIGH = 8

_NO_BLOBS: Mapping[str, bytes] = {}


class _Elsewhere:
    """Stands for a store that is never written to without waiting."""

    def append(self, *args: Any, **kwargs: Any) -> None:
        raise WouldWait


Name = tuple[str, tuple[int, ...]]
"""An item: its path, and the attempts of the items around it."""


class LogWriter:
    """Writes for one run. Without `encoder` the store keeps the records as they are, and there is little to do."""

    _background: BackgroundWriter | None = None
    _failure: BaseException | None = None  # nothing is written after it: the log would have a hole
    _is_closing = False
    _never_waits = False
    _owes_snapshot = False

    def __init__(
        self,
        store: Store,
        run_id: str,
        fence: int,
        *,
        durability: Durability = "sync",
        encoder: EntryEncoder | None = None,
        snapshot: Callable[[], GraphState] | None = None,
        snapshots: Callable[[], Iterable[tuple[LogEntry, Blobs]]] | None = None,
        weight: int = 0,
        since: int = 0,
        finished: dict[tuple[str, tuple[int, ...]], list[int]] | None = None,
        owes: bool = False,
        asked: Mapping[str, Question] | None = None,
    ) -> None:
        self._store = store
        self._first: Any = store  # what a write is tried with before it is queued
        self.records: list[Any] = []  # written, where it is not encoded
        self._counted = [0, 0]  # how many of them, and the latency of these steps
        self._run_id = run_id
        self._fence = fence
        self._encoder = encoder
        self.attached: dict[Name, Sequence[Statement]] = {}  # to be executed with an item's outcome
        if encoder is None:
            return
        self._lock = Lock()
        self._durability = durability
        self._snapshot = snapshot
        self._snapshots = snapshots  # those that are missing in the store
        self._since = since  # bytes of steps since the last snapshot, with what they keep apart
        self._weight = weight  # bytes of the last snapshot
        self._finished = dict(finished or {})  # items that were journaled and are not in a step yet
        self._asked = dict(asked or {})  # by path: what waits for an answer
        self._late: list[Work] = []
        if owes:
            self._background = BackgroundWriter(self._append, self._settle)

    @property
    def often(self) -> int:
        """How many steps of a driver's short loop may be handed over in one go; 0 if all of them."""
        if self._encoder is None or self._durability == "exit":
            return 0
        return 1 if self._durability == "sync" else _TOGETHER

    @property
    def latency(self) -> int:
        """The latency of all steps that were written, in microseconds."""
        if self._encoder is not None:
            return self._encoder.latency
        done, latency = self._counted
        self._counted = [len(self.records), latency + sum(map(latency_of, self.records[done:]))]
        return self._counted[1]

    @property
    def encodes(self) -> bool:
        """Whether what is written has to have an encoding."""
        return self._encoder is not None

    @property
    def is_lasting(self) -> bool:
        """Whether what is written is in the store before the run has ended."""
        return self._encoder is not None and self._durability != "exit"

    def rehearse(self, statements: Sequence[Statement]) -> None:
        """Raise what the database would raise."""
        self._store.rehearse(statements)

    def attach(self, item: Name, statements: Sequence[Statement]) -> None:
        """Execute these in the transaction that keeps the item's outcome; () to take back."""
        if statements:
            self.attached[item] = statements
        else:
            self.attached.pop(item, None)

    def never_wait(self) -> None:
        """From now on `write` does not wait for the store."""
        if self._encoder is None or self._never_waits:
            return
        self._never_waits = True
        try:
            self._first = self._store.at_once() or _Elsewhere()
        except WouldWait:
            self._first = _Elsewhere()

    def write(self, records: Sequence[Any], blobs: Mapping[str, bytes] = _NO_BLOBS) -> None:
        """Keep records, in order, and large contents that they speak of."""
        encoder = self._encoder
        if encoder is None:
            self._store.append(self._run_id, records, self._fence)
            self.records += records
            return
        with self._lock:
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
            except (
                BaseException
            ) as error:  # an interrupt, for instance: nobody knows how much of it is written
                self.fail(error)
                raise

    def _write_step(self, encoder: EntryEncoder, step: SingleItemStep) -> None:
        """What `_write` does, for the most frequent record of all: there is nothing beside it."""
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
            self._since += sum(map(len, blobs.values()))
            self._carry(([entry], (), blobs, ()))
        else:
            reach("before-append")
            try:
                self._first.append(self._run_id, (entry,), self._fence)
            except WouldWait:
                self._behind_us().queue(([entry], (), {}, ()))
            reach("after-append")
        self._since += len(entry.body)
        if self._since > FIRST_SNAPSHOT and self._since > OUTWEIGH * self._weight:
            self._write_snapshot()

    def _write(self, encoder: EntryEncoder, records: Sequence[Any]) -> None:
        entries: list[LogEntry] = []
        drop: list[tuple[str, str, int]] = []
        statements: list[Statement] = []
        refused: EncodeError | None = None
        for record in records:
            if type(record) is FinishedItem:
                numbers = self._finished.setdefault((record.path, record.epoch), [])
                numbers.append(numbers[-1] + 1 if numbers else 0)
                record = msgspec.structs.replace(record, n=numbers[-1])
            elif type(record) is Withdrawn:
                item = (record.path, record.epoch)
                drop += [(JOURNAL.name, with_epoch(*item), n) for n in self._finished.pop(item, ())]
                continue
            elif self._finished and type(record) is Step:
                for outcome in record.outcomes:
                    item = (record.prefix + outcome.path, record.epoch)
                    path = with_epoch(*item)
                    drop += [(JOURNAL.name, path, n) for n in self._finished.pop(item, ())]
            try:
                entries.append(encoder.entry(record))
            except EncodeError as error:
                refused = error
                if type(record) is RecordedCall:
                    continue  # its node is told; nothing else builds on it
                self._failure = error
                break  # what came before it is kept
            if type(record) is Question:
                self._make_room(encoder, record, entries[-1])
            if self.attached:
                statements += self._detached(record)
        blobs, encoder.blobs = encoder.blobs, {}
        if entries or drop:
            self._carry((entries, drop, blobs, statements))
        steps = [len(entry.body) for entry in entries if is_own_step(entry)]
        if steps:
            self._since += sum(steps) + sum(map(len, blobs.values()))
        if refused is not None:
            raise refused
        if self._is_due():
            self._write_snapshot()

    def _make_room(self, encoder: EntryEncoder, question: Question, entry: LogEntry) -> None:
        """A question that is asked again in other words, by an item that starts over, takes the place of the first one.

        Should the process die in between, it is asked again by whoever goes on.
        """
        known = self._asked.get(question.path)
        if (
            known is not None
            and known.number == question.number
            and encoder.entry(known).digest != entry.digest
        ):
            self._carry(([], [entry.name], {}, ()))
        self._asked[question.path] = question

    def _is_due(self) -> bool:
        return self._since > max(FIRST_SNAPSHOT, OUTWEIGH * self._weight)

    def _detached(self, record: Any) -> list[Statement]:
        """What was attached to the items whose outcomes a record keeps."""
        if isinstance(record, FinishedItem):
            items = [(record.path, record.epoch)]
        elif isinstance(record, Step):
            items = [(record.prefix + outcome.path, record.epoch) for outcome in record.outcomes]
        else:
            return []
        return [statement for item in items for statement in self.attached.pop(item, ())]

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

    def _carry(self, work: Work) -> None:
        if self._durability == "exit":
            self._late.append(work)
        elif self._durability == "sync":
            if not self._never_waits:
                self._append(work)
            elif not self._is_taken_at_once(work):
                self._behind_us().queue(work)
        elif self._never_waits:
            self._behind_us().follow(work)
        else:
            self._behind_us().put(work)

    def _behind_us(self) -> BackgroundWriter:
        if self._background is None:
            self._background = BackgroundWriter(self._append)
        return self._background

    def _is_taken_at_once(self, work: Work) -> bool:
        """Append a work without waiting, unless something waits already that has to come before it."""
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
        """The run was created without waiting for the disk: do so now."""
        try:
            self._store.sync()
        except BaseException as error:
            self._failure = error
            raise

    def _raise(self) -> None:
        if self._failure is not None:
            raise self._failure

    def fail(self, error: BaseException) -> None:
        """Write nothing any more: the run cannot go on here."""
        if self._failure is None:
            self._failure = error

    def barrier(self) -> None:
        """Return when all that was written is durable. Not for ``exit``, which promises nothing before the end."""
        self._raise()
        if self._background is not None:
            self._background.join()
            self._raise()

    @property
    def is_settled(self) -> bool:
        """Whether nothing waits to be written."""
        return self._background is None or self._background.is_idle

    @property
    def is_behind(self) -> bool:
        """Whether whoever drives the run must not go on before it has waited for `catch_up`."""
        if self._owes_snapshot:
            return True
        background = self._background
        if background is None:
            return False
        return not background.is_idle if self._durability == "sync" else background.is_far

    def mark(self) -> int:
        """Stands for all that was written so far; see `is_past`."""
        return 0 if self._background is None else self._background.put_so_far

    def is_past(self, mark: int) -> bool:
        """Whether all that was written before a mark is in the store."""
        return not self._owes_snapshot and (self._background is None or self._background.done_so_far >= mark)

    def catch_up(self) -> None:
        """Write all that waits, and the snapshot that is due."""
        self.barrier()
        if self._owes_snapshot:
            self._owes_snapshot = False
            try:
                self._append(self._next_snapshot())
            except BaseException as error:
                self.fail(error)
                raise

    def ensure(self) -> None:
        """Return when all that was written is as durable as was asked for."""
        if self._never_waits and self._durability == "sync":
            self.barrier()

    def abandon(self, error: BaseException) -> None:
        """Write nothing any more, and drop what waits."""
        self.fail(error)
        if self._background is not None:
            self._background.close()

    def close(self, *, at_once: bool = False) -> None:
        """Write what is left."""
        if self._encoder is None:
            return
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
            if self._durability == "exit" and self._is_due() and self._snapshots is not None:
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
        reach("before-snapshot")
        self._carry(work)
        reach("after-snapshot")

    def _next_snapshot(self) -> Work:
        assert self._snapshot is not None
        blobs: Blobs = {}
        entry, self._weight = snapshot_entry(self._snapshot(), blobs)
        self._since = 0
        return [entry], (), blobs, ()
