"""The commands for people who try Clew for the first time."""

from __future__ import annotations

__all__: list[str] = []
