"""What the guard lets through is executed, on connections that could do anything: the guard alone is on trial.

After each query the database must be what it was, and nothing may have been read that is forbidden: the forbidden table
holds a number that occurs nowhere else.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import duckdb
import psycopg
import pytest

from clew_nl2sql.errors import Nl2sqlError
from clew_nl2sql.planner.catalog import Catalog, Column, Table
from clew_nl2sql.sql.guard import check
from nl2sql.tests.sql.hostile import COLUMNS, Hostile

CANARY = 770_077_077
HIDDEN = frozenset({"salaries", "salaries_view", "vault.keys", "vault.orders", "desk.salaries"})
SCHEMA = (
    "CREATE TABLE orders (id INT, customer_id INT, amount INT, day TEXT);",
    "CREATE TABLE customers (id INT, name TEXT);",
    "CREATE TABLE salaries (id INT, amount INT);",
    "CREATE VIEW salaries_view AS SELECT * FROM salaries;",
    "INSERT INTO orders VALUES (1, 1, 5, '2024-05-01'), (2, 2, 7, NULL), (3, 1, 2, 'x');",
    "INSERT INTO customers VALUES (1, 'ann'), (2, 'bob');",
    f"INSERT INTO salaries VALUES (1, {CANARY});",
)


class Place(Protocol):
    """A database on which everything is allowed."""

    def execute(self, sql: str) -> list[Any]: ...
    def state(self) -> str: ...


class SQLite:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "data.db"
        with sqlite3.connect(self.path) as db:
            db.executescript("".join(SCHEMA))
        db.close()

    def execute(self, sql: str) -> list[Any]:
        db = sqlite3.connect(self.path)
        try:
            found = db.execute(sql).fetchmany(50)
            db.commit()
            return found
        except (sqlite3.Error, sqlite3.Warning):
            return []
        finally:
            db.close()

    def state(self) -> str:
        return _files(self.folder) + hashlib.sha256(self.path.read_bytes()).hexdigest()


class DuckDB:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "notes.csv").write_text(f"a\n{CANARY}\n")
        self.db = duckdb.connect(str(folder / "data.duckdb"))
        self.db.execute("".join(SCHEMA) + "CREATE SEQUENCE numbers;")
        self.db.execute("CHECKPOINT")
        self.db.execute(f"SET file_search_path = '{folder}'")

    def execute(self, sql: str) -> list[Any]:
        try:
            found: list[Any] = self.db.execute(sql).fetchmany(50)
            return found
        except duckdb.Error:
            return []

    def state(self) -> str:
        asked = (
            "SELECT table_name FROM duckdb_tables() ORDER BY 1",
            "SELECT view_name FROM duckdb_views() WHERE NOT internal ORDER BY 1",
            "SELECT sequence_name, last_value FROM duckdb_sequences()",
            "SELECT database_name FROM duckdb_databases() ORDER BY 1",
            "SELECT column_name FROM duckdb_columns() WHERE NOT internal ORDER BY 1",
            "SELECT * FROM orders ORDER BY ALL",
            "SELECT * FROM customers ORDER BY ALL",
            "SELECT * FROM salaries ORDER BY ALL",
        )
        return _files(self.folder) + "\n".join(str(self.execute(sql)) for sql in asked)


class PostgreSQL:
    def __init__(self, address: str) -> None:
        self.db = psycopg.connect(address, autocommit=True, prepare_threshold=None)
        self.db.execute("".join(SCHEMA) + "CREATE SEQUENCE numbers;")
        self.db.execute(
            "CREATE FUNCTION touch() RETURNS INT LANGUAGE sql AS 'UPDATE orders SET amount = 0 RETURNING 1';"
            "CREATE FUNCTION touch(orders) RETURNS INT LANGUAGE sql AS 'UPDATE orders SET amount = 0 RETURNING 1';"
            "CREATE FUNCTION touch(customers) RETURNS INT LANGUAGE sql AS 'SELECT max(amount) FROM salaries';"
        )
        self.db.execute(
            "CREATE SCHEMA vault; CREATE SCHEMA desk;"
            "CREATE TABLE vault.orders AS SELECT * FROM orders; CREATE TABLE desk.orders AS SELECT * FROM orders;"
            "CREATE TABLE vault.keys AS SELECT * FROM salaries; CREATE TABLE desk.salaries AS SELECT * FROM salaries;"
            f"INSERT INTO vault.orders VALUES ({CANARY}, {CANARY}, {CANARY}, '{CANARY}')"
        )
        self.db.execute("SET statement_timeout = 60000")
        self.db.execute("SET lock_timeout = 500")

    def execute(self, sql: str) -> list[Any]:
        try:
            with self.db.cursor() as cursor:
                cursor.execute(sql)
                return cursor.fetchmany(50) if cursor.description else []
        except psycopg.Error:
            return []
        finally:
            self.db.rollback()

    def state(self) -> str:
        asked = (
            "SELECT relname, relkind FROM pg_class WHERE relnamespace = 'public'::regnamespace ORDER BY 1",
            "SELECT attname FROM pg_attribute WHERE attrelid = 'orders'::regclass ORDER BY 1",
            "SELECT last_value, is_called FROM numbers",
            "SELECT count(*) FROM pg_largeobject_metadata",
            "SELECT name, setting FROM pg_settings ORDER BY 1",
            "SELECT count(*) FROM pg_locks JOIN pg_database AS d ON d.oid = database "
            "WHERE locktype = 'advisory' AND datname = current_database()",  # sessions of other tests may be ending
            "SELECT count(*) FROM pg_prepared_statements",
            "SELECT * FROM orders ORDER BY 1, 2, 3, 4",
            "SELECT * FROM customers ORDER BY 1, 2",
            "SELECT * FROM salaries",
            "SELECT * FROM desk.orders ORDER BY 1, 2, 3, 4",
        )
        return "\n".join(str(self.db.execute(sql).fetchall()) for sql in asked)


def _files(folder: Path) -> str:
    return " ".join(sorted(path.name for path in folder.iterdir() if not path.name.endswith(".wal")))


@pytest.fixture
def make(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str], Place]]:
    monkeypatch.chdir(tmp_path)  # where files would be written
    opened: list[Any] = []

    def made(dialect: str) -> Place:
        if dialect == "sqlite":
            return SQLite(tmp_path)
        place = (
            DuckDB(tmp_path) if dialect == "duckdb" else PostgreSQL(request.getfixturevalue("new_database")())
        )
        opened.append(place.db)
        return place

    yield made
    for connection in opened:
        connection.close()


def visible(dialect: str) -> Catalog:
    tables = [
        Table(name=name, columns=tuple(Column(name=column) for column in columns))
        for name, columns in COLUMNS.items()
    ]
    if dialect == "postgres":
        columns = tuple(Column(name=column) for column in COLUMNS["orders"])
        tables.append(Table(name="desk.orders", schema="desk", columns=columns))
    return Catalog(tables=tuple(tables), dialect=dialect)


def campaign(place: Place, dialect: str, seed: int, count: int) -> tuple[int, int]:
    """Try so many proposals; how many passed the guard, and how many of those gave rows."""
    catalog = visible(dialect)
    before = place.state()
    hostile = Hostile(dialect, seed)
    passed = answered = 0
    for _ in range(count):
        proposal = hostile.text()
        try:
            query = check(proposal, catalog, HIDDEN)
        except Nl2sqlError:
            continue
        passed += 1
        rows = place.execute(query.sql)
        answered += bool(rows)
        assert str(CANARY) not in str(rows), f"{proposal!r} read what is forbidden, as {query.sql!r}"
        assert place.state() == before, f"{proposal!r} changed something, as {query.sql!r}"
    return passed, answered


@pytest.mark.parametrize("dialect", ["sqlite", "duckdb", "postgres"])
def test_nothing_that_passes_changes_anything_or_reads_what_is_forbidden(
    make: Callable[[str], Place], dialect: str
) -> None:
    passed, answered = campaign(make(dialect), dialect, seed=1, count=700)
    # a search that passes nothing, or only what the database refuses, would show nothing
    assert passed > 200
    assert answered > 100


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 6))
@pytest.mark.parametrize("dialect", ["sqlite", "duckdb", "postgres"])
def test_a_long_search_finds_nothing_either(make: Callable[[str], Place], dialect: str, seed: int) -> None:
    passed, _ = campaign(make(dialect), dialect, seed, count=6_000)
    assert passed > 1_500


@pytest.mark.parametrize("dialect", ["sqlite", "duckdb", "postgres"])
def test_the_search_would_find_a_hole(
    make: Callable[[str], Place], dialect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the guard the same search ends at once."""
    from clew_nl2sql.sql.guard import CheckedQuery

    def nothing_refused(proposal: str, catalog: Catalog, hidden: frozenset[str]) -> CheckedQuery:
        return CheckedQuery(sql=proposal, dialect=catalog.dialect, tables=(), tree=None)

    monkeypatch.setattr("nl2sql.tests.sql.test_executed.check", nothing_refused)
    with pytest.raises(AssertionError, match=r"changed something|read what is forbidden"):
        campaign(make(dialect), dialect, seed=1, count=700)
