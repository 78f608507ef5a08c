"""The command line: ``clew run flow:graph``. Its commands are in `commands`, related ones in one module.

A command parses its arguments, calls the public API of the library and prints the result:

- The result goes to standard output, as text or, with ``--json``, as JSON. Everything else goes to standard error.
- Progress is shown only on a terminal.
- The exit code is 0 for success, 1 if the run or the check failed, and 2 for an invalid command.
- An error has one line that says what happened, and one that says what to do. ``CLEW_DEBUG=1`` adds the traceback.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence

from clew.cli.interrupts import redeliver_interrupts

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and exit."""
    redeliver_interrupts()
    try:
        from clew.cli.app import run_command
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        print(f"error: the command line needs {error.name}, which is not installed", file=sys.stderr)
        print("hint: pip install 'clew[cli]'", file=sys.stderr)
        sys.exit(2)
    for stream in (sys.stdout, sys.stderr):  # an ASCII terminal shows other characters as escapes
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    sys.exit(run_command(list(sys.argv[1:] if arguments is None else arguments)))
