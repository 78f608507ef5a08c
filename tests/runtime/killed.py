"""What a crash leaves behind, without one: the file as it is on disk at this moment, which nobody owns."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from clew import SQLiteStore


def as_if_killed(file: Path) -> SQLiteStore:
    """The store that a process which was killed now would leave."""
    number = len(list(file.parent.glob("*.left")))
    left = file.parent / f"{number}.left"
    with closing(sqlite3.connect(file)) as there, closing(sqlite3.connect(left)) as here:
        there.backup(here)
    large = Path(f"{file}-blobs")
    if large.exists():
        shutil.copytree(large, f"{left}-blobs")
    return SQLiteStore(left)
