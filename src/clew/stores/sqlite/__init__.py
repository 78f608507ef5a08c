"""A store in a SQLite file."""

from __future__ import annotations

__all__: list[str] = []
