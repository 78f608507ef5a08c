"""A live display of something that runs: in a terminal by rich, in a notebook by IPython, elsewhere nothing.

A board holds what is shown, as text (``lines``). It is drawn on standard error, so that output can be redirected; in
a terminal it disappears at the end, in a notebook its last state stays. Without rich or IPython nothing is shown.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Protocol

from clew import display

Line = tuple[tuple[str, str], ...]
"""The cells of a line: text and style (a style of rich, or "")."""

_STYLES = {"green": "good", "red": "bad", "yellow": "warn", "magenta": "warn"}
_PERIOD = 0.2  # seconds between two updates in a notebook


class Board(Protocol):
    """What is shown."""

    def lines(self) -> list[Line]:
        """Return the current lines."""


@contextmanager
def live(board: Board, *, show: bool = True) -> Iterator[Callable[[], None] | None]:
    """Show a board. Yield a function to call after each change, or None if nothing is shown."""
    if show and _in_notebook():
        with _notebook(board) as changed:
            yield changed
    elif show and sys.stderr.isatty():
        with _terminal(board) as changed:
            yield changed
    else:
        yield None


def _in_notebook() -> bool:
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


@contextmanager
def _notebook(board: Board) -> Iterator[Callable[[], None]]:
    ipython: Any = import_module("IPython.display")

    def html() -> Any:
        rows = ("".join(f"<td>{_cell(*cell)}</td>" for cell in line) for line in board.lines())
        return ipython.HTML(display.page("<table>", *(f"<tr>{row}</tr>" for row in rows), "</table>"))

    shown, last = ipython.display(html(), display_id=True), time.monotonic()

    def changed() -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= _PERIOD:
            last = now
            shown.update(html())

    try:
        yield changed
    finally:
        shown.update(html())


def _cell(text: str, style: str) -> str:
    kind = _STYLES.get(style)
    return f'<span class="clew-{kind}">{display.cell(text)}</span>' if kind else display.cell(text)


@contextmanager
def _terminal(board: Board) -> Iterator[Callable[[], None] | None]:
    try:
        from rich.console import Console
        from rich.live import Live
    except ModuleNotFoundError:
        yield None
        return
    with Live(
        get_renderable=lambda: _table(board),
        console=Console(stderr=True),
        refresh_per_second=10,
        transient=True,
        redirect_stdout=False,
    ):
        yield lambda: None  # rich looks at the board by itself


def _table(board: Board) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, padding=(0, 1))
    for line in board.lines():
        # Text: Rich reads a plain string as markup.
        table.add_row(*(Text(display.inline(text), style=style, no_wrap=True) for text, style in line))
    return table
