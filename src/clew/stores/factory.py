"""Opening stores and key-value tables by their URLs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from clew.errors import StoreError
from clew.stores.kv import KeyValueTable, check_key
from clew.stores.protocol import Store


def open_table(store: Any, name: str) -> KeyValueTable:
    """The shelf of that name in a store, made if it is not there.

    Args:
        store: None for one that lives in memory and ends with the process; a path for a SQLite file (made if
            it is not there); ``postgresql://...``; or a store object: the shelf then lies in the same place.
        name: Text; what lies under other names is not seen.
    """
    if type(name) is not str or not name:
        raise StoreError(f"a shelf's name is a text, not {name!r}")
    check_key(name)
    if store is None:
        from clew.stores.memory.kv import MemoryRows, MemoryTable

        return MemoryTable(name, MemoryRows())
    if isinstance(store, str) and store.startswith(("postgresql://", "postgres://")):
        from clew.stores.postgres.kv import open_postgres_table

        return open_postgres_table(store, name)
    if isinstance(store, str | os.PathLike) and "://" not in str(store):
        from clew.stores.sqlite.kv import SQLiteKeyValueTable

        return SQLiteKeyValueTable(store, name)
    return _within(store, name)


def _within(store: Any, name: str) -> KeyValueTable:
    from clew.stores.memory.store import MemoryStore

    if isinstance(store, MemoryStore):
        from clew.stores.memory.kv import MemoryTable, rows_of

        return MemoryTable(name, rows_of(store, name))
    from clew.stores.sqlite.store import SQLiteStore

    if isinstance(store, SQLiteStore):
        from clew.stores.sqlite.kv import SQLiteKeyValueTable

        return SQLiteKeyValueTable(store.path, name, *store._options)
    from clew.stores.postgres.store import PostgresStore

    if isinstance(store, PostgresStore):
        from clew.stores.postgres.kv import PostgresKeyValueTable

        return PostgresKeyValueTable(store._link, name)
    raise StoreError(
        f"{store!r} is no place for a shelf; give None, a path, postgresql://..., a MemoryStore, a SQLiteStore or a "
        "PostgresStore"
    )


def open_store(address: str | os.PathLike[str], *, create: bool = True) -> Store:
    """The store at an address. Without `create` it has to be there."""
    text = os.fspath(address)
    if text.startswith(("postgresql://", "postgres://")):
        try:
            from clew.stores import PostgresStore
        except ModuleNotFoundError as error:
            raise StoreError(
                f"PostgreSQL needs a driver, and {error.name!r} is not installed; pip install 'clew[postgres]'"
            ) from error
        return PostgresStore(text)
    if "://" in text:
        raise StoreError(f"{text!r} is no store; give a file, or postgresql://...")
    from clew.stores import SQLiteStore

    if not create and not Path(text).is_file():
        raise StoreError(
            f"there is no store {text!r}; name it with --store or CLEW_STORE, or start a run there"
        )
    return SQLiteStore(text)
