"""Runs the migrations of a service before it is explored.

The folder of the command decides which tool it is: `manage.py` is Django's, `alembic.ini` or a table `tool.alembic` in
`pyproject.toml` is Alembic's. The tool runs in a separate process, with this interpreter, as a person would run it.
Migrations are not part of the exploration: they stay when it ends.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

from clew.errors import DefinitionError, SystemSetupError

_COMMANDS = {
    "django": ("manage.py", "migrate", "--no-input"),
    "alembic": ("-m", "alembic", "upgrade", "head"),
}


def run_migrations(folder: Path | None = None) -> None:
    """Apply the pending migrations of the service in a folder."""
    folder = folder or Path.cwd()
    tools = _tools(folder)
    if len(tools) != 1:
        found = "both manage.py and Alembic's settings" if tools else "neither manage.py nor alembic.ini"
        raise DefinitionError(
            f"migrate: {folder} has {found}; run the migrations yourself, and leave migrate out"
        )
    words = _COMMANDS[tools[0]]
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode:
        lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise SystemSetupError(
            f"migrate: python {' '.join(words)} failed: {lines[-1] if lines else f'exit code {done.returncode}'}; "
            "run it yourself to see all of its output"
        )


def _tools(folder: Path) -> list[str]:
    found = ["django"] if (folder / "manage.py").is_file() else []
    project = folder / "pyproject.toml"
    settings = tomllib.loads(project.read_text()) if project.is_file() else {}
    if (folder / "alembic.ini").is_file() or "alembic" in settings.get("tool", {}):
        found.append("alembic")
    return found
