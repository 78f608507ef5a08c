"""Columns are looked up where they stand: what a name may mean, and what it may not."""

from __future__ import annotations

import pytest

from clew_nl2sql.errors import UnknownColumnError
from clew_nl2sql.planner.catalog import Catalog, Column, Table
from clew_nl2sql.sql.guard import check

TABLES = {"orders": ("id", "customer_id", "amount"), "customers": ("id", "name")}


def catalog(dialect: str) -> Catalog:
    return Catalog(
        tables=tuple(
            Table(name=name, columns=tuple(Column(name=column) for column in columns))
            for name, columns in TABLES.items()
        ),
        dialect=dialect,
    )


@pytest.mark.parametrize("dialect", ["sqlite", "duckdb", "postgres"])
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT o.id FROM orders AS o",
        "SELECT ORDERS.Amount FROM orders",
        "SELECT o.*, c.name FROM orders AS o JOIN customers AS c ON c.id = o.customer_id",
        "SELECT name FROM customers WHERE EXISTS (SELECT 1 FROM orders WHERE customer_id = customers.id)",
        "SELECT s.total FROM (SELECT sum(amount) AS total FROM orders) AS s",
        "SELECT s.sum FROM (SELECT sum(amount) FROM orders) AS s",
        "SELECT s.amount FROM (SELECT * FROM orders) AS s",
        "SELECT s.amount FROM (SELECT o.* FROM orders AS o, customers) AS s",
        "SELECT s.amount FROM (SELECT CAST(amount AS TEXT) FROM orders) AS s",
        "WITH big(number) AS (SELECT id FROM orders) SELECT big.number FROM big",
        "WITH a AS (SELECT id AS x FROM orders), b AS (SELECT x AS y FROM a) SELECT b.y FROM b, a AS c WHERE c.x = y",
        "SELECT amount AS sold FROM orders ORDER BY sold",
        "SELECT count(*) AS many, customer_id AS who FROM orders GROUP BY who ORDER BY many",
        "SELECT id FROM orders UNION SELECT id FROM customers ORDER BY id",
        "(SELECT id FROM orders) ORDER BY id LIMIT 3",
        "SELECT name FROM customers JOIN orders USING (id)",
        "SELECT c.name FROM (orders AS o JOIN customers AS c ON o.customer_id = c.id)",
        "SELECT sum(amount) OVER w FROM orders WINDOW w AS (PARTITION BY customer_id)",
    ],
)
def test_what_a_name_may_mean(dialect: str, sql: str) -> None:
    check(sql, catalog(dialect))


@pytest.mark.parametrize("dialect", ["sqlite", "duckdb", "postgres"])
@pytest.mark.parametrize(
    "sql",
    [
        # to PostgreSQL each of the first three would be the call of a function
        "SELECT o.row_to_json FROM orders AS o, (SELECT 1 AS row_to_json) AS x",
        "SELECT orders.pg_typeof, 1 AS pg_typeof FROM orders",
        "WITH x AS (SELECT 1 AS to_json) SELECT o.to_json FROM orders AS o, x",
        "SELECT s.row_to_json, 1 AS row_to_json FROM (SELECT id FROM orders) AS s",
        "SELECT o.name FROM orders AS o, customers AS c",
        "SELECT orders.id FROM orders AS o",
        "SELECT s.amount FROM (SELECT id FROM orders) AS s",
        "SELECT id FROM customers WHERE amount > (SELECT avg(amount) FROM orders)",
        "SELECT o.id FROM orders AS o WHERE EXISTS (SELECT 1 FROM customers AS c) AND c.id = 1",
        "SELECT x.* FROM orders AS o",
        "SELECT id FROM orders JOIN customers USING (name2)",
        "SELECT o.id FROM orders AS o JOIN customers AS c ON c.id = o.secret",
        "SELECT id FROM orders UNION SELECT id FROM customers ORDER BY secret",
        "SELECT s.id FROM orders AS o, (SELECT o.id FROM customers) AS s",
        "WITH b AS (SELECT id AS x FROM orders) SELECT b.id FROM b",
        "WITH b(y) AS (SELECT id FROM orders) SELECT b.id FROM b",
    ],
)
def test_what_a_name_may_not_mean(dialect: str, sql: str) -> None:
    with pytest.raises(UnknownColumnError):
        check(sql, catalog(dialect))


def test_a_row_as_a_whole_is_no_column() -> None:
    with pytest.raises(UnknownColumnError):
        check("SELECT orders, 1 AS orders FROM orders", catalog("postgres"))


@pytest.mark.parametrize("dialect", ["duckdb", "postgres"])
def test_columns_that_a_table_is_given_take_the_place_of_its_own(dialect: str) -> None:
    check("SELECT o.a, o.amount FROM orders AS o(a, b)", catalog(dialect))
    with pytest.raises(UnknownColumnError):
        check("SELECT o.id FROM orders AS o(a, b)", catalog(dialect))
