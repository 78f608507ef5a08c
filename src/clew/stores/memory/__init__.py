"""A store in memory."""

from __future__ import annotations

__all__: list[str] = []
