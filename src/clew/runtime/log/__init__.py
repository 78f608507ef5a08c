"""The log of a run: its entries, how they are written and read back, and how they are verified."""

from __future__ import annotations

__all__: list[str] = []
