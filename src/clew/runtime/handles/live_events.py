"""The events of a run that this process executes, for any number of readers.

A `LiveEvents` is a listener of the run. It passes each event to its readers, and keeps the last 1,024 for readers that
come later; they read older ones from the store. With each event, it keeps the last committed step before it, so a
reader knows which steps it lacks. It holds weak references to its readers, so an abandoned reader costs nothing.

A resumed run reports the finished items of uncommitted steps again (``restored``). Those that were reported here before
are left out.

A session that had no listener when it was opened reports only what its nodes send, and its end. Then `is_whole` is
false, and readers follow the store for everything else.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Lock
from typing import NamedTuple
from weakref import WeakSet

from clew.runtime.reporting.events import Event

HISTORY = 1_024
_OF_ITEMS = ("item_finished", "gate_decided")


class LiveEvent(NamedTuple):
    """An event, its number, and the last step that was committed before it."""

    root: int
    seq: int
    event: Event


class Reader:
    """A queue of events for one reader."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[LiveEvent | None] = SimpleQueue()
        self._wake: Callable[[], object] | None = None

    def put(self, event: LiveEvent | None) -> None:
        """Add an event; None only wakes the reader."""
        self._queue.put(event)
        if self._wake is not None:
            self._wake()

    def when_news(self, wake: Callable[[], object]) -> None:
        """Call a function when there is something new, from any thread; now if there is."""
        self._wake = wake
        if not self._queue.empty():
            wake()

    def wait(self, seconds: float, into: deque[LiveEvent]) -> None:
        """Wait until there is something new, and move it into a queue of the caller."""
        try:
            event = self._queue.get(timeout=seconds)
        except Empty:
            return
        if event is not None:
            into.append(event)

    def drain(self, into: deque[LiveEvent]) -> None:
        """Move everything into a queue of the caller, without waiting."""
        while not self._queue.empty():
            event = self._queue.get()
            if event is not None:
                into.append(event)


class LiveEvents:
    """The events of one run of this process, over all its sessions here."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.source = os.urandom(4).hex()
        self.root = 0
        self.is_whole = True  # the session reports everything, or is not open yet
        self._step: Callable[[], int] | None = None  # the last committed step, if events do not tell
        self.ended: tuple[str, float] | None = None  # status and time of the last end of the run
        self._seq = 0
        self._open: dict[tuple[str, str], int] = {}  # reported items that are not committed -> their step
        self._history: deque[LiveEvent] = deque(maxlen=HISTORY)
        self._readers: WeakSet[Reader] = WeakSet()
        self._lock = Lock()

    def begin(self, step: Callable[[], int], *, is_whole: bool) -> None:
        """Start another session of the run; `step` returns its last committed step."""
        self.root, self.is_whole = step(), is_whole
        self._step = None if is_whole else step

    def __call__(self, event: Event) -> None:
        with self._lock:
            if event.kind in _OF_ITEMS and self._is_repeated(event):
                return
            self._seq += 1
            if self._step is not None:
                self.root = self._step()
                if event.path and "/" not in event.path:  # its step may have been committed just now
                    self.root = min(self.root, event.step - 1)
            entry = LiveEvent(self.root, self._seq, event)
            if event.kind == "step_committed" and not event.path:
                self.root = event.step
                self._open = {item: step for item, step in self._open.items() if step > event.step}
            elif event.kind == "run_finished":
                self.ended = event.status, event.time
            self._history.append(entry)
            readers = list(self._readers)
        for reader in readers:
            reader.put(entry)

    def _is_repeated(self, event: Event) -> bool:
        """Return whether a finished item was reported before the run was resumed."""
        item = (event.kind, event.path)
        if "restored" in event.data and item in self._open:
            return True
        self._open[item] = self.root + 1 if "/" in event.path else event.step
        return False

    def read(self) -> tuple[Reader, list[LiveEvent]]:
        """Return a new reader, and the stored events before its first one."""
        reader = Reader()
        with self._lock:
            self._readers.add(reader)
            return reader, list(self._history)

    def wake_readers(self) -> None:
        """Wake the readers: the run has stopped here."""
        with self._lock:
            readers = list(self._readers)
        for reader in readers:
            reader.put(None)
