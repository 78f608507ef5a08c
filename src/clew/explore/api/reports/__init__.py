"""The result of exploring a service, and its violations as scripts."""

from __future__ import annotations

__all__: list[str] = []
