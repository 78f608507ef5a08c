"""The stores on which children run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from clew import MemoryStore, SQLiteStore
from clew.stores import Store


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made: Store
    if request.param == "memory":
        made = MemoryStore()
    elif request.param == "sqlite":
        made = SQLiteStore(tmp_path / "runs.db")
    else:
        made = request.getfixturevalue("open_postgres")()
    yield made
    made.close()
