"""The demonstrations that `make demo` shows."""

from __future__ import annotations

__all__: list[str] = []
