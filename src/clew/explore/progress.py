"""Live progress of an exploration: on a terminal, where rich is installed, and nowhere else."""

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
    """What is shown while it runs."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.seen: dict[str, Any] = {}

    def __call__(self, seen: dict[str, Any]) -> None:
        self.seen = seen

    def line(self) -> str:
        """The numbers as one line."""
        seconds = time.monotonic() - self.began
        if not self.seen:
            return "exploring"
        rate = self.seen["steps"] / seconds if seconds > 0 else 0.0
        return (
            f"exploring: {self.seen['states']:,} states, {self.seen['steps']:,} transitions ({rate:,.0f}/s), "
            f"{self.seen['open']:,} open, {self.seen['violations']} violations, {seconds:.1f} s"
        )

    def __rich__(self) -> Text:
        from rich.text import Text

        return Text(self.line(), style="red" if self.seen.get("violations") else "cyan")


@contextmanager
def watching(show: bool | None) -> Iterator[Watch]:
    """Whoever wants to know how far it is. None: show it if standard error is a terminal."""
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


def _ignore(seen: dict[str, Any]) -> None:
    pass
