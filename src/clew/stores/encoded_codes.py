"""The code hashes of the nodes of a graph (`RunRow.codes`), encoded once for all runs of the graph."""

from __future__ import annotations

from functools import cached_property

import msgspec


class EncodedCodes(dict[str, str]):
    """Codes that do not change. Encoding them for each run took a hundredth of a durable run of 100 steps."""

    @cached_property
    def json(self) -> str:
        """These codes as JSON."""
        return msgspec.json.encode(self).decode()
