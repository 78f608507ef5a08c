"""Open stores and key-value tables by their URLs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from clew.errors import StoreError
from clew.stores.kv import HasTables, KeyValueTable, check_key
from clew.stores.protocol import Store


def open_table(store: Any, name: str) -> KeyValueTable:
    """Open the key-value table of that name in a store; it is created if it does not exist.

    Args:
        store: None for a table in memory; the path of a SQLite file, which is created if it does not exist;
            ``postgresql://...``; or a store object.
        name: The name of the table, a non-empty string.
    """
    if type(name) is not str or not name:
        raise StoreError(f"name of a key-value table: expected a non-empty string, got {name!r}")
    check_key(name)
    if store is None:
        from clew.stores.memory.kv import MemoryTable

        return MemoryTable(name)
    if isinstance(store, str) and store.startswith(("postgresql://", "postgres://")):
        from clew.stores.postgres.kv import open_postgres_table

        return open_postgres_table(store, name)
    if isinstance(store, str | os.PathLike) and "://" not in str(store):
        from clew.stores.sqlite.kv import SQLiteKeyValueTable

        return SQLiteKeyValueTable(store, name)
    if isinstance(store, HasTables):
        return store.open_table(name)
    raise StoreError(
        f"store of a key-value table: expected None, a path, postgresql://..., a MemoryStore, a SQLiteStore or a "
        f"PostgresStore, got {store!r}"
    )


def table_names(store: Any) -> list[str]:
    """Return the names of the key-value tables in a store, sorted; nothing is created."""
    return sorted(store.table_names()) if isinstance(store, HasTables) else []


def without_password(address: str) -> str:
    """Return the address of a store without a password: it is shown in commands and errors."""
    if "://" not in address:
        return address
    scheme, _, rest = address.partition("://")
    user, at, place = rest.rpartition("@")
    place, _, options = place.partition("?")
    kept = "&".join(each for each in options.split("&") if not each.startswith("password="))
    return f"{scheme}://{user.partition(':')[0]}{at}{place}{'?' if kept else ''}{kept}"


def open_store(address: str | os.PathLike[str], *, create: bool = True, connections: int = 8) -> Store:
    """Open the store at a URL or path. Without `create`, raise StoreError if it does not exist. A server is used with
    up to a number of `connections`."""
    text = os.fspath(address)
    if text.startswith(("postgresql://", "postgres://")):
        try:
            from clew.stores import PostgresStore
        except ModuleNotFoundError as error:
            raise StoreError(
                f"PostgreSQL needs a driver, and {error.name!r} is not installed; pip install 'clew[postgres]'"
            ) from error
        return PostgresStore(text, pool_size=connections)
    if "://" in text:
        raise StoreError(f"{without_password(text)!r} is not a store URL; give a file or postgresql://...")
    from clew.stores import SQLiteStore

    if not create and Path(text).is_dir():
        raise StoreError(
            f"cannot open {text}: it is a folder; name a file in it, such as {Path(text) / 'runs.db'}"
        )
    if not create and not Path(text).is_file():
        raise StoreError(
            f"store {text!r} does not exist; name it with --store or CLEW_STORE, or start a run there"
        )
    return SQLiteStore(text)
