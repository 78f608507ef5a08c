"""``clew demo``: run the demo, and serve the page that shows its runs."""

from __future__ import annotations

import shlex
import subprocess
import sys
from typing import Annotated

from clew.cli.commands.serve import DEFAULT_PORT, serve_store
from clew.cli.declarations import flag, option
from clew.cli.output import say, say_line
from clew.cli.recipes import examples_folder

_FILE = "clew-demo.db"
_SHOWN = (
    ("a run with a slow branch", "runs/triage"),
    ("the run that was killed", "runs/story"),
    ("the two stories", "compare?a=story&b=loud-story"),
)


def demo(
    store: Annotated[
        str, option("--store", "FILE", "SQLite file for the runs; those of an earlier demo are removed.")
    ] = _FILE,
    quick: Annotated[bool, flag("--quick", "Do not slow the nodes down.")] = False,
    page: Annotated[bool, flag("--serve", "Start the page at the end.")] = False,
    port: Annotated[
        int | None,
        option(
            "--port", "N", f"Port of the page; 0 for a free one. [default: {DEFAULT_PORT}]", min=0, max=65_535
        ),
    ] = None,
) -> int:
    """Run example graphs; kill, resume, replay and fork their runs.

    \b
    Examples:
      clew demo
      clew demo --serve
      clew demo --quick --store other.db

    The demo needs no network. Its runs stay in a SQLite file; inspect them with `clew serve` or `clew show`.
    """
    program = [sys.executable, str(examples_folder("demo") / "triage.py"), "--store", store]
    code = subprocess.run([*program, *(["--quick"] if quick else [])], check=False).returncode
    if code:
        return code if code > 0 else 1
    if page:
        serve_store(store, port=port, pages=_SHOWN)
        return 0
    place = DEFAULT_PORT if port is None else port
    say("")
    say(f"The runs are in {store}. See them in a browser:")
    say(f"  clew serve --store {shlex.quote(store)} --port {place}")
    for what, path in _SHOWN:
        say_line(f"  {what}: http://127.0.0.1:{place}/{path}")
    return 0
