"""Live progress of a run, built from its events: one line for each node."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

from clew.display import brief
from clew.error_text import line_of
from clew.errors import InputError
from clew.live import Line, live
from clew.runtime.reporting.events import Event, Listener

_STYLES = {"running": "yellow", "done": "green", "failed": "red", "asking": "cyan", "waiting": "magenta"}
_MARKS = {"running": "●", "done": "✓", "failed": "✗", "asking": "?", "waiting": "…"}


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
        self.nodes: dict[str, NodeProgress] = {}

    def update(self, event: Event) -> None:
        """Apply an event."""
        self.run_id = event.run_id
        if event.kind == "step_committed" and not event.path:
            self.step = event.step
        name = event.data.get("node")
        if name is None:
            return
        node = self.nodes.setdefault(name, NodeProgress())
        if event.kind == "item_queued":
            node.total += event.data["items"]
        elif event.kind == "item_started":
            node.running += 1
            node.state = "running"
        elif event.kind == "item_finished":
            node.running, node.done = max(node.running - 1, 0), node.done + 1
            node.state = "running" if node.running else "done"
            node.message = f"{event.data['duration']:.2f} s"
        elif event.kind == "item_failed":
            node.running = max(node.running - 1, 0)
            node.state, node.message = "failed", line_of(event.data["error"])
        elif event.kind == "item_retried":
            node.state = "waiting"
            node.message = f"attempt {event.data['attempt'] + 1} in {event.data['delay']:.1f} s"
        elif event.kind == "interrupted":
            node.running = max(node.running - 1, 0)
            node.state, node.message = "asking", brief(event.data["question"], 60)
        elif event.kind in ("emitted", "chunk", "call_recorded"):
            node.message = brief(event.data.get("data", event.data.get("chunk", event.data.get("name"))), 60)

    def lines(self) -> list[Line]:
        """Return a title and a line for each node."""
        title = f"{self.run_id}  step {self.step}  {time.monotonic() - self.began:.1f} s"
        return [((title, ""),), *(_line(name, node) for name, node in list(self.nodes.items()))]


def _line(name: str, node: NodeProgress) -> Line:
    state = node.state or "queued"
    count = f"{node.done}/{node.total}" if node.total > 1 else ""
    mark = f"{_MARKS.get(state, '·')} {state}"
    return ((name, ""), (mark, _STYLES.get(state, "dim")), (count, ""), (node.message[:100], "dim"))


_OFF: AbstractContextManager[Listener | None] = nullcontext()


def showing(progress: bool) -> AbstractContextManager[Listener | None]:
    """Return a context with the listener that shows a run, or None if `progress` is off or nothing can be shown."""
    if not isinstance(progress, bool):
        raise InputError(f"progress must be True or False, got {progress!r}")
    return _shown() if progress else _OFF


@contextmanager
def _shown() -> Iterator[Listener | None]:
    board = RunProgress()
    with live(board) as changed:
        if changed is None:
            yield None
            return

        def listener(event: Event) -> None:
            board.update(event)
            changed()

        yield listener
