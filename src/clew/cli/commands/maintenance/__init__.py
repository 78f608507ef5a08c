"""The commands that check, copy and delete what a store holds."""

from __future__ import annotations

__all__: list[str] = []
