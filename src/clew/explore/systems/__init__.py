"""Systems that the explorer can checkpoint and roll back: databases, servers, directories, and fakes held in memory.

Each is imported when it is first asked for, so that a driver is needed only by whoever uses it.
"""

from __future__ import annotations

import importlib
from typing import Any

_WHERE = {
    "FileSystem": "files",
    "HTTPFake": "http_fake",
    "MemoryClock": "memory",
    "MemoryMail": "memory",
    "MemoryQueue": "memory_queue",
    "MemoryStorage": "memory",
    "PostgresSystem": "postgres",
    "RedisSystem": "redis",
    "Replayed": "replayed",
    "RunSystem": "run",
    "SQLiteSystem": "sqlite",
}

__all__ = sorted(_WHERE)


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_WHERE[name]}"), name)


def __dir__() -> list[str]:
    return __all__
