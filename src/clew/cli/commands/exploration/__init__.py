"""The commands that explore systems, services and graphs."""

from __future__ import annotations

__all__: list[str] = []
