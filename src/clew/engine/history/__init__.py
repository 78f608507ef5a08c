"""What the steps of a run say: its states, why a node ran, what keeps it from running."""

from __future__ import annotations

__all__: list[str] = []
