"""Ctrl-C that Python discards is delivered again.

Python raises ``KeyboardInterrupt`` wherever the main thread is. In a finalizer or the callback of a weak reference
(imports have many), no code can catch it: Python prints it and continues, and the user has to press Ctrl-C again. The
command delivers it a moment later instead, when the callback has ended.
"""

from __future__ import annotations

import _thread
import sys
import threading
from typing import Any

DELAY = 0.01  # seconds; a callback that takes longer discards the interrupt again, and gets another one


def redeliver_interrupts() -> None:
    """Deliver each discarded ``KeyboardInterrupt`` to the main thread again."""
    report = sys.unraisablehook

    def deliver(discarded: Any) -> None:
        if issubclass(discarded.exc_type, KeyboardInterrupt):
            timer = threading.Timer(DELAY, _thread.interrupt_main)
            timer.daemon = True
            timer.start()
        else:
            report(discarded)

    sys.unraisablehook = deliver
