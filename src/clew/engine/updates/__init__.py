"""Updates: read from what functions returned, merged into the state, or rejected."""

from __future__ import annotations

__all__: list[str] = []
