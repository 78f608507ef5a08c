"""How requests reach a service, in this process or over HTTP."""

from __future__ import annotations

__all__: list[str] = []
