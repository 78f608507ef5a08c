"""Work on finished runs: replay, comparison, export and import, retention."""

from __future__ import annotations

__all__: list[str] = []
