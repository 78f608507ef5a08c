"""Workers: processes that execute the runs of a queue."""

from __future__ import annotations

__all__: list[str] = []
