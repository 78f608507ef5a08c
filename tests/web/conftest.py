"""A filled store for each test, and clients of a server over it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from clew import SQLiteStore
from clew.web.server import create_app
from tests.web.filled import fill

CHANGE = {"clew-request": "1"}


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("web") / "filled.db"
    fill(place)
    return place


@pytest.fixture
def place(filled: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(filled, tmp_path / "runs.db"))


@pytest.fixture
def store(place: Path) -> Iterator[SQLiteStore]:
    opened = SQLiteStore(place)
    yield opened
    opened.close()


@pytest.fixture
def client(store: SQLiteStore, place: Path) -> Iterator[TestClient]:
    with TestClient(create_app(store, address=str(place)), base_url="http://localhost:8790") as made:
        made.headers.update(CHANGE)
        yield made
