"""Stores: where runs are kept. One protocol; this version has the store in memory."""

from __future__ import annotations

from clew.stores.memory import MemoryStore
from clew.stores.protocol import RunRow, Store

__all__ = ["MemoryStore", "RunRow", "Store"]
