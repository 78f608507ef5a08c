"""The search: strategies, the search loop, its journal and checkpoints, and the shrinking of paths."""

from __future__ import annotations

__all__: list[str] = []
