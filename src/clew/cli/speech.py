"""What commands say: errors in two lines, tables, values, JSON."""

from __future__ import annotations

import json
import re
import shutil
import sys
import warnings
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TextIO

from clew.errors import EncodeError, ExplorationWarning, GraphWarning
from clew.state import to_tree


class Failed(Exception):
    """A command could not do its work: what happened, what to do, and the exit code."""

    def __init__(self, what: str, hint: str, *, code: int = 2) -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint
        self.code = code


# The library speaks of calls; here people type commands.
_RUN = r"(?:'([^']*)'|\"([^\"]*)\")"
_COMMANDS = [
    (r"engine\.runs\(\)", "`clew runs`"),
    (rf"engine\.resume\({_RUN}, accept_changes=True\)", r"`clew resume \1\2 --accept-changes`"),
    (rf"engine\.resume\({_RUN}, answer=\.\.\.\)", r"`clew resume \1\2 --answer JSON`"),
    (rf"engine\.resume\({_RUN}\)", r"`clew resume \1\2`"),
    (rf"engine\.fork\({_RUN}, step=\.\.\.\)", r"`clew fork \1\2 --step N`"),
    (r"resume it with answer=\.\.\.", "answer with `clew resume RUN --answer JSON`"),
    (r"give answers=\{path: \.\.\.\}", 'answer them with --answers FILE, a JSON object {"path": answer}'),
    (r"engine\.export\(run_id\)", "`clew export RUN`"),
    (r"choose another run_id", "choose another --id"),
    (r"give it to the run", "give it as NAME=JSON"),
]


def complain(message: str, hint: str = "", *, usage: str = "") -> None:
    """An error on standard error: a line of what, and a line of what to do.

    Without `hint` that is what the message says after its last semicolon, or else `usage`.
    """
    what, _, more = message.partition("\n")
    if not hint:
        told, split, advice = what.rpartition("; ")
        what, hint = (told, advice) if split else (what, usage)
    for pattern, command in _COMMANDS:
        what, hint = re.sub(pattern, command, what), re.sub(pattern, command, hint)
    print(f"error: {what}", file=sys.stderr)
    if hint:
        print(f"hint: {hint}", file=sys.stderr)
    if more:
        print(more, file=sys.stderr)


def note(message: str) -> None:
    """Something worth knowing, on standard error."""
    print(f"note: {message}", file=sys.stderr)


def show_warnings() -> None:
    """Warnings about graphs in the same form as all else; others as Python shows them."""
    shown = warnings.showwarning

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if issubclass(category, GraphWarning | ExplorationWarning):
            note(str(message))
        else:
            shown(message, category, filename, lineno, file, line)

    warnings.showwarning = show
    warnings.simplefilter("always", GraphWarning)
    warnings.simplefilter("always", ExplorationWarning)


def say_json(data: Any) -> None:
    """Data as JSON on standard output. What is no text (names of files may be such) is written as an escape."""
    written = json.dumps(data, indent=2, ensure_ascii=False)
    print(written.encode("utf-8", "backslashreplace").decode())


def plain(value: Any) -> Any:
    """A value as a tree of JSON; as its repr where it has no encoding."""
    try:
        return to_tree(value)
    except EncodeError:
        return repr(value)


def plain_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values by name as trees of JSON."""
    return {name: plain(value) for name, value in values.items()}


def one_line(value: Any, width: int) -> str:
    """A value as one line of JSON, cut to a width."""
    text = json.dumps(plain(value), ensure_ascii=False)
    return text if len(text) <= width else f"{text[: max(width - 1, 1)]}…"


def width() -> int:
    """How wide a line may be: the terminal's width, or anything where nobody looks."""
    return shutil.get_terminal_size((100, 24)).columns if sys.stdout.isatty() else 10_000


def say_values(values: Mapping[str, Any]) -> None:
    """Values by name, one a line."""
    longest = max(map(len, values), default=0)
    for name, value in values.items():
        print(f"  {name:<{longest}}  {one_line(value, max(min(width(), 400) - longest - 4, 20))}")


def say_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Rows under headings; the last column takes what is left of the line."""
    widths = [max(map(len, column)) for column in zip(headings, *rows)]
    for row in (headings, *rows):
        line = "  ".join(f"{cell:<{w}}" for cell, w in zip(row, widths)).rstrip()
        print(line if len(line) <= width() else f"{line[: width() - 1]}…")


def count(number: int, what: str) -> str:
    """How many: ``1 run``, ``2 runs``."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def local_time(seconds: float) -> str:
    """A time as people at this machine read it."""
    return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M:%S")
