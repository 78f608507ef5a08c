"""Behind a pooler, a connection has no state between two transactions; and names do not depend on the search path."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from secrets import token_hex
from typing import Any

import psycopg
import pytest

from clew import Context, Engine, Graph, node
from clew.errors import RunOwnedError, StoreError
from clew.stores import LogEntry, PostgresStore, QueueEntry, RunRow, Statement, conformance
from clew.stores.postgres.kv import PostgresKeyValueTable
from tests.stores.bouncers import bouncer_program, pgbouncer
from tests.stores.processes import step
from tests.stores.servers import PostgresServer

STATE = """
    SELECT (SELECT count(*) FROM pg_prepared_statements),
        (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()),
        (SELECT array_agg(name ORDER BY name) FROM pg_settings WHERE source = 'session'),
        (SELECT count(*) FROM pg_listening_channels()), current_setting('search_path'),
        current_setting('transaction_isolation')
"""


@pytest.fixture
def store(server: PostgresServer) -> Iterator[PostgresStore]:
    store = PostgresStore(server.dsn, schema=f"t_{token_hex(6)}", pooler=True)
    yield store
    store.close()


def use(store: PostgresStore) -> None:
    """Everything that a store does, more often than a statement needs to be prepared."""
    for n in range(8):
        run_id = f"r{n}"
        store.create(RunRow(run_id, structure="s", attributes={"a": "b"}), queue=QueueEntry())
        (taken,) = store.take("me", structures=["s"], queues=["default"], limit=1, lease=3600.0)
        store.append(run_id, [step(1)], taken.fence)
        store.append(run_id, [step(2), LogEntry("call", "p", 0, b"x", b"x")], taken.fence)
        store.append(run_id, [step(3)], taken.fence, statements=[Statement("SELECT 1")])
        store.send(run_id, "m", "signal", b"x")
        store.renew("me", lease=3600.0)
        store.page(attributes={"a": "b"})
        assert store.owner(run_id) is not None
        assert store.change_mark(run_id, ("call",))
        store.cache(f"key {n}", "node", b"x")
        store.update(run_id, status="completed", updated=1.0, error=None, fence=taken.fence, release=True)
    assert (store.expire(), len(store.workers()), store.queues()) == (0, 1, [])
    table = PostgresKeyValueTable(store._link, "t")
    table.write([("k", b"v")])
    assert table.read("k") == b"v"


def test_a_connection_has_no_state(server: PostgresServer, store: PostgresStore) -> None:
    use(store)
    (session,) = store._link.pool.sessions
    with psycopg.connect(server.dsn, autocommit=True) as fresh:
        expected = fresh.execute(STATE).fetchone()
    with session.db.cursor() as cursor:
        found: Any = psycopg.Cursor.execute(cursor, STATE, prepare=False).fetchone()
    assert found == expected
    assert found[:2] == (0, 0)


@pytest.mark.parametrize("pooler", [False, True])
def test_no_name_depends_on_the_search_path(server: PostgresServer, pooler: bool) -> None:
    schema = f"T \"%s' {token_hex(4)}"  # any name will do
    dsn = f"{server.dsn} options='-c search_path=pg_catalog'"
    store = PostgresStore(dsn, schema=schema, pooler=pooler)
    use(store)
    store.delete("r0")
    assert list(store.check()) == []
    store.close()
    again = PostgresStore(dsn, schema=schema, pooler=pooler)
    assert len(again.rows()) == 7
    again.close()


def test_an_owner_is_dead_when_its_lease_has_expired(server: PostgresServer, store: PostgresStore) -> None:
    schema = store._link._schema
    store.create(RunRow("r"), owner="me", lease=1.0)
    store.close()  # nobody notices
    other = PostgresStore(server.dsn, schema=schema, pooler=True)
    began = time.monotonic()
    while True:
        try:
            other.claim("r", "other", lease=3600.0)
            break
        except RunOwnedError:
            assert time.monotonic() - began < 60.0
    other.close()


def test_a_server_with_another_isolation_is_refused(server: PostgresServer) -> None:
    dsn = f"{server.dsn} options='-c default_transaction_isolation=serializable'"
    with pytest.raises(StoreError, match="default_transaction_isolation"):
        PostgresStore(dsn, schema=f"t_{token_hex(6)}", pooler=True)


@pytest.fixture(scope="module")
def bouncer(server: PostgresServer) -> Iterator[str]:
    """The address of a real PgBouncer in transaction mode."""
    with pgbouncer(server) as address:
        yield address


@pytest.mark.parametrize("check", conformance.checks)
def test_a_store_behind_pgbouncer(
    check: conformance.Check, server: PostgresServer, request: pytest.FixtureRequest
) -> None:
    """Without PgBouncer, a store on the server itself, which follows the rules of one behind a pooler."""
    address = request.getfixturevalue("bouncer") if bouncer_program() else server.dsn
    schema = f"t_{token_hex(6)}"
    check(lambda: PostgresStore(address, schema=schema, pooler=True))


def test_runs_behind_pgbouncer(bouncer: str) -> None:
    @node(output="y")
    def act(x: int, ctx: Context) -> int:
        return ctx.record("call", lambda: x + 1)

    store = PostgresStore(bouncer, schema=f"t_{token_hex(6)}", pooler=True)
    found: list[str] = []
    with Engine(Graph([act]), store=store) as engine:

        def run(number: int) -> None:
            found.extend(engine.run({"x": n}, run_id=f"{number}.{n}").status for n in range(15))

        threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == ["completed"] * 120
        assert list(store.check()) == []


def test_an_engine_runs_behind_a_pooler(store: PostgresStore) -> None:
    @node(output="y")
    def act(x: int) -> int:
        return x + 1

    with Engine(Graph([act]), store=store) as engine:
        assert engine.run({"x": 1}, run_id="r")["y"] == 2
        assert engine.resume("r")["y"] == 2
