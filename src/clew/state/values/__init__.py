"""Values: how they are encoded, stored, compared and shown."""

from __future__ import annotations

__all__: list[str] = []
