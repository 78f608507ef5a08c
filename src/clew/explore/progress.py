"""Live progress of an exploration, and of the calibration before it: one line with its counts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from clew.live import Line, live

Watch = Callable[[dict[str, Any]], None]


class ExplorationProgress:
    """The line that is shown while an exploration runs."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.counts: dict[str, Any] = {}

    def line(self) -> str:
        """Return the counts as one line."""
        seconds = time.monotonic() - self.began
        if not self.counts:
            return "exploring"
        rate = self.counts["steps"] / seconds if seconds > 0 else 0.0
        return (
            f"exploring: {self.counts['states']:,} states, {self.counts['steps']:,} transitions ({rate:,.0f}/s), "
            f"{self.counts['open']:,} open, {self.counts['violations']} violations, {seconds:.1f} s"
        )

    def lines(self) -> list[Line]:
        """Return the line, red if there are violations."""
        return [((self.line(), "red" if self.counts.get("violations") else "cyan"),)]


class CalibrationProgress:
    """The line that is shown before a service is explored."""

    def __init__(self, sent: Callable[[], int]) -> None:
        self._sent = sent
        self._began = time.monotonic()

    def lines(self) -> list[Line]:
        """Return the number of requests and seconds."""
        seconds = time.monotonic() - self._began
        return [((f"calibrating: {self._sent():,} requests, {seconds:.1f} s", "cyan"),)]


@contextmanager
def watching(show: bool) -> Iterator[Watch]:
    """Yield a function that takes the current counts, and shows them in a terminal or a notebook."""
    board = ExplorationProgress()
    with live(board, show=show) as changed:

        def watch(counts: dict[str, Any]) -> None:
            board.counts = counts
            if changed is not None:
                changed()

        yield watch
