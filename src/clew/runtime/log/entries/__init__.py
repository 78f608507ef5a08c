"""Log entries: their kinds, and how they are encoded."""

from __future__ import annotations

__all__: list[str] = []
