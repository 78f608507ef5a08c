"""A spill file: bytes that are moved out of memory into a temporary file, and read back on demand.

The file only grows. It is deleted with the last reference to it.
"""

from __future__ import annotations

import tempfile


class SpillFile:
    """A temporary file of pieces."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="clew-explore-")  # noqa: SIM115 - as long as the attic
        self.size = 0

    def put(self, data: bytes) -> tuple[int, int]:
        """Put a piece there; where it is."""
        self._file.seek(self.size)
        self._file.write(data)
        place = (self.size, len(data))
        self.size += len(data)
        return place

    def get(self, place: tuple[int, int]) -> bytes:
        """The piece at a place."""
        self._file.seek(place[0])
        return self._file.read(place[1])

    def __del__(self) -> None:
        self._file.close()
