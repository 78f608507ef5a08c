"""A follower: carries work to a store behind a run's back, in order and not too far behind.

What piles up for a moment goes in one append: a store that waits for its disk then does so once. Whoever cannot wait
for that moment (`join`, and who is too far ahead) appends it in its own thread; whoever is done (`close`) takes what is
left. What is not a plain step is appended at once: a call that was made and is lost would be made again.

A new run may owe its store a wait for the disk (`settle`). It is over with the first append, or after a moment.

The first append that fails is the last one: what comes after it would build on something that is not there, and is let
fall; the error is kept for whoever asks next.

A follower has a thread from when it first has something to do by itself. Starting one, or waking one up, costs as much
as many steps, so a run that is over in a moment has none: a timer (``clew.stores.timer``) starts those that have had
something to do for a moment.

An interrupt may come at any instant in the thread that runs. `Condition.__enter__` is Python code: an interrupt in it,
after it has taken its lock, loses the lock. So the lock is taken by its own ``with`` statement, which the interpreter
does not interrupt halfway. Only the background thread, which gets no interrupts, waits for the condition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import Condition, Lock, Thread

from clew.stores import LogEntry, Statement
from clew.stores.protocol import OWN_STEP
from clew.stores.timer import call_later, cancel

Work = tuple[Sequence[LogEntry], Sequence[tuple[str, str, int]], Mapping[str, bytes], Sequence[Statement]]
"""Entries to add, names of entries to drop, large contents, statements to execute: the arguments of an append."""

LAG = 1024  # entries that it may be behind
ENOUGH = 256  # entries that are appended without waiting for more
MOMENT = 0.01  # seconds


class BackgroundWriter:
    """Appends what it is given, later. `settle` is called if nothing is appended for a moment."""

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
        self._behind = 0  # entries that wait, or are being appended
        self.put_so_far = 0  # works
        self.done_so_far = 0  # works of these that are in the store, or never will be
        if settle is not None:
            call_later(self, MOMENT, self.hurry)

    def put(self, work: Work) -> None:
        """Append this after all that came before it; wait if it is too far behind."""
        self.follow(work)
        if self.is_far:
            self.join()

    def follow(self, work: Work) -> None:
        """Append this after all that came before it, soon; never waits."""
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
        """Append this after all that came before it, when somebody joins; never waits."""
        with self._lock:
            self._add(work)

    def _add(self, work: Work) -> bool:
        """Whether it is the first one that waits."""
        if self.failure is not None:
            raise self.failure
        self._waiting.append(work)
        self._behind += len(work[0])
        self.put_so_far += 1
        return len(self._waiting) == 1

    @property
    def is_far(self) -> bool:
        """Whether so much waits that nobody should put more."""
        return self._behind > LAG

    @property
    def is_idle(self) -> bool:
        """Whether all that was put is in the store."""
        return self.done_so_far == self.put_so_far and self._settle is None

    def hurry(self) -> None:
        """Have what waits appended now, by a thread."""
        with self._lock:
            if self._is_closed or not self._has_more():
                return
            self._is_due = True
            if self._thread is None or not self._thread.is_alive():  # an interrupt may come while it starts
                self._thread = Thread(target=self._follow, name="clew-writer", daemon=True)
                self._thread.start()
            else:
                self._changed.notify()

    def join(self) -> None:
        """Return when all that was put is in the store; raise if it cannot be."""
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
        """End the thread. What was put and is not in the store is for the caller to append."""
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

    def _follow(self) -> None:
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
                return  # whoever puts or joins next is told

    def _has_more(self) -> bool:
        return bool(self._waiting) or self._settle is not None


def batches(works: Sequence[Work]) -> list[Work]:
    """Works as few appends, in order. What one drops and a later one adds again are not in the same append: there it
    would not be written."""
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
    """Several works as one."""
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
