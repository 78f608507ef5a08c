"""`help` of a store describes each of its methods."""

from __future__ import annotations

import inspect

import pytest

from clew import MemoryStore, PostgresStore, SQLiteStore
from clew.stores import Store


@pytest.mark.parametrize("store", [MemoryStore, SQLiteStore, PostgresStore])
def test_every_method_of_a_store_has_a_docstring(store: type[Store]) -> None:
    methods = inspect.getmembers(store, inspect.isfunction)
    assert [name for name, method in methods if not name.startswith("_") and not method.__doc__] == []
