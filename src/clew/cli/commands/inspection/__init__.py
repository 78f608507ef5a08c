"""The commands that show runs, threads and graphs."""

from __future__ import annotations

__all__: list[str] = []
