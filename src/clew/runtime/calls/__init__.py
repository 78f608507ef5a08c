"""Call nodes: their arguments, their context and their recorded calls."""

from __future__ import annotations

__all__: list[str] = []
