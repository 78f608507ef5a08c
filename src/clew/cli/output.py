"""What commands print: errors in two lines, tables, values, JSON.

Run ids, labels, node names, values and messages may come from a store that a stranger wrote. So control characters and
characters that reorder text are printed as escapes (``\\x1b``), and lines of data are cut to the terminal's width.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, TextIO

from clew.display import UNSAFE, inline
from clew.errors import EncodeError, ExplorationWarning, GraphWarning
from clew.state import to_tree


class CommandError(Exception):
    """A command failed: what happened, what to do, and the exit code."""

    def __init__(self, what: str, hint: str, *, code: int = 2) -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint
        self.code = code


def printable(text: str) -> str:
    """Return text in which every control character but the line feed is an escape."""
    return "\n".join(map(inline, text.split("\n")))


def say(text: object = "", *, end: str = "\n", cut: bool = False) -> None:
    """Print text on standard output; with `cut`, each line cut to the width of the terminal."""
    shown = printable(str(text))
    print("\n".join(map(fitted, shown.split("\n"))) if cut else shown, end=end)


def say_line(text: str) -> None:
    """Print one line that holds data: names and ids cannot add lines to it."""
    say(fitted(inline(text)))


_OPTIONS: dict[str, str] = {}  # options of this command that a suggested command needs too


def remember_option(option: str, value: str | None) -> None:
    """Add an option to the commands that hints suggest; without a value, remove it."""
    if value:
        _OPTIONS[option] = value
    else:
        _OPTIONS.pop(option, None)


def command(verb: str, run_id: str, *more: str) -> str:
    """Return a command about a run, quoted for a shell."""
    options = [f"{option} {shlex.quote(inline(value))}" for option, value in _OPTIONS.items()]
    return " ".join(["clew", verb, shlex.quote(inline(run_id)), *options, *more])


def fitted(line: str, columns: int | None = None) -> str:
    """Return a line cut to a number of columns, the terminal's by default. Wide characters count twice."""
    from rich.cells import cell_len, set_cell_size

    columns = width() if columns is None else columns
    return line if cell_len(line) <= columns else set_cell_size(line, max(columns - 1, 1)) + "…"


# Messages of the library name Python calls; the command line names commands instead.
_RUN = r"(?:'([^']*)'|\"([^\"]*)\")"


def _with_run(verb: str, *more: str) -> Callable[[re.Match[str]], str]:
    return lambda found: f"`{command(verb, found[1] or found[2] or '', *more)}`"


_COMMANDS: list[tuple[str, str | Callable[[re.Match[str]], str]]] = [
    (r"engine\.runs\(\)", "`clew runs`"),
    (rf"engine\.resume\({_RUN}, accept_changes=True\)", _with_run("resume", "--accept-changes")),
    (rf"engine\.resume\({_RUN}, answer=\.\.\.\)", _with_run("resume", "--answer JSON")),
    (rf"engine\.resume\({_RUN}\)", _with_run("resume")),
    (rf"engine\.fork\({_RUN}, step=\.\.\.\)", _with_run("fork", "--step N")),
    (r"resume it with answer=\.\.\.", "answer with `clew resume RUN --answer JSON`"),
    (r"give answers=\{path: \.\.\.\}", 'answer them with --answers FILE, a JSON object {"path": answer}'),
    (r"engine\.export\(run_id\)", "`clew export RUN`"),
    (r"choose another run_id", "choose another --run-id"),
    (r"give it to the run", "give it as NAME=JSON"),
]


def report_error(message: str, hint: str = "", *, usage: str = "") -> None:
    """Print an error on standard error: one line that says what happened, and one that says what to do.

    Without `hint`, the second line is the part of the message after its last semicolon, or `usage`.
    """
    what, _, more = message.partition("\n")
    if not hint:
        first, split, last = what.rpartition("; ")
        what, hint = (first, last) if split else (what, usage)
    for pattern, instead in _COMMANDS:
        what, hint = re.sub(pattern, instead, what), re.sub(pattern, instead, hint)
    print(f"error: {inline(what)}", file=sys.stderr)
    if hint:
        print(f"hint: {inline(hint)}", file=sys.stderr)
    if more:
        print(printable(more), file=sys.stderr)


def note(message: str) -> None:
    """Print a note on standard error."""
    print(f"note: {printable(message)}", file=sys.stderr)


def show_warnings() -> None:
    """Print warnings about graphs and explorations as notes; leave others to Python."""
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
    """Print data as JSON on standard output."""
    print(json_text(data, indent=2))


def json_text(data: Any, *, indent: int | None = None) -> str:
    """Return data as JSON. Unsafe characters are JSON escapes, so parsing gives the same data."""
    written = json.dumps(data, indent=indent, ensure_ascii=False)
    return UNSAFE.sub(lambda found: "\n" if found[0] == "\n" else f"\\u{ord(found[0]):04x}", written)


def plain(value: Any) -> Any:
    """Return a value as JSON data, or its repr if it has no encoding."""
    try:
        return to_tree(value)
    except EncodeError:
        return repr(value)


def plain_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values by name as JSON data."""
    return {name: plain(value) for name, value in values.items()}


def one_line(value: Any, width: int) -> str:
    """Return a value as one line of JSON, cut to a width."""
    return fitted(json_text(plain(value)), width)


def width() -> int:
    """Return the width of the terminal, or a large number without a terminal."""
    return shutil.get_terminal_size((100, 24)).columns if sys.stdout.isatty() else 10_000


def say_values(values: Mapping[str, Any]) -> None:
    """Print values by name, one per line."""
    names = {name: inline(name) for name in values}
    longest = max(map(len, names.values()), default=0)
    for name, value in values.items():
        shown = one_line(value, max(min(width(), 400) - longest - 4, 20))
        say(f"  {names[name]:<{longest}}  {shown}", cut=True)


def say_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under headings; the last column uses the rest of the line."""
    lines = [[inline(cell) for cell in row] for row in (headings, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines)]
    for row in lines:
        say("  ".join(f"{cell:<{w}}" for cell, w in zip(row, widths)).rstrip(), cut=True)


def count(number: int, what: str) -> str:
    """Return a count: ``1 run``, ``2 runs``."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def local_time(seconds: float) -> str:
    """Return a time in local time, or as seconds if it is out of range."""
    try:
        return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return f"{seconds:g} s"
