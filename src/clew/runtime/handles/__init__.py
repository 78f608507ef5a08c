"""Handles: follow and steer runs of this process and of others."""

from __future__ import annotations

__all__: list[str] = []
