"""The progress display: what comes from a run is text, never markup."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from clew.live import _table
from clew.runtime.reporting.events import Event
from clew.runtime.reporting.progress import RunProgress

MARKUP = ["a[/b]", "x[link=http://example.com/]click[/link]", "[blink]hey", "[bold red]q[/]", "\x1b[2J"]


@pytest.mark.parametrize("text", MARKUP)
def test_ids_names_and_messages_are_shown_as_they_are(text: str) -> None:
    board = RunProgress()
    board.update(Event("item_started", text, 1, "", 0.0, {"node": text}))
    board.update(Event("item_failed", text, 1, "", 0.0, {"node": text, "error": ValueError(text)}))
    shown = io.StringIO()
    Console(file=shown, force_terminal=False, width=200).print(_table(board))
    assert shown.getvalue().count(text.replace("\x1b", "\\x1b")) == 3
