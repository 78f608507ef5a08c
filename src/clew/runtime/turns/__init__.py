"""Turns: the runs of a thread, in the order of the calls."""

from __future__ import annotations

__all__: list[str] = []
