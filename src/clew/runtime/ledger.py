"""The ledger: carries what a session has to say to the store, as durable as was asked for.

``sync``   what a step did is durable before the next one can be observed;
``async``  a writer thread follows, in order and not too far behind; before a call to the outside world the ledger is
           brought up to date, so no call is made on the strength of something that could be lost;
``exit``   all is written at the end, in one go.

A snapshot of the whole state is written whenever the updates since the last one outweigh it several times, so reading
any state takes a bounded multiple of its size, and the snapshots together weigh a fraction of the updates.

A write that fails is the last one: whatever came after it would build on something that is not there. A value that has
no encoding is found before anything of its record is written; what came before it is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from queue import Queue
from threading import Lock, Thread
from typing import Any, Literal

import msgspec

from clew.engine.records import Journaled, Step
from clew.errors import EncodeError
from clew.runtime.crash_points import reach
from clew.runtime.recorder import RecordedCall
from clew.runtime.wire import Writer, with_epoch
from clew.state import GraphState
from clew.stores import Entry, Statement, Store

Durability = Literal["sync", "async", "exit"]
_LAG = 1024  # entries that the writer thread may be behind
_FIRST_SNAPSHOT = 256 * 1024
_OUTWEIGH = 8

Work = tuple[list[Entry], list[tuple[str, str, int]], dict[str, bytes], list[Statement]]
Name = tuple[str, tuple[int, ...]]
"""An item: its path, and the attempts of the items around it."""


class Ledger:
    """Writes for one run. Without `writer` the store keeps the records as they are."""

    def __init__(
        self,
        store: Store,
        run_id: str,
        fence: int,
        *,
        durability: Durability = "sync",
        writer: Writer | None = None,
        snapshot: Callable[[], GraphState] | None = None,
        weight: int = 0,
        since: int = 0,
        journaled: dict[tuple[str, tuple[int, ...]], list[int]] | None = None,
    ) -> None:
        self._store = store
        self._lock = Lock()
        self.records: list[Any] | None = (
            [] if writer is None else None
        )  # what was written, where it is not encoded
        self._run_id = run_id
        self._fence = fence
        self._writer = writer
        self._durability = durability
        self._snapshot = snapshot
        self._since = since  # bytes of steps since the last snapshot
        self._weight = weight  # bytes of the last snapshot
        self._journaled = dict(journaled or {})  # items that were journaled and are not in a step yet
        self._attached: dict[Name, Sequence[Statement]] = {}  # to be executed with an item's outcome
        self._late: Work = ([], [], {}, [])
        self._queue: Queue[Work | None] | None = None
        self._thread: Thread | None = None
        self._failure: BaseException | None = None  # nothing is written after it: the log would have a hole

    @property
    def is_durable(self) -> bool:
        """Whether each step has to be written before the next one."""
        return self._writer is not None and self._durability == "sync"

    @property
    def encodes(self) -> bool:
        """Whether what is written has to have an encoding."""
        return self._writer is not None

    @property
    def is_lasting(self) -> bool:
        """Whether what is written is in the store before the run has ended."""
        return self._writer is not None and self._durability != "exit"

    def rehearse(self, statements: Sequence[Statement]) -> None:
        """Raise what the database would raise."""
        self._store.rehearse(statements)

    def attach(self, item: Name, statements: Sequence[Statement]) -> None:
        """Execute these in the transaction that keeps the item's outcome; () to take back."""
        if statements:
            self._attached[item] = statements
        else:
            self._attached.pop(item, None)

    @property
    def has_attached(self) -> bool:
        """Whether there are statements that wait for an outcome."""
        return bool(self._attached)

    def write(self, records: Sequence[Any]) -> None:
        """Keep records, in order."""
        writer = self._writer
        if writer is None:
            self._store.append(self._run_id, records, self._fence)
            if self.records is not None:
                self.records += records
            return
        with self._lock:
            self._raise()
            self._write(writer, records)

    def _write(self, writer: Writer, records: Sequence[Any]) -> None:
        entries: list[Entry] = []
        drop: list[tuple[str, str, int]] = []
        statements: list[Statement] = []
        refused: EncodeError | None = None
        for record in records:
            if type(record) is Journaled:
                numbers = self._journaled.setdefault((record.path, record.epoch), [])
                numbers.append(numbers[-1] + 1 if numbers else 0)
                record = msgspec.structs.replace(record, n=numbers[-1])
            elif self._journaled and type(record) is Step:
                for outcome in record.outcomes:
                    item = (record.prefix + outcome.path, record.epoch)
                    path = with_epoch(*item)
                    drop += [("journal", path, n) for n in self._journaled.pop(item, ())]
            try:
                entries.append(writer.entry(record))
            except EncodeError as error:
                refused = error
                if type(record) is RecordedCall:
                    continue  # its node is told; nothing else builds on it
                self._failure = error
                break  # what came before it is kept
            if self._attached:
                statements += self._detached(record)
        blobs, writer.blobs = writer.blobs, {}
        if entries:
            self._carry((entries, drop, blobs, statements))
        for entry in entries:
            if entry.kind == "step" and not entry.path:
                self._since += len(entry.body)
        if refused is not None:
            raise refused
        if self._since > max(_FIRST_SNAPSHOT, _OUTWEIGH * self._weight):
            self._write_snapshot()

    def _detached(self, record: Any) -> list[Statement]:
        """What was attached to the items whose outcomes a record keeps."""
        if isinstance(record, Journaled):
            items = [(record.path, record.epoch)]
        elif isinstance(record, Step):
            items = [(record.prefix + outcome.path, record.epoch) for outcome in record.outcomes]
        else:
            return []
        return [statement for item in items for statement in self._attached.pop(item, ())]

    def _append(self, work: Work) -> None:
        entries, drop, blobs, statements = work
        more: Any = {"statements": statements} if statements else {}
        reach("before-append")
        try:
            self._store.append(self._run_id, entries, self._fence, drop=drop, blobs=blobs, **more)
        except BaseException as error:
            self._failure = error
            raise
        reach("after-append")

    def _carry(self, work: Work) -> None:
        if self._durability == "sync":
            self._append(work)
        elif self._durability == "exit":
            self._late[0].extend(work[0])
            self._late[1].extend(work[1])
            self._late[2].update(work[2])
            self._late[3].extend(work[3])
        else:
            if self._queue is None:
                self._queue = Queue(_LAG)
                self._thread = Thread(target=self._follow, name="clew-ledger", daemon=True)
                self._thread.start()
            self._queue.put(work)

    def _follow(self) -> None:
        queue = self._queue
        assert queue is not None
        while True:
            work = queue.get()
            taken = 1
            if work is None:
                queue.task_done()
                return
            entries, drop, blobs, statements = list(work[0]), list(work[1]), dict(work[2]), list(work[3])
            stop = False
            while not queue.empty() and len(entries) < _LAG:
                more = queue.get()
                taken += 1
                if more is None:
                    stop = True
                    break
                entries += more[0]
                drop += more[1]
                blobs.update(more[2])
                statements += more[3]
            try:
                if self._failure is None or isinstance(self._failure, EncodeError):
                    self._append((entries, drop, blobs, statements))
            except BaseException:
                pass  # it is kept, and told to whoever comes next
            for _ in range(taken):
                queue.task_done()
            if stop:
                return

    def _raise(self) -> None:
        if self._failure is not None:
            raise self._failure

    def barrier(self) -> None:
        """Return when all that was written is durable. Not for ``exit``, which promises nothing before the end."""
        self._raise()
        if self._queue is not None:
            self._queue.join()
            self._raise()

    def close(self) -> None:
        """Write what is left."""
        if self._queue is not None:
            self._queue.put(None)
            assert self._thread is not None
            self._thread.join()
            self._queue = None
        late, self._late = self._late, ([], [], {}, [])
        if late[0] and (self._failure is None or isinstance(self._failure, EncodeError)):
            self._append(late)
        self._raise()

    def _write_snapshot(self) -> None:
        if self._snapshot is None or self._durability == "exit":
            return
        self.barrier()
        state = self._snapshot()
        body = state.to_checkpoint()
        self._since, self._weight = 0, len(body)
        reach("before-snapshot")
        self._carry(([Entry("snapshot", "", state.step, body, bytes.fromhex(state.digest))], [], {}, []))
        reach("after-snapshot")
