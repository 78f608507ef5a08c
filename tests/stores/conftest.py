"""A PostgreSQL server for a worker, started when a test asks for it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from secrets import token_hex

import pytest

from tests.stores.servers import PostgresServer


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    """A running server; tests that need one are skipped where none can start, but not in CI."""
    try:
        server = PostgresServer()
        server.start()
    except Exception as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))
    yield server
    server.remove()


@pytest.fixture
def open_postgres(server: PostgresServer) -> Callable[[], object]:
    """Opens stores on one fresh schema."""
    from clew.stores import PostgresStore

    schema = f"t_{token_hex(6)}"
    return lambda: PostgresStore(server.dsn, schema=schema)
