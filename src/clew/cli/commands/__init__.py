"""The commands, grouped by what they work on."""

from __future__ import annotations

__all__: list[str] = []
