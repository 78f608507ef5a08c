"""A store whose large tables are partitioned by run, as `docs/scale.md` says."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from secrets import token_hex

import psycopg
import pytest

from clew import Context, Engine, Graph, Worker, node
from clew.stores import PostgresStore, conformance
from tests.stores.postgres.test_pooler import use
from tests.stores.servers import PostgresServer

PAGE = Path(__file__).parents[3] / "docs" / "scale.md"
TABLES = ("steps", "log", "inbox", "attributes", "uses", "origins", "queue")
CHECKS = conformance.checks[::12]


@pytest.fixture
def partitioned(server: PostgresServer) -> Callable[[], PostgresStore]:
    """Opens stores on one new schema, in which the statements of the page were executed for each table."""
    schema = f"t_{token_hex(6)}"
    PostgresStore(server.dsn, schema=schema).close()  # creates the tables
    (script,) = re.findall(r"```sql\n(.*?)```", PAGE.read_text(), re.DOTALL)
    with psycopg.connect(server.dsn, autocommit=True) as db:
        for table in TABLES:
            statements = (
                re.sub(r"\bsteps\b", table, script)
                .replace("steps_", f"{table}_")
                .replace("clew.", f"{schema}.")
            )
            db.execute(statements)
    return lambda: PostgresStore(server.dsn, schema=schema)


def test_runs_are_stored_in_partitions(
    server: PostgresServer, partitioned: Callable[[], PostgresStore]
) -> None:
    @node(output="b")
    def act(a: int, ctx: Context) -> int:
        return ctx.record("call", lambda: a + 1)

    graph, store = Graph([act]), partitioned()
    use(store)
    with Engine(graph, store=store) as engine:
        handles = [engine.submit({"a": n}, attributes={"tenant": "x"}) for n in range(10)]
        Worker(graph, store=store).run(until_idle=True)
        assert [handle.result(timeout=60)["b"] for handle in handles] == list(range(1, 11))
        assert len(engine.runs(attributes={"tenant": "x"})) == 10
        engine.delete(handles[0].run_id)
        assert list(store.check()) == []
    schema = store._link._schema
    with psycopg.connect(server.dsn) as db:
        first = db.execute(f"SELECT count(*) FROM {schema}.steps_1").fetchone()
    assert first is not None
    assert first[0] >= 10
    store.close()


@pytest.mark.parametrize("check", CHECKS)
def test_a_partitioned_store_conforms(
    check: conformance.Check, partitioned: Callable[[], PostgresStore]
) -> None:
    check(partitioned)
