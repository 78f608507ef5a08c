"""Live progress of an exploration, shown on standard error if that is a terminal and rich is installed."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.text import Text

Watch = Callable[[dict[str, Any]], None]


class ExplorationProgress:
    """The line that is shown while an exploration runs."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.counts: dict[str, Any] = {}

    def __call__(self, counts: dict[str, Any]) -> None:
        self.counts = counts

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

    def __rich__(self) -> Text:
        from rich.text import Text

        return Text(self.line(), style="red" if self.counts.get("violations") else "cyan")


@contextmanager
def watching(show: bool | None) -> Iterator[Watch]:
    """Yield a function that takes the current counts. None: show them only if standard error is a terminal."""
    if show is False or (show is None and not sys.stderr.isatty()):
        yield _ignore
        return
    try:
        from rich.console import Console
        from rich.live import Live
    except ModuleNotFoundError:
        yield _ignore
        return
    board = ExplorationProgress()
    with Live(
        board, console=Console(stderr=True), refresh_per_second=5, transient=True, redirect_stdout=False
    ):
        yield board


def _ignore(counts: dict[str, Any]) -> None:
    pass
