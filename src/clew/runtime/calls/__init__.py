"""Calls: what a node is called with, its context, and its recorded calls."""

from __future__ import annotations

__all__: list[str] = []
