"""What the runtime needs of its process: clock, threads, event loops, forks, crash points."""

from __future__ import annotations

__all__: list[str] = []
