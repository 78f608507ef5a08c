from __future__ import annotations

import hashlib
import sqlite3
from pathlib import Path

import pytest

from clew_nl2sql.errors import QueryFailedError, QueryTimeoutError, RefusedQueryError, SourceDownError
from clew_nl2sql.sample_data import make_sales
from clew_nl2sql.sources.sqlite import SQLiteSource
from nl2sql.tests.sources.contract import columns, query, unchecked


@pytest.fixture
def source(tmp_path: Path) -> SQLiteSource:
    make_sales(tmp_path / "sales.db")
    return SQLiteSource(tmp_path / "sales.db")


def test_the_catalog_has_tables_columns_keys_and_values(source: SQLiteSource) -> None:
    catalog = source.catalog()
    assert [table.name for table in catalog.tables] == ["customers", "products", "orders", "order_items"]
    assert columns(catalog, "orders") == {
        "id": "number",
        "customer_id": "number",
        "order_date": "date",
        "amount": "number",
    }
    assert {(key.table, key.column, key.target_table) for key in catalog.foreign_keys} == {
        ("orders", "customer_id", "customers"),
        ("order_items", "order_id", "orders"),
        ("order_items", "product_id", "products"),
    }
    countries = next(c for c in catalog.tables[0].columns if c.name == "country")
    assert "Norway" in countries.values
    assert countries.complete


def test_rows_come_as_asked_for_and_no_more(source: SQLiteSource) -> None:
    result = source.run(query(source, "SELECT id, name FROM customers ORDER BY id"), max_rows=2)
    assert result.columns == ("id", "name")
    assert result.rows == ((1, "Ariadne Yarns"), (2, "Borealis Sails"))
    assert result.truncated


def test_columns_of_one_name_are_told_apart(source: SQLiteSource) -> None:
    result = source.run(query(source, "SELECT name, name FROM products"), max_rows=1)
    assert result.columns == ("name", "name_2")


def test_its_own_explain_refuses_what_the_guard_cannot_know(source: SQLiteSource) -> None:
    assert "SCAN" in source.explain(query(source, "SELECT * FROM customers"))
    with pytest.raises(RefusedQueryError, match="ambiguous"):
        source.explain(query(source, "SELECT id FROM customers, orders"))


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM orders",
        "DROP TABLE orders",
        "CREATE TABLE x (a)",
        "ATTACH 'x.db' AS x",
        "PRAGMA journal_mode = DELETE",
        "SELECT * FROM sqlite_master",
        "SELECT randomblob(10)",
    ],
)
def test_it_refuses_to_do_more_than_read_even_what_nobody_checked(source: SQLiteSource, sql: str) -> None:
    before = hashlib.sha256(source.path.read_bytes()).digest()
    with pytest.raises((QueryFailedError, RefusedQueryError)):
        source.run(unchecked(source, sql), max_rows=1)
    assert hashlib.sha256(source.path.read_bytes()).digest() == before


def test_a_query_that_takes_too_long_is_stopped(source: SQLiteSource) -> None:
    endless = "SELECT count(*) FROM order_items a, order_items b, order_items c, order_items d"
    slow = SQLiteSource(source.path, timeout=0.05)
    with pytest.raises(QueryTimeoutError, match="limit of"):
        slow.run(query(slow, endless), max_rows=1)


def test_a_file_that_is_not_there_or_no_database_is_down(tmp_path: Path) -> None:
    with pytest.raises(SourceDownError, match="cannot be read"):
        SQLiteSource(tmp_path / "nope.db").catalog()
    (tmp_path / "text.db").write_text("not a database, but a text that is long enough to be looked at" * 20)
    with pytest.raises(SourceDownError):
        SQLiteSource(tmp_path / "text.db").catalog()
    assert not (tmp_path / "nope.db").exists()


def test_names_with_spaces_and_percent_signs(tmp_path: Path) -> None:
    path = tmp_path / "my %41 data?.db"
    with sqlite3.connect(path) as db:
        db.execute('CREATE TABLE "a table" ("a column" TEXT)')
        db.execute("INSERT INTO \"a table\" VALUES ('x')")
    db.close()
    source = SQLiteSource(path)
    assert source.run(query(source, 'SELECT "a column" FROM "a table"'), 5).rows == (("x",),)


def test_a_large_table_is_sampled_and_not_scanned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clew_nl2sql.sources.table_samples.ROWS", 100)
    with sqlite3.connect(tmp_path / "large.db") as db:
        db.execute("CREATE TABLE t (kind TEXT)")
        db.executemany("INSERT INTO t VALUES (?)", [("early",)] * 100 + [("late",)] * 100)
    db.close()
    (table,) = SQLiteSource(tmp_path / "large.db").catalog().tables
    assert table.columns[0].values == ("early",)
    assert not table.columns[0].complete
    assert table.row_count is None


def test_a_view_over_a_table_that_is_gone_does_not_hide_the_others(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "v.db") as db:
        db.executescript(
            "CREATE TABLE t (a); CREATE TABLE u (b); CREATE VIEW v AS SELECT * FROM t; DROP TABLE t"
        )
    db.close()
    assert [table.name for table in SQLiteSource(tmp_path / "v.db").catalog().tables] == ["u", "v"]


def test_the_same_catalog_as_the_planner_is_measured_on(source: SQLiteSource) -> None:
    from clew_nl2sql.planner.catalog import catalog_from_sqlite

    assert source.catalog() == catalog_from_sqlite(source.path)


def test_a_view_that_takes_too_long_is_there_without_a_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clew_nl2sql.sources.sqlite.SECONDS", 0.1)
    endless = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT sum(n) AS x FROM r"
    with sqlite3.connect(tmp_path / "v.db") as db:
        db.executescript(f"CREATE VIEW v AS {endless}; CREATE TABLE t (a); INSERT INTO t VALUES (1)")
    db.close()
    view, table = SQLiteSource(tmp_path / "v.db").catalog().tables
    assert (view.name, [column.name for column in view.columns], view.rows) == ("v", ["x"], ())
    assert table.rows == ((1,),)


def test_a_value_that_grows_without_end_is_stopped(source: SQLiteSource) -> None:
    grown = "'aaaaaaaaaa'"
    for _ in range(8):
        grown = f"replace({grown}, 'a', 'aaaaaaaaaa')"
    with pytest.raises(QueryFailedError, match="too big"):
        source.run(query(source, f"SELECT length({grown})"), 1)


def test_a_column_without_a_name_gets_one_and_all_names_differ(source: SQLiteSource) -> None:
    found = source.run(query(source, 'SELECT 1 AS "", 2 AS a, 3 AS A, 4 AS a_2'), 1)
    assert found.columns == ("column", "a", "A_2", "a_2_2")
