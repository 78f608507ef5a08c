"""``clew demo``: run the demo graph in its own process."""

from __future__ import annotations

import subprocess
import sys

import typer


def register(app: typer.Typer) -> None:
    """Register the command."""
    app.command("demo", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(demo)


def demo(context: typer.Context) -> int:
    """Show a graph at work, live, and what its run leaves behind."""
    return subprocess.run([sys.executable, "-m", "clew.demo.triage", *context.args], check=False).returncode
