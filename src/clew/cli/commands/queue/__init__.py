"""The commands of queues and workers."""

from __future__ import annotations

__all__: list[str] = []
