"""Temporary directories for the contents of checkpoints.

A directory is removed with the object that owns it. A killed process cannot remove its directories; the next process
that makes one of the same kind does, if it can tell that the other process has ended.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from pathlib import Path

from clew.explore.process_mark import has_ended, mark

_MARK = "process"


def new_folder(owner: object, kind: str) -> tuple[Path, weakref.finalize[..., object]]:
    """Make a directory that is removed with its owner; return it, and the function that removes it earlier."""
    prefix = f"clew-{kind}-"
    _clear(Path(tempfile.gettempdir()), prefix)
    folder = Path(os.path.realpath(tempfile.mkdtemp(prefix=prefix)))
    (folder / _MARK).write_text(mark())
    return folder, weakref.finalize(owner, shutil.rmtree, folder, ignore_errors=True)


def _clear(directory: Path, prefix: str) -> None:
    for folder in directory.glob(f"{prefix}*"):
        try:
            if folder.lstat().st_uid == os.getuid() and has_ended((folder / _MARK).read_text()):
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:  # it has just been removed, or has no mark yet
            continue
