"""The command line: ``clew run flow:graph``, and one verb for each thing that can be done with a run.

One file a verb. A verb reads its arguments, calls what users of the library call, and says what came of it:

- what was asked for goes to standard output, as text or with ``--json`` as JSON; everything else to standard error;
- progress is shown on a terminal, and nowhere else;
- the exit code is 0 if all is good, 1 if the run or the check failed, 2 if the command was wrong;
- an error is one line of what happened and one of what to do. ``CLEW_DEBUG=1`` shows the traceback.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and exit."""
    try:
        from clew.cli.app import run_command
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        print(f"error: the command line needs {error.name}, which is not installed", file=sys.stderr)
        print("hint: pip install 'clew[cli]'", file=sys.stderr)
        sys.exit(2)
    sys.exit(run_command(list(sys.argv[1:] if arguments is None else arguments)))
