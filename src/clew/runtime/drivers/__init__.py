"""Drivers: they execute the items of a session, blocking or on an event loop."""

from __future__ import annotations

__all__: list[str] = []
