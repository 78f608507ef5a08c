"""Checks of a log, and of a graph against the log of its run."""

from __future__ import annotations

__all__: list[str] = []
