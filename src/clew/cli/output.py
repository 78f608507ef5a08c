"""What commands print: errors in two lines, tables, values, JSON.

Run ids, labels, node names, values and messages may come from a store that a stranger wrote. So control characters and
characters that reorder text are printed as escapes (``\\x1b``), and lines of data are cut to the terminal's width.
"""

from __future__ import annotations

import ast
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
from clew.state.values.display import display_tree


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


def command(verb: str, run_id: str, *more: str, name: str = "", graph: str = "") -> str:
    """Return a command about a run, quoted for a shell. `name` is a second argument, `graph` a value of ``--graph``."""
    given = {**_OPTIONS, "--graph": graph} if graph else _OPTIONS
    options = [*(f"{option} {shlex.quote(inline(value))}" for option, value in given.items()), *more]
    arguments = [shlex.quote(inline(each)) for each in (run_id, name) if each]
    if any(each.startswith("-") for each in (run_id, name)):
        return " ".join(["clew", verb, *options, "--", *arguments])
    return " ".join(["clew", verb, *arguments, *options])


def fitted(line: str, columns: int | None = None) -> str:
    """Return a line cut to a number of columns, the terminal's by default. Wide characters count twice."""
    from rich.cells import cell_len, set_cell_size

    columns = width() if columns is None else columns
    return line if cell_len(line) <= columns else set_cell_size(line, max(columns - 1, 1)) + "…"


# Messages of the library name Python calls and parameters; the command line names commands and options instead.
_TEXT = r"('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")"  # a string literal, as repr() writes a run id


def _with_run(verb: str, *more: str) -> Callable[[re.Match[str]], str]:
    def replacement(found: re.Match[str]) -> str:
        run_id, name = (*map(ast.literal_eval, found.groups()), "")[:2]
        return f"`{command(verb, run_id, *more, name=name)}`"

    return replacement


def _with_step(found: re.Match[str]) -> str:
    return f"`{command('show', ast.literal_eval(found[1]), f'--step {found[2]}')}`"


_COMMANDS: list[tuple[str, str | Callable[[re.Match[str]], str]]] = [
    (r"engine\.runs\(\)", "`clew runs`"),
    (r"engine\.threads\(\)", "`clew threads`"),
    (rf"engine\.resume\({_TEXT}, accept_changes=True\)", _with_run("resume", "--accept-changes")),
    (rf"engine\.resume\({_TEXT}, answer=\.\.\.\)", _with_run("resume", "--answer JSON")),
    (rf"engine\.resume\({_TEXT}\)", _with_run("resume")),
    (rf"engine\.rerun\({_TEXT}\)", _with_run("rerun")),
    (rf"engine\.(?:history|result)\({_TEXT}\)", _with_run("show")),
    (rf"engine\.why\({_TEXT}, {_TEXT}\)", _with_run("why")),
    (rf"engine\.fork\({_TEXT}, step=\.\.\.\)", _with_run("fork", "--step N")),
    (rf"engine\.resume\({_TEXT}, answers=\{{path: \.\.\.\}}\)", _with_run("resume", "--answers FILE")),
    (rf"engine\.update\({_TEXT}, \.\.\.\)", _with_run("update", "NAME=JSON")),
    (rf"engine\.state\({_TEXT}, (\d+)\)\.get\({_TEXT}\)", _with_step),
    (r"; to replace it without this warning, give Overwrite\(\.\.\.\)", ""),
    (r"engine\.prune\(\.\.\.\)", "`clew prune`"),
    (r"engine\.export_run\(run_id\)", "`clew export RUN`"),
    (r"choose another run_id", "choose another --run-id"),
    (r"give it to the run", "give it as NAME=JSON"),
    (r"without same_code", "without --same-code"),
    (r", or add a delay to time\.time\(\)", ""),
    (r"^import_string must", "MODULE:GRAPH must"),
    (r"^max_concurrent_nodes must", "--workers must"),
    (r"^on_error must", "--on-error must"),
    (r"^(durability|limit|seed|timeout) must", r"--\1 must"),
    (r"^(app|cursor|faults|force|keep|openapi|status|url): ", r"--\1: "),
    (r"^stop_(before|after)='[^']*': ", r"--stop-\1: "),
]


def _with_commands(text: str) -> str:
    for pattern, instead in _COMMANDS:
        text = re.sub(pattern, instead, text)
    return text


def report_error(message: str, hint: str = "", *, usage: str = "") -> None:
    """Print an error on standard error: one line that says what happened, and one that says what to do.

    Without `hint`, the second line is the part of the message after its last semicolon, or `usage`.
    """
    what, _, more = message.partition("\n")
    what, hint = _with_commands(what), _with_commands(hint)
    if not hint:
        # a run id may have a semicolon
        bare = re.sub(rf"`[^`]*`|{_TEXT}", lambda found: "-" * len(found[0]), what)
        at = max(bare.rfind("; "), what.rfind("; ") if "; " not in bare else -1)
        what, hint = (what[:at], what[at + 2 :]) if at >= 0 else (what, usage)
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
            note(_with_commands(str(message)))
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


_JSON_ESCAPE = re.compile(r"\\\\|\\u00([0-9a-f]{2})")


def one_line(value: Any, width: int) -> str:
    """Return a value as one line, cut to a width: JSON, with instances as ``Name(field=...)``, and arrays and frames in
    short form.

    Control characters are escaped as in all other text.
    """
    from clew.runtime.review.value_diff import tree_line

    try:
        tree = display_tree(value)
    except EncodeError:
        return fitted(json_text(repr(value)), width)
    text = inline(tree_line(tree))
    return fitted(_JSON_ESCAPE.sub(lambda found: f"\\x{found[1]}" if found[1] else found[0], text), width)


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
    """Print rows under headings. A cell uses at most half of the line, so that a long id hides no other column. The
    last column uses the rest of the line."""
    half = width() // 2
    lines = [
        [*(fitted(inline(cell), half) for cell in row[:-1]), inline(row[-1])] for row in (headings, *rows)
    ]
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
