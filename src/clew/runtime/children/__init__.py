"""Children: runs that a node starts with `ctx.run`, and what is inside a run, by path."""

from __future__ import annotations

__all__: list[str] = []
