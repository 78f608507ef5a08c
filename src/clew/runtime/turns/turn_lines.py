"""Lines of calls: the turns that one engine starts on one thread, in the order of the calls.

Only the first call of a line may open its turn. It leaves the line when it has opened it, or has given up. The next
call then finds the thread busy with that run, and waits for its end. A call that is not the first uses no store.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from threading import RLock


class _Caller:
    """What a line knows about a call. The line does not keep the call itself, which may be abandoned."""

    wake: Callable[[], object] | None = None


class Place:
    """The place of one call in a line."""

    def __init__(self, lines: TurnLines, line: list[_Caller]) -> None:
        self._lines = lines
        self._line = line
        self._caller = _Caller()
        line.append(self._caller)

    @property
    def is_first(self) -> bool:
        """Whether no earlier call is in the line."""
        return self._line[:1] in ([], [self._caller])

    def when_first(self, wake: Callable[[], object]) -> None:
        """Call a function once when this call has become the first one, from any thread."""
        with self._lines.lock:
            if not self.is_first:
                self._caller.wake = wake
                return
        wake()

    def leave(self) -> None:
        """Leave the line, and wake the next call."""
        with self._lines.lock:
            if self._caller not in self._line:
                return
            is_first = self._line[0] is self._caller
            self._line.remove(self._caller)
            wake = self._line[0].wake if is_first and self._line else None
        if wake is not None:
            wake()

    def __del__(self) -> None:
        self.leave()


class TurnLines:
    """The lines of one engine, by thread."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self.lock = RLock()  # a place may be collected, and so leave, while its thread has the lock
        self._lines: dict[str, list[_Caller]] = {}
        self._process = os.getpid()

    def join(self, thread: str) -> Place:
        """Take the last place in the line of a thread."""
        if self._process != os.getpid():  # a fork: the calls belong to the parent
            self._clear()
        with self.lock:
            for name in [name for name, line in self._lines.items() if not line]:
                del self._lines[name]
            return Place(self, self._lines.setdefault(thread, []))
