"""Live progress of a run, built from its events and shown only on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clew.cli.output import inline
from clew.error_text import message_of
from clew.runtime.events import Event, Listener

if TYPE_CHECKING:
    from rich.table import Table


@dataclass
class NodeProgress:
    """The progress of one node."""

    running: int = 0
    done: int = 0
    total: int = 0
    state: str = ""
    message: str = ""


class RunProgress:
    """The progress of the nodes of a run."""

    def __init__(self) -> None:
        self.run_id = ""
        self.step = 0
        self.began = time.monotonic()
        self.lines: dict[str, NodeProgress] = {}

    def update(self, event: Event) -> None:
        """Apply an event."""
        self.run_id = event.run_id
        if event.kind == "step_committed" and not event.path:
            self.step = event.step
        name = event.data.get("node")
        if name is None:
            return
        line = self.lines.setdefault(name, NodeProgress())
        if event.kind == "item_queued":
            line.total += event.data["items"]
        elif event.kind == "item_started":
            line.running += 1
            line.state = "running"
        elif event.kind == "item_finished":
            line.running, line.done = max(line.running - 1, 0), line.done + 1
            line.state, line.message = (
                ("running" if line.running else "done"),
                f"{event.data['duration']:.2f} s",
            )
        elif event.kind == "item_failed":
            line.running = max(line.running - 1, 0)
            line.state, line.message = "failed", message_of(event.data["error"]).partition("\n")[0]
        elif event.kind == "item_retried":
            line.state, line.message = (
                "waiting",
                f"attempt {event.data['attempt'] + 1} in {event.data['delay']:.1f} s",
            )
        elif event.kind == "interrupted":
            line.running = max(line.running - 1, 0)
            line.state, line.message = "asking", str(event.data["question"]).partition("\n")[0]
        elif event.kind in ("emitted", "chunk", "call_recorded"):
            line.message = str(event.data.get("data", event.data.get("chunk", event.data.get("name"))))[:60]

    def __rich__(self) -> Table:
        from rich.table import Table
        from rich.text import Text

        # Text: Rich reads a plain string as markup.
        title = Text(f"{inline(self.run_id)}  step {self.step}  {time.monotonic() - self.began:.1f} s")
        table = Table(title=title, title_justify="left", box=None, show_header=False, padding=(0, 1))
        colours = {
            "running": "yellow",
            "done": "green",
            "failed": "red",
            "asking": "cyan",
            "waiting": "magenta",
        }
        marks = {"running": "●", "done": "✓", "failed": "✗", "asking": "?", "waiting": "…"}
        for name, line in list(self.lines.items()):
            count = f"{line.done}/{line.total}" if line.total > 1 else ""
            state = line.state or "queued"
            mark = Text(f"{marks.get(state, '·')} {state}", style=colours.get(state, "dim"))
            table.add_row(
                Text(inline(name)), mark, Text(count), Text(inline(line.message), style="dim", no_wrap=True)
            )
        return table


@contextmanager
def progress() -> Iterator[tuple[Listener, ...]]:
    """Return the listeners that show progress: one on a terminal, otherwise none."""
    if not sys.stderr.isatty():
        yield ()
        return
    from rich.console import Console
    from rich.live import Live

    board = RunProgress()
    console = Console(stderr=True)
    with Live(board, console=console, refresh_per_second=10, transient=True, redirect_stdout=False):
        yield (board.update,)
