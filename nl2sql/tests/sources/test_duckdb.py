from __future__ import annotations

import hashlib
from datetime import datetime
from pathlib import Path

import duckdb
import msgspec
import pytest

from clew_nl2sql.errors import (
    QueryFailedError,
    QueryTimeoutError,
    RefusedQueryError,
    SecurityViolationError,
    SourceDownError,
)
from clew_nl2sql.resources import outline
from clew_nl2sql.sample_data import make_support
from clew_nl2sql.sources.duckdb import DuckDBSource
from nl2sql.tests.sources.contract import columns, query, unchecked


@pytest.fixture
def source(tmp_path: Path) -> DuckDBSource:
    make_support(tmp_path / "support.duckdb")
    return DuckDBSource(tmp_path / "support.duckdb")


def test_the_catalog_has_tables_columns_keys_and_values(source: DuckDBSource) -> None:
    catalog = source.catalog()
    assert [table.name for table in catalog.tables] == ["agents", "tickets"]
    kinds = columns(catalog, "tickets")
    assert (kinds["opened"], kinds["topic"], kinds["rating"]) == ("date", "text", "number")
    assert [(key.table, key.column, key.target_table) for key in catalog.foreign_keys] == [
        ("tickets", "agent_id", "agents")
    ]
    assert next(c for c in catalog.tables[1].columns if c.name == "id").primary_key
    assert "urgent" in next(c for c in catalog.tables[1].columns if c.name == "priority").values


def test_the_catalog_tells_views_from_tables(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "c.duckdb")) as db:
        db.execute("CREATE TABLE t (a INTEGER); CREATE VIEW v AS SELECT a FROM t")
    tables = DuckDBSource(tmp_path / "c.duckdb").catalog().tables
    assert [(table.name, table.view) for table in tables] == [("t", False), ("v", True)]


def test_comments_are_in_the_catalog(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "c.duckdb")) as db:
        db.execute(
            "CREATE TABLE t (a INTEGER); COMMENT ON TABLE t IS 'things'; COMMENT ON COLUMN t.a IS 'how many'"
        )
    table = DuckDBSource(tmp_path / "c.duckdb").catalog().tables[0]
    assert (table.comment, table.columns[0].comment) == ("things", "how many")


def test_rows_come_as_asked_for_and_no_more(source: DuckDBSource) -> None:
    result = source.run(query(source, "SELECT id, name FROM agents ORDER BY id"), max_rows=2)
    assert result.rows == ((1, "Theo"), (2, "Phaedra"))
    assert result.truncated


def test_its_own_explain_refuses_what_the_guard_cannot_know(source: DuckDBSource) -> None:
    assert "tickets" in source.explain(query(source, "SELECT * FROM tickets"))
    with pytest.raises(RefusedQueryError):
        source.explain(query(source, "SELECT id FROM agents, tickets"))


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM tickets",
        "DROP TABLE tickets",
        "CREATE TABLE x AS SELECT 1",
        "ATTACH 'x.duckdb' AS x",
        "COPY tickets TO 'out.csv'",
        "SELECT * FROM read_csv('contract.py')",
        "SELECT * FROM read_text('*')",
        "SET enable_external_access = true",
        "INSTALL httpfs",
    ],
)
def test_it_refuses_to_do_more_than_read_even_what_nobody_checked(source: DuckDBSource, sql: str) -> None:
    before = hashlib.sha256(source.path.read_bytes()).digest()
    with pytest.raises((QueryFailedError, RefusedQueryError)):
        source.run(unchecked(source, sql), max_rows=1)
    assert hashlib.sha256(source.path.read_bytes()).digest() == before


def test_a_query_that_takes_too_long_is_stopped(source: DuckDBSource) -> None:
    slow = DuckDBSource(source.path, timeout=0.2)
    endless = ", ".join(f"tickets t{n}" for n in range(7))
    with pytest.raises(QueryTimeoutError, match="limit of"):
        slow.run(query(source, f"SELECT count(*) FROM {endless} WHERE t0.rating + t6.rating > 3"), max_rows=1)


def test_a_file_that_is_not_there_or_no_database_is_down(tmp_path: Path) -> None:
    with pytest.raises(SourceDownError, match="does not exist"):
        DuckDBSource(tmp_path / "nope.duckdb").catalog()
    (tmp_path / "text.duckdb").write_text("no database" * 1000)
    with pytest.raises(SourceDownError):
        DuckDBSource(tmp_path / "text.duckdb").catalog()


def test_a_view_over_a_file_does_not_hide_the_tables(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a\n1\n")
    with duckdb.connect(str(tmp_path / "v.duckdb")) as db:
        db.execute(f"CREATE TABLE t (a INTEGER); CREATE VIEW v AS SELECT * FROM read_csv('{tmp_path}/x.csv')")
    catalog = DuckDBSource(tmp_path / "v.duckdb").catalog()
    assert [table.name for table in catalog.tables] == ["t", "v"]
    assert catalog.tables[1].columns[0].values == ()


def test_moments_with_a_time_zone_come_in_utc(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "z.duckdb")) as db:
        db.execute(
            "CREATE TABLE t (id INTEGER, moment TIMESTAMPTZ);"
            "INSERT INTO t VALUES (1, '2024-05-01 12:00:00+02'), (2, NULL)"
        )
    source = DuckDBSource(tmp_path / "z.duckdb")
    found = source.run(query(source, "SELECT id, moment FROM t ORDER BY id DESC"), 5)
    assert found.columns == ("id", "moment")
    assert found.rows == ((2, None), (1, datetime(2024, 5, 1, 10)))
    assert source.catalog().tables[0].rows == ((1, "2024-05-01T10:00:00"), (2, None))


def test_numbers_beyond_64_bits_do_not_hide_the_tables(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "h.duckdb")) as db:
        db.execute(
            f"CREATE TABLE t (h HUGEINT, f DOUBLE); INSERT INTO t VALUES ({2**100}, 'inf'), (1, 'nan')"
        )
    source = DuckDBSource(tmp_path / "h.duckdb")
    assert source.run(query(source, "SELECT max(h) FROM t"), 1).rows == ((2**100,),)
    values = source.catalog().tables[0].columns[0].values
    assert {type(value) for value in values} <= {int, float}
    msgspec.msgpack.encode(outline(source.catalog()))  # as every run stores it


def test_a_view_that_takes_too_long_is_there_without_a_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clew_nl2sql.sources.duckdb.SECONDS", 0.1)
    with duckdb.connect(str(tmp_path / "v.duckdb")) as db:
        endless = "SELECT sum(a.range * b.range) AS x FROM range(10000000) AS a, range(10000000) AS b"
        db.execute(f"CREATE VIEW one AS {endless}; CREATE VIEW two AS {endless}; CREATE TABLE t (a INTEGER)")
    assert [t.name for t in DuckDBSource(tmp_path / "v.duckdb").catalog().tables] == ["one", "t", "two"]


def test_a_macro_of_the_databases_own_is_not_called_by_a_known_name(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "m.duckdb")) as db:
        db.execute(
            "CREATE TABLE orders (name VARCHAR); INSERT INTO orders VALUES ('X'); CREATE TABLE salaries (amount INT);"
            "INSERT INTO salaries VALUES (777);"
            "CREATE MACRO Lower(x) AS (SELECT max(amount)::VARCHAR FROM salaries)"
        )
    source = DuckDBSource(tmp_path / "m.duckdb")
    for ask in (source.explain, lambda asked: source.run(asked, 1)):
        with pytest.raises(SecurityViolationError, match="its own function"):
            ask(query(source, "SELECT LOWER(name) FROM orders"))
    assert source.run(query(source, "SELECT upper(name) FROM orders"), 1).rows == (("X",),)
