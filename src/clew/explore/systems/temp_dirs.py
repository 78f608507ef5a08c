"""Folders for what checkpoints hold on disk, in the place for temporary files.

They go with whoever made them. A process that is killed cannot take its own away: the next one that makes such a folder
does, if it can tell that the process is gone.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from clew.explore.process_mark import has_ended, mark

_MARK = "process"


def new_folder(kind: str) -> Path:
    """A folder of one's own, whose name tells what it is for."""
    prefix = f"clew-{kind}-"
    _clear(Path(tempfile.gettempdir()), prefix)
    folder = Path(os.path.realpath(tempfile.mkdtemp(prefix=prefix)))
    (folder / _MARK).write_text(mark())
    return folder


def _clear(place: Path, prefix: str) -> None:
    for folder in place.glob(f"{prefix}*"):
        try:
            if folder.lstat().st_uid == os.getuid() and has_ended((folder / _MARK).read_text()):
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:  # it has just gone, or has no mark yet
            continue
