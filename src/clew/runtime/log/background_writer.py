"""The background writer: appends work to a store from another thread, in order and with a bounded delay.

Work that is queued within a moment goes in one append, so a store that waits for its disk waits once. A caller that
cannot wait for that moment appends the queue in its own thread (`join`, and `put` when too much is queued). `close`
returns what is left. Anything but a plain step is appended at once: a call that was made and is lost would be repeated.

A new run may still have to wait for the disk (`settle`). The first append does that, or a timer after a moment.

After the first append that fails, all later work is discarded, because it would depend on missing entries. The next
call raises the error.

The thread starts when it first has work. Starting or waking a thread costs as much as many steps, so a short
run has none: a timer (``clew.stores.timer``) starts the thread for work that is queued for more than a moment.

An interrupt can occur at any instant in the main thread. `Condition.__enter__` is Python code: an interrupt in it,
after it has acquired its lock, leaves the lock locked. So the code takes the lock with its own ``with`` statement,
which the interpreter does not interrupt partway. Only the background thread waits for the condition: it gets no
interrupts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import Condition, Lock, Thread

from clew.held_interrupts import start_thread
from clew.stores import LogEntry, Statement
from clew.stores.protocol import OWN_STEP
from clew.stores.timer import call_later, cancel

Work = tuple[Sequence[LogEntry], Sequence[tuple[str, str, int]], Mapping[str, bytes], Sequence[Statement]]
"""The arguments of an append: entries to add, names of entries to drop, blobs, and statements to execute."""

LAG = 1024  # entries that may be queued before `put` waits
ENOUGH = 256  # queued entries that are appended at once
MOMENT = 0.01  # seconds


class BackgroundWriter:
    """Appends work later, in order. Calls `settle` if nothing is appended for `MOMENT` seconds."""

    _thread: Thread | None = None
    _is_due = False
    _is_closed = False
    failure: BaseException | None = None

    def __init__(self, append: Callable[[Work], None], settle: Callable[[], None] | None = None) -> None:
        self._append = append
        self._settle = settle
        self._turn = Lock()  # one append at a time, in order
        self._lock = Lock()
        self._changed = Condition(self._lock)
        self._waiting: list[Work] = []
        self._behind = 0  # entries that are queued or being appended
        self.put_so_far = 0  # pieces of work
        self.done_so_far = 0  # those of them that are in the store, or were discarded
        if settle is not None:
            call_later(self, MOMENT, self.hurry)

    def put(self, work: Work) -> None:
        """Queue work, and wait if too much is queued."""
        self.follow(work)
        if self.is_far:
            self.join()

    def follow(self, work: Work) -> None:
        """Queue work that the thread appends soon; never wait."""
        entries = work[0]
        with self._lock:
            is_first = self._add(work)
            is_due = self._behind >= ENOUGH or any(entry.kind != OWN_STEP for entry in entries)
            if is_first and self._thread is not None:
                self._changed.notify()
        if is_due:
            self.hurry()
        elif is_first and self._thread is None:
            call_later(self, MOMENT, self.hurry)

    def queue(self, work: Work) -> None:
        """Queue work that the next `join` appends; never wait."""
        with self._lock:
            self._add(work)

    def _add(self, work: Work) -> bool:
        """Add work to the queue; return whether the queue was empty."""
        if self.failure is not None:
            raise self.failure
        self._waiting.append(work)
        self._behind += len(work[0])
        self.put_so_far += 1
        return len(self._waiting) == 1

    @property
    def is_far(self) -> bool:
        """Whether so much is queued that callers should wait."""
        return self._behind > LAG

    @property
    def is_idle(self) -> bool:
        """Whether all work is in the store."""
        return self.done_so_far == self.put_so_far and self._settle is None

    def hurry(self) -> None:
        """Make the thread append the queue now; start it if necessary."""
        with self._lock:
            if self._is_closed or not self._has_more():
                return
            self._is_due = True
            if self._thread is None or not self._thread.is_alive():
                self._thread = Thread(target=self._work, name="clew-writer", daemon=True)
                start_thread(self._thread)
            else:
                self._changed.notify()

    def join(self) -> None:
        """Append the queue in this thread; return when all work is in the store, or raise the error."""
        with self._turn:
            waiting = self._take()
            try:
                if self.failure is None:
                    if waiting:
                        for work in batches(waiting):
                            self._append(work)
                    elif self._settle is not None:
                        self._settle()
                    self._settle = None
            except BaseException as error:
                self.failure = error
                raise
            finally:
                with self._lock:
                    self._behind -= sum(len(work[0]) for work in waiting)
                    self.done_so_far += len(waiting)

    def close(self) -> list[Work]:
        """End the thread. Return the work that is not in the store; the caller appends it."""
        cancel(self)
        with self._lock:
            self._is_closed = True
            self._changed.notify()
        with self._turn:
            self._settle = None
            left = self._take()
        return left if self.failure is None else []

    def _take(self) -> list[Work]:
        with self._lock:
            waiting, self._waiting, self._is_due = self._waiting, [], False
        return waiting

    def _work(self) -> None:
        while True:
            with self._lock:
                while not self._is_closed and not self._has_more():
                    self._changed.wait()
                if not self._is_closed and not self._is_due:
                    self._changed.wait(MOMENT)  # more may come
                if self._is_closed or self.failure is not None:
                    return
            try:
                self.join()
            except BaseException:
                return  # the next put or join raises it

    def _has_more(self) -> bool:
        return bool(self._waiting) or self._settle is not None


def batches(works: Sequence[Work]) -> list[Work]:
    """Combine work into as few appends as possible, in order.

    An entry that is dropped and added again later needs two appends: in one, it would not be written.
    """
    found: list[list[Work]] = [[]]
    dropped: set[tuple[str, str, int]] = set()
    for work in works:
        if dropped and any(entry.name in dropped for entry in work[0]):
            found.append([])
            dropped.clear()
        found[-1].append(work)
        dropped.update(work[1])
    return [joined(batch) for batch in found]


def joined(works: Sequence[Work]) -> Work:
    """Combine several pieces of work into one append."""
    if len(works) == 1:
        return works[0]
    entries: list[LogEntry] = []
    drop: list[tuple[str, str, int]] = []
    blobs: dict[str, bytes] = {}
    statements: list[Statement] = []
    for work in works:
        entries += work[0]
        drop += work[1]
        blobs.update(work[2])
        statements += work[3]
    return entries, drop, blobs, statements
