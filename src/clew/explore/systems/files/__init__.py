"""A folder of files as a system."""

from __future__ import annotations

__all__: list[str] = []
