"""Live progress of a pull: how many of the outdated nodes are finished, and the last one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from clew.incremental.nodes import ConcreteNode
from clew.live import Line, live


class PullProgress:
    """The line that is shown while a pull runs."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.began = time.monotonic()
        self.done = self.total = 0
        self.last = ""
        self.changed: Callable[[], None] = lambda: None

    def watch(
        self, plan: int, finished: Callable[[ConcreteNode], None] | None = None
    ) -> Callable[[ConcreteNode], None]:
        """Add the nodes of a plan; return a function that takes each finished node, and passes it to `finished`."""
        self.total += plan

        def finish(node: ConcreteNode) -> None:
            if finished is not None:
                finished(node)
            self.done += 1
            self.last = node.key
            self.changed()

        return finish

    def lines(self) -> list[Line]:
        seconds = time.monotonic() - self.began
        text = f"{self.name}: {self.done:,} of {self.total:,} nodes, {seconds:.1f} s"
        return [((text, "cyan"), (self.last, "dim"))]


@contextmanager
def showing(graph: Any, name: str) -> Iterator[None]:
    """Show the pulls of a graph, as its attribute ``_progress``."""
    board, outer = PullProgress(name), graph._progress
    with live(board) as changed:
        if changed is not None:
            board.changed = changed
            graph._progress = board
        try:
            yield
        finally:
            graph._progress = outer
