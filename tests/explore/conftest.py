"""Servers for the tests of systems, started on demand."""

from __future__ import annotations

from collections.abc import Iterator
from secrets import token_hex

import pytest

from tests.explore.systems.postgres_databases import Database
from tests.explore.systems.servers import RedisServer
from tests.stores.servers import PostgresServer


@pytest.fixture
def database(server: PostgresServer) -> Iterator[Database]:
    """A new database on the PostgreSQL server of the test session."""
    import psycopg

    name = f"t_{token_hex(6)}"
    with psycopg.connect(server.dsn, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name} STRATEGY file_copy".encode())
        made = Database(server.dsn.replace("dbname=postgres", f"dbname={name}"), name)
        try:
            yield made
        finally:
            for each in reversed(made.open):
                each.close()
            admin.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)".encode())


@pytest.fixture(scope="module", params=["redis", "valkey"])
def redis_server(request: pytest.FixtureRequest) -> Iterator[RedisServer]:
    """A Redis and a Valkey server."""
    running = RedisServer(request.param)
    running.start()
    yield running
    running.remove()
