"""Hold interrupts back while a run is released, or while a thread starts.

Python raises ``KeyboardInterrupt`` between any two instructions, and a user presses Ctrl-C more than once. The first
interrupt ends the run. The second one must not end the code that releases the run, and an interrupt inside
`threading.Thread.start` can appear as a RuntimeError. So such code is a block that holds interrupts back.

Rules:

- Only the main thread gets interrupts. In another thread, a block does nothing.
- In a block, SIGINT only sets a flag. At the end of the block, the handler of the program is back, and gets one
  interrupt if there was any. It decides: Python's handler raises KeyboardInterrupt, that of ``asyncio.run`` cancels its
  task, and that of a program may do anything else.
- A block that handles a KeyboardInterrupt takes that `error`: Python's handler does not raise the same again.
- Blocks can be nested. Those of tasks on one event loop can overlap: the end of the last one counts.
- A block never calls a node, so Ctrl-C stops a node that hangs, as often as the user presses it.
- A store may hang. So each block holds interrupts back for five seconds at most; later ones are delivered at once.
- A handler that the program installs inside a block stays. So does one that ignores interrupts.

An interrupt can come in the microsecond before a block begins: then the block raises it, and its body does not run.
Code that has to succeed tries again in an ``except`` clause around the block.
"""

from __future__ import annotations

import signal
import threading
from time import monotonic
from types import FrameType
from typing import Any

_LONGEST = 5.0  # seconds


class _Handler:
    """The handler of SIGINT while blocks hold interrupts back."""

    def __init__(self, replaced: Any) -> None:
        self.replaced = replaced
        self.blocks = 0
        self.is_due = False
        self._until = monotonic() + _LONGEST

    def holds(self) -> bool:
        return self.blocks > 0 and monotonic() < self._until

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.holds():
            self.is_due = True
        else:
            self.replaced(number, frame)


class HeldInterrupts:
    """A block that holds interrupts back. `error` is what it handles, if that is on its way to the caller."""

    __slots__ = ("_error", "_handler")

    def __init__(self, error: BaseException | None = None) -> None:
        self._error = error
        self._handler: _Handler | None = None

    def __enter__(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        is_due = False
        while True:
            try:
                self._begin(is_due)
                return
            except KeyboardInterrupt:
                is_due = True

    def _begin(self, is_due: bool) -> None:
        handler = _installed()
        if handler is not None:
            handler.is_due |= is_due
            handler.blocks += 1
            self._handler = handler

    def __exit__(self, *_: object) -> None:
        mine = self._handler
        if mine is None:
            return
        if mine.blocks > 1:
            mine.blocks -= 1
            return
        program = _running(mine.replaced)
        try:
            current: Any = signal.getsignal(signal.SIGINT)
            if current is mine:
                signal.signal(signal.SIGINT, program)
        except ValueError:  # a coroutine that is deleted in another thread
            pass
        mine.blocks = 0
        is_known = isinstance(self._error, KeyboardInterrupt) and program is signal.default_int_handler
        if mine.is_due and not is_known:
            program(signal.SIGINT, None)


def _installed() -> _Handler | None:
    """Return the handler for one more block, or None if no handler raises an interrupt."""
    current = signal.getsignal(signal.SIGINT)
    if isinstance(current, _Handler):
        if current.holds():
            return current
        current = current.replaced  # a block that took too long did not restore it
    if not callable(current):
        return None
    mine = _Handler(current)
    signal.signal(signal.SIGINT, mine)
    return mine


def start_thread(thread: threading.Thread) -> None:
    """Start a thread, and raise an interrupt only when it has started."""
    with HeldInterrupts():
        thread.start()


def _running(handler: Any) -> Any:
    """Return a handler, or Python's one if it belongs to a call of ``asyncio.run`` that ended during the block: that
    could not remove its handler."""
    task = getattr(handler, "keywords", {}).get("main_task")
    return handler if task is None or not task.done() else signal.default_int_handler
