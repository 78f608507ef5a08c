"""Questions that continue earlier ones, and the readings that a person chose."""

from __future__ import annotations

__all__: list[str] = []
