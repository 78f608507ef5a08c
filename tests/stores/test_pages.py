"""A page is read in the order of an index, however many runs there are."""

from __future__ import annotations

from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest

from clew.stores import PostgresStore, SQLiteStore
from clew.stores.pages import page_statement
from clew.stores.postgres.reading import PAGE
from tests.stores.servers import PostgresServer

RUNS = 10_000
SELECTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "all": ({}, "runs_by_created"),
    "a status": ({"status": "failed"}, "runs_by_status"),
    "a graph": ({"graph": "g7"}, "runs_by_"),
    "an attribute": ({"attributes": {"tenant": "t7"}}, "attributes"),
    "two attributes": ({"attributes": {"tenant": "t7", "kind": "k1"}}, "attributes"),
    "a time": ({"after": 9000.0, "before": 9500.0}, "runs_by_created"),
    "an attribute and a time": ({"attributes": {"tenant": "t7"}, "before": 5000.0}, "attributes"),
}
NUMBERS = f"WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {RUNS})"
ROWS = """
    INSERT INTO {schema}runs ({key}run_id, status, created, updated, graph, seed, structure, target, attributes)
    SELECT {same}'r' || n, CASE WHEN n % 100 = 0 THEN 'failed' ELSE 'completed' END, n, n, 'g' || (n % 50), '0', '', '',
        '{{"tenant":"t' || (n % 20) || '"}}' FROM numbers
"""
NAMED = """
    INSERT INTO {schema}attributes (name, value, created, run)
    SELECT 'tenant', 't' || (cast(created AS integer) % 20), created, id FROM {schema}runs
    UNION ALL SELECT 'kind', 'k' || (cast(created AS integer) % 3), created, id FROM {schema}runs
"""


def statements(key: str, same: str, schema: str) -> list[str]:
    """What fills a store with runs."""
    rows = ROWS.format(key=key, same=same, schema=schema)
    return [f"{NUMBERS} {rows}", NAMED.format(schema=schema), "ANALYZE"]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pages") / "runs.db"
    store = SQLiteStore(path)
    for statement in statements("", "", ""):
        store._db.execute(statement)
    store.close()
    return path


@pytest.fixture(scope="module")
def schema(server: PostgresServer) -> str:
    name = f"t_{token_hex(6)}"
    store = PostgresStore(server.dsn, schema=name)
    for statement in statements("key, ", "'r' || n, ", "@."):
        store._link.run("", lambda cursor, _, statement=statement: cursor.execute(statement))
    store.close()
    return name


def second_page(store: Any, options: dict[str, Any]) -> str | None:
    rows, cursor = store.page(limit=2, **options)
    assert len(rows) == 2
    return cursor


@pytest.mark.parametrize("what", SELECTIONS)
@pytest.mark.parametrize("order", ["newest", "oldest"])
def test_sqlite_reads_a_page_by_an_index(file: Path, what: str, order: Any) -> None:
    options, index = SELECTIONS[what]
    store = SQLiteStore(file)
    for cursor in (None, second_page(store, {**options, "order": order})):
        statement, values, _ = page_statement(limit=50, order=order, cursor=cursor, **options)
        plan = [line for *_, line in store._db.execute(f"EXPLAIN QUERY PLAN {statement}", values)]
        assert not any("TEMP B-TREE" in line for line in plan), plan  # it is in order already
        assert index in plan[0] or "PRIMARY KEY" in plan[0], plan
        assert not any(line == "SCAN runs" for line in plan), plan
    store.close()


@pytest.mark.parametrize("what", SELECTIONS)
@pytest.mark.parametrize("order", ["newest", "oldest"])
def test_postgres_reads_a_page_by_an_index(
    server: PostgresServer, schema: str, what: str, order: Any
) -> None:
    options, index = SELECTIONS[what]
    store = PostgresStore(server.dsn, schema=schema)
    for cursor in (None, second_page(store, {**options, "order": order})):
        statement, values, _ = page_statement(limit=50, order=order, cursor=cursor, **options, **PAGE)
        explain = f"EXPLAIN {statement.replace('?', '%s')}"
        plan = [
            line
            for (line,) in store._link.run(
                "", lambda given, _, explain=explain, values=values: given.execute(explain, values).fetchall()
            )
        ]
        assert not any("Seq Scan" in line for line in plan), plan
        assert any(index in line for line in plan), plan
    store.close()


def test_the_queue_is_read_by_an_index(tmp_path: Path) -> None:
    from clew.stores.sqlite.queue import _NEXT, _READY

    store = SQLiteStore(tmp_path / "runs.db")
    for statement, values in ((_NEXT, ("q", "s", 0)), (_READY, ("q", "s", 0, 1.0, 5))):
        plan = [line for *_, line in store._db.execute(f"EXPLAIN QUERY PLAN {statement}", values)]
        assert all("queue_by_due" in line for line in plan), plan
    store.close()
