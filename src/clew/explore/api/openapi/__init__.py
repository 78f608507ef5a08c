"""The OpenAPI document: its operations, the links between them, and the values of its schemas."""

from __future__ import annotations

__all__: list[str] = []
