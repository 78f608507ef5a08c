"""The pages close the SQLite connections that they open."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.connections import watched_connections


@pytest.fixture(scope="module", autouse=True)
def _no_leaked_connections() -> Iterator[None]:
    """Fail a module that opens a SQLite connection which nobody closes."""
    with watched_connections() as connections:
        yield
    assert connections.leaked == []
