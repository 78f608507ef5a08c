"""Drivers execute the items of a session, in the calling thread or on an event loop."""

from __future__ import annotations

__all__: list[str] = []
