"""An HTTP service as a system: a fake, and the server that serves it."""

from __future__ import annotations

__all__: list[str] = []
