"""How it is explored: strategies, the search loop, its journal, and the shrinking of paths."""

from __future__ import annotations

__all__: list[str] = []
