"""What a run reports while it executes: events, observers, progress, log records."""

from __future__ import annotations

__all__: list[str] = []
