"""The panes of one run."""

from __future__ import annotations

__all__: list[str] = []
