"""A spill file: bytes that are moved out of memory into a temporary file, and read back on demand.

The file only grows. It is deleted with the last reference to it.
"""

from __future__ import annotations

import tempfile


class SpillFile:
    """A temporary file of byte strings, each addressed by its offset and length."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="clew-explore-")  # noqa: SIM115 - closed in __del__
        self.size = 0

    def put(self, data: bytes) -> tuple[int, int]:
        """Append data and return its offset and length."""
        self._file.seek(self.size)
        self._file.write(data)
        place = (self.size, len(data))
        self.size += len(data)
        return place

    def get(self, place: tuple[int, int]) -> bytes:
        """Return the data at an offset and length."""
        self._file.seek(place[0])
        return self._file.read(place[1])

    def __del__(self) -> None:
        self._file.close()
