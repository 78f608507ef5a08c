"""Systems that the explorer can checkpoint and roll back: databases, servers, directories, and fakes in memory.

Each module is imported at the first use of its class, so only the drivers that are used must be installed.
"""

from __future__ import annotations

import importlib
from typing import Any

_WHERE = {
    "FileSystem": "files.system",
    "HTTPFake": "http.fake",
    "HTTPSession": "http.session",
    "MemoryClock": "memory.fakes",
    "MemoryMail": "memory.fakes",
    "MemoryQueue": "memory.fakes",
    "MemoryStorage": "memory.fakes",
    "PostgresSystem": "postgres.system",
    "RedisSystem": "redis.system",
    "ResettableSystem": "replay",
    "SQLiteSystem": "sqlite.system",
}

__all__ = sorted(_WHERE)


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_WHERE[name]}"), name)


def __dir__() -> list[str]:
    return __all__
