"""Marks of explorations that have left their initial state, for systems that cannot hold such a mark themselves.

A database has a table for it. A key in Redis or a file in a folder would be seen by the application, so their marks are
small files in the directory for temporary files, named after what they mark. A mark of a process that still runs says
nothing: that exploration can restore its systems. Marks do not outlive that directory, and other machines do not see
them.
"""

from __future__ import annotations

import os
import tempfile
from hashlib import sha256
from pathlib import Path

from clew.explore.process_mark import lives_elsewhere, mark


class MidwayMark:
    """The mark of one system. `was_left` tells whether an ended process left one."""

    def __init__(self, place: str) -> None:
        name = f"clew-midway-{sha256(place.encode('utf-8', 'surrogateescape')).hexdigest()[:32]}"
        self._file = Path(tempfile.gettempdir()) / name
        try:
            self.was_left = not lives_elsewhere(self._file.read_text())
        except OSError:
            self.was_left = False

    def write(self, is_midway: bool) -> None:
        """Store or remove the mark; a directory that cannot be written has none."""
        try:
            if not is_midway:
                self._file.unlink(missing_ok=True)
                return
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
            with open(os.open(self._file, flags, 0o600), "w") as file:
                file.write(mark())
        except OSError:
            pass
