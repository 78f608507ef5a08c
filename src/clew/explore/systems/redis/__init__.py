"""A Redis or Valkey server as a system."""

from __future__ import annotations

__all__: list[str] = []
