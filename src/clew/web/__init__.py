"""The page and its HTTP API: ``clew serve``. It needs the extra ``clew[web]``."""

from __future__ import annotations

__all__: list[str] = []
