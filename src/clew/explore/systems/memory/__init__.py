"""Systems in memory: fakes and a queue."""

from __future__ import annotations

__all__: list[str] = []
