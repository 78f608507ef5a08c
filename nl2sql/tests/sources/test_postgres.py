from __future__ import annotations

from collections.abc import Callable
from datetime import date
from decimal import Decimal

import pytest

from clew_nl2sql.errors import (
    Nl2sqlError,
    QueryFailedError,
    QueryTimeoutError,
    RefusedQueryError,
    SecurityViolationError,
    SourceDownError,
)
from clew_nl2sql.sources.postgres import PostgresSource
from nl2sql.tests.sources.contract import columns, query, unchecked


@pytest.fixture
def source(new_database: Callable[..., str]) -> PostgresSource:
    address = new_database(
        "CREATE TABLE customers (id INT PRIMARY KEY, name VARCHAR(80));"
        "CREATE TABLE invoices (id INT PRIMARY KEY, customer_id INT REFERENCES customers, issued DATE,"
        " amount NUMERIC(10, 2), paid BOOLEAN);"
        "COMMENT ON TABLE invoices IS 'what is owed'; COMMENT ON COLUMN invoices.issued IS 'day of issue';"
        "INSERT INTO customers VALUES (1, 'Ann'), (2, 'Bob');"
        "INSERT INTO invoices VALUES (1, 1, '2024-05-01', 10.50, true), (2, 2, '2024-06-01', 3, false)"
    )
    return PostgresSource(address)


def test_the_catalog_has_tables_columns_keys_comments_and_values(source: PostgresSource) -> None:
    catalog = source.catalog()
    assert [table.name for table in catalog.tables] == ["customers", "invoices"]
    assert columns(catalog, "invoices") == {
        "id": "number",
        "customer_id": "number",
        "issued": "date",
        "amount": "number",
        "paid": "boolean",
    }
    assert [(k.table, k.column, k.target_table, k.target_column) for k in catalog.foreign_keys] == [
        ("invoices", "customer_id", "customers", "id")
    ]
    invoices = catalog.tables[1]
    assert invoices.comment == "what is owed"
    assert next(c for c in invoices.columns if c.name == "issued").comment == "day of issue"
    assert next(c for c in catalog.tables[0].columns if c.name == "name").values == ("Ann", "Bob")
    assert next(c for c in catalog.tables[0].columns if c.name == "id").primary_key


def test_rows_come_with_their_types_and_no_more_than_asked_for(source: PostgresSource) -> None:
    result = source.run(query(source, "SELECT issued, amount, paid FROM invoices ORDER BY id"), max_rows=1)
    assert result.rows == ((date(2024, 5, 1), Decimal("10.50"), True),)
    assert result.truncated


def test_its_own_explain_refuses_what_the_guard_cannot_know(source: PostgresSource) -> None:
    assert "customers" in source.explain(query(source, "SELECT name FROM customers"))
    with pytest.raises(RefusedQueryError, match="GROUP BY"):
        source.explain(query(source, "SELECT name, count(*) FROM customers"))


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM invoices",
        "DROP TABLE invoices",
        "CREATE TABLE x (a INT)",
        "SELECT 1; SELECT 2",
        "SELECT nextval('s')",
        "SELECT * INTO x FROM invoices",
        "SELECT * FROM invoices FOR UPDATE",
        "COMMIT; DROP TABLE invoices",
    ],
)
def test_it_refuses_to_write_even_what_nobody_checked(source: PostgresSource, sql: str) -> None:
    with pytest.raises((QueryFailedError, RefusedQueryError)):
        source.run(unchecked(source, sql), max_rows=1)
    assert source.run(query(source, "SELECT count(*) FROM invoices"), 1).rows == ((2,),)


def test_a_query_that_takes_too_long_is_stopped(source: PostgresSource) -> None:
    slow = PostgresSource(source._address, timeout=0.05)
    with pytest.raises(QueryTimeoutError, match="limit of"):
        slow.run(unchecked(slow, "SELECT pg_sleep(20)"), max_rows=1)


def test_a_server_that_is_not_there_is_down_and_its_address_is_not_told() -> None:
    away = PostgresSource("postgresql://ann:secret@127.0.0.1:1/db")
    with pytest.raises(SourceDownError, match="cannot be reached") as raised:
        away.catalog()
    assert "secret" not in f"{raised.value}{away!r}"


def test_columns_and_tables_that_cannot_be_sampled_do_not_hide_the_others(
    new_database: Callable[..., str],
) -> None:
    address = new_database(
        "CREATE TABLE notes (id INT, body JSON, place POINT, tags TEXT[]);"
        "CREATE TABLE private (id INT); CREATE VIEW broken AS SELECT 1 / 0 AS x;"
        "INSERT INTO notes VALUES (1, '{}', '(1,2)', '{a}');"
        "CREATE ROLE reader LOGIN; GRANT SELECT ON notes, broken TO reader"
    )
    catalog = PostgresSource(address.replace("postgres@", "reader@")).catalog()
    assert [table.name for table in catalog.tables] == ["broken", "notes"]
    assert [column.name for column in catalog.tables[1].columns] == ["id", "body", "place", "tags"]
    assert catalog.tables[1].columns[0].values == (1,)


# -- a database that is set up to deceive ----------------------------------------------------------------------


@pytest.fixture
def deceiving(new_database: Callable[..., str]) -> PostgresSource:
    """Where functions are called like PostgreSQL's own, and a backslash hides a quote."""
    address = new_database(
        "CREATE TABLE orders (id INT, name VARCHAR); INSERT INTO orders VALUES (1, 'X');"
        "CREATE TABLE salaries (amount INT); INSERT INTO salaries VALUES (777);"
        "CREATE FUNCTION lower(VARCHAR) RETURNS TEXT LANGUAGE sql AS"
        " 'SELECT max(amount)::text FROM public.salaries';"
        "CREATE FUNCTION leak(orders) RETURNS INT LANGUAGE sql AS 'SELECT max(amount) FROM public.salaries'"
        ";ALTER DATABASE THIS_DATABASE SET standard_conforming_strings = off"
    )
    return PostgresSource(address)


def test_a_function_of_the_databases_own_is_not_called_by_a_known_name(deceiving: PostgresSource) -> None:
    for sql in ("SELECT lower(name) FROM orders", "SELECT LOWER (name) FROM orders"):
        for ask in (deceiving.explain, lambda asked: deceiving.run(asked, 1)):
            with pytest.raises(SecurityViolationError, match="its own function"):
                ask(query(deceiving, sql))
    assert deceiving.run(query(deceiving, "SELECT upper(name) FROM orders"), 1).rows == (("X",),)


def test_a_row_is_no_function_call(deceiving: PostgresSource) -> None:
    with pytest.raises(Nl2sqlError):
        query(deceiving, "SELECT o.leak FROM orders AS o, (SELECT 1 AS leak) AS x")


def test_a_string_ends_where_the_guard_saw_it_end(deceiving: PostgresSource) -> None:
    text = " || (select max(amount) from salaries) --"
    found = deceiving.run(query(deceiving, f"SELECT '\\', '{text}'"), 1)
    assert found.rows == (("\\", text),)


def test_a_function_that_an_extension_brought_may_be_called(new_database: Callable[..., str]) -> None:
    address = new_database(
        "CREATE FUNCTION upper(INT) RETURNS TEXT LANGUAGE sql AS $$SELECT 'own'$$; CREATE TABLE t (a INT);"
        "INSERT INTO t VALUES (1); ALTER EXTENSION plpgsql ADD FUNCTION public.upper(INT)"
    )
    source = PostgresSource(address)
    assert source.run(query(source, "SELECT upper(a) FROM t"), 5).rows == (("own",),)


def test_dates_that_python_has_none_for_are_text(new_database: Callable[..., str]) -> None:
    address = new_database(
        "CREATE TABLE t (id INT, d DATE, ts TIMESTAMP, tz TIMESTAMPTZ);"
        "INSERT INTO t VALUES (1, '2024-05-01', 'infinity', '-infinity'), (2, '0044-03-15 BC', NULL, NULL)"
    )
    source = PostgresSource(address)
    found = source.run(query(source, "SELECT d, ts, tz FROM t ORDER BY id"), 5)
    assert found.rows == ((date(2024, 5, 1), "infinity", "-infinity"), ("0044-03-15 BC", None, None))
    assert len(source.catalog().tables[0].rows) == 2


def test_a_view_that_takes_too_long_is_there_without_a_sample(
    new_database: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clew_nl2sql.sources.postgres.SECONDS", 8.0)  # enough for all but the view
    address = new_database(
        "CREATE VIEW slow AS SELECT 1 AS x, pg_sleep(600)::text AS y ORDER BY y;"
        "CREATE TABLE t (a INT); INSERT INTO t VALUES (1)"
    )
    slow, table = PostgresSource(address).catalog().tables
    assert (slow.name, [column.name for column in slow.columns], slow.rows) == ("slow", ["x", "y"], ())
    assert table.rows == ((1,),)
    assert (slow.view, table.view) == (True, False)
