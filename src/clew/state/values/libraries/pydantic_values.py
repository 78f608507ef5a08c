"""URLs of pydantic, as the name of the type and the text.

Rules:

- Stored data names one of the types below, which are pydantic's own; a subclass is registered as any class.
- A URL whose text does not give an equal URL, such as one with a preserved empty path, cannot be stored.
"""

from __future__ import annotations

import sys
from typing import Any

_NAMES = frozenset(
    {
        *("AnyUrl", "AnyHttpUrl", "HttpUrl", "FileUrl", "FtpUrl", "AnyWebsocketUrl", "WebsocketUrl"),
        *("PostgresDsn", "CockroachDsn", "MySQLDsn", "MariaDBDsn", "ClickHouseDsn", "SnowflakeDsn"),
        *("AmqpDsn", "RedisDsn", "MongoDsn", "KafkaDsn", "NatsDsn"),
    }
)


def is_url(pydantic: Any, cls: type) -> bool:
    """Return whether a class is one of pydantic's types of URLs. Before pydantic 2.10 these were no classes."""
    return cls.__name__ in _NAMES and cls.__module__ == "pydantic.networks"


def url_tree(url: Any) -> list[str]:
    """Return the name of the type of a URL, and its text."""
    cls, text = type(url), str(url)
    if cls(text) != url:
        raise ValueError("parsing its text does not return an equal URL; store str(url) instead")
    return [cls.__name__, text]


def read_url(tree: Any) -> Any:
    name, text = tree
    if type(name) is not str or name not in _NAMES or type(text) is not str:
        raise ValueError("a URL is stored as the name of its type and its text")
    return getattr(sys.modules["pydantic"], name)(text)
