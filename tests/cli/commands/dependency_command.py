"""A folder with events.py in it, where commands about dependency graphs are given."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.cli.command import Folder

EVENTS = Path(__file__).parents[1] / "events.py"
SOME = '[{"id": "b"}, {"id": "a"}]'


def with_events(folder: Folder) -> Folder:
    shutil.copy(EVENTS, folder.path / "events.py")
    return folder


def told(folder: Folder, *words: str, code: int = 2) -> tuple[str, str]:
    """The two lines of an error."""
    lines = folder.clew(*words, code=code).stderr.splitlines()
    assert len(lines) == 2, lines
    assert lines[0].startswith("error: ")
    assert lines[1].startswith("hint: ")
    return lines[0], lines[1]
