"""Stores for runs: one protocol, one conformance suite, three stores (memory, SQLite, PostgreSQL).

The SQLite and PostgreSQL stores are imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from clew.stores.memory.store import MemoryStore
from clew.stores.protocol import (
    LogEntry,
    Message,
    Owner,
    QueueCount,
    QueueEntry,
    QueueListener,
    RunRow,
    Statement,
    Store,
    TakenRun,
    ThreadMove,
    WorkerRow,
    WouldWait,
)

if TYPE_CHECKING:
    from clew.stores.postgres.store import PostgresStore
    from clew.stores.sqlite.store import SQLiteStore

__all__ = [
    "LogEntry",
    "MemoryStore",
    "Message",
    "Owner",
    "PostgresStore",
    "QueueCount",
    "QueueEntry",
    "QueueListener",
    "RunRow",
    "SQLiteStore",
    "Statement",
    "Store",
    "TakenRun",
    "ThreadMove",
    "WorkerRow",
    "WouldWait",
]

_LATER = {"PostgresStore": "clew.stores.postgres.store", "SQLiteStore": "clew.stores.sqlite.store"}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
