"""What was seen of a system at one moment.

`data` is the part that identifies a state; it must have a canonical encoding. `metadata` (timings, sizes, what helps a
reader) never counts. A system that can say cheaply whether its data is the same as before gives a `digest` of it: equal
digests mean equal data, so the explorer neither encodes nor compares the data again.
"""

from __future__ import annotations

from typing import Any

import msgspec


class Observation(msgspec.Struct, frozen=True):
    """What one system showed. `digest`, where given, stands for `data` in the state's identity."""

    system: str
    data: Any
    metadata: dict[str, Any] = {}
    digest: bytes | None = None
