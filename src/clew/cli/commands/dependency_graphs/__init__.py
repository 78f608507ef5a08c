"""The commands of dependency graphs."""

from __future__ import annotations

__all__: list[str] = []
