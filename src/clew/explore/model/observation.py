"""Observations: what a system shows at one moment.

`data` identifies the state and needs a canonical encoding. `metadata`, such as timings and sizes, is for readers and
never part of the identity. A system that can compute a `digest` of its data cheaply may return it: equal digests mean
equal data, so the explorer does not encode the data again.
"""

from __future__ import annotations

from typing import Any

import msgspec


class Observation(msgspec.Struct, frozen=True):
    """What one system shows. If `digest` is given, it replaces `data` in the identity of the state."""

    system: str
    data: Any
    metadata: dict[str, Any] = {}
    digest: bytes | None = None
