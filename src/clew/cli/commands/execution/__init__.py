"""The commands that execute a run, or change what it does."""

from __future__ import annotations

__all__: list[str] = []
