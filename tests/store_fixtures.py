"""The stores that a test runs on, one after the other.

A test module takes one of these as its fixture: ``store = local_store``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from clew import MemoryStore, SQLiteStore
from clew.stores import Store


@pytest.fixture(params=["memory", "sqlite"])
def local_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    yield from _opened(request, tmp_path)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def every_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    yield from _opened(request, tmp_path)


def _opened(request: pytest.FixtureRequest, folder: Path) -> Iterator[Store]:
    made: Store
    if request.param == "memory":
        made = MemoryStore()
    elif request.param == "sqlite":
        made = SQLiteStore(folder / "runs.db")
    else:
        made = request.getfixturevalue("open_postgres")()
    yield made
    made.close()
