"""Stores that several processes can open."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest

from clew import Engine
from tests.runtime.handles.worker import GRAPHS
from tests.stores.processes import opened


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty store."""
    if request.param == "sqlite":
        return str(tmp_path / "runs.db")
    return f"{request.getfixturevalue('server').dsn}|t_{token_hex(6)}"


@pytest.fixture
def engine_on(address: str) -> Iterator[Callable[..., Engine]]:
    """Opens engines on that store."""
    engines: list[Engine] = []

    def open_engine(graph: str = "loop", **options: Any) -> Engine:
        engines.append(Engine(GRAPHS[graph], store=opened(address), **options))
        return engines[-1]

    yield open_engine
    for engine in engines:
        engine.close()
