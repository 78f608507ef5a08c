"""The guard: what passes, what is refused and as what, and that nothing which passes can write."""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
from pathlib import Path

import duckdb
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from clew_nl2sql.errors import (
    InvalidPlanError,
    Nl2sqlError,
    SecurityViolationError,
    UnknownColumnError,
    UnknownTableError,
)
from clew_nl2sql.planner.catalog import Catalog, Column, Table
from clew_nl2sql.sql.guard import check

HIDDEN = frozenset({"salaries"})
DIALECTS = ("sqlite", "duckdb", "postgres")


def catalog(dialect: str) -> Catalog:
    orders = [Column(name=name) for name in ("id", "customer_id", "amount", "day")]
    customers = [Column(name=name) for name in ("id", "name")]
    return Catalog(
        tables=(
            Table(name="orders", columns=tuple(orders)),
            Table(name="customers", columns=tuple(customers)),
        ),
        dialect=dialect,
    )


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "sql, tables",
    [
        ("SELECT count(*) FROM orders", ("orders",)),
        ("SELECT DISTINCT name FROM customers WHERE name LIKE '%a%' ORDER BY name LIMIT 3", ("customers",)),
        (
            "SELECT c.name, sum(o.amount) AS total FROM customers AS c LEFT JOIN orders AS o ON c.id = o.customer_id"
            " GROUP BY c.name HAVING sum(o.amount) > 10 ORDER BY total DESC",
            ("customers", "orders"),
        ),
        ("SELECT id FROM orders WHERE amount > (SELECT avg(amount) FROM orders)", ("orders",)),
        ("SELECT id FROM customers EXCEPT SELECT customer_id FROM orders", ("customers", "orders")),
        ("WITH big AS (SELECT * FROM orders WHERE amount > 5) SELECT count(*) FROM big", ("orders",)),
        ("WITH a AS (SELECT id FROM orders), b AS (SELECT id FROM a) SELECT * FROM b", ("orders",)),
        (
            "SELECT CASE WHEN amount > 5 THEN 'big' ELSE 'small' END, CAST(amount AS TEXT) FROM orders",
            ("orders",),
        ),
        ("SELECT name FROM customers WHERE id IN (SELECT customer_id FROM orders)", ("customers", "orders")),
        ("SELECT row_number() OVER (PARTITION BY customer_id ORDER BY day) FROM orders", ("orders",)),
        ("SELECT 1", ()),
    ],
)
def test_reading_passes(dialect: str, sql: str, tables: tuple[str, ...]) -> None:
    query = check(sql, catalog(dialect), HIDDEN)
    assert query.tables == tables
    assert check(query.sql, catalog(dialect), HIDDEN).sql == query.sql


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "sql",
    [
        "DROP TABLE orders",
        "SELECT 1; DROP TABLE orders",
        "SELECT 1; SELECT 2",
        "DELETE FROM orders",
        "UPDATE orders SET amount = 0",
        "INSERT INTO orders SELECT * FROM orders",
        "CREATE TABLE x AS SELECT * FROM orders",
        "ATTACH 'other.db' AS other",
        "COPY orders TO 'out.csv'",
        "PRAGMA table_info('orders')",
        "VACUUM",
        "SET x = 1",
        "CALL f()",
        "EXPLAIN SELECT 1",
        "VALUES (1)",
        "SELECT * INTO copied FROM orders",
        "WITH gone AS (DELETE FROM orders RETURNING *) SELECT * FROM gone",
        "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) SELECT * FROM r",
        "SELECT pg_read_file('secret')",
        "SELECT pg_sleep(1000)",
        "SELECT load_extension('x')",
        "SELECT randomblob(1000000000)",
        "SELECT current_setting('data_directory')",
        "SELECT lo_import('x')",
        "SELECT nextval('s')",
        "SELECT id FROM orders WHERE amount > (SELECT pg_read_file('x'))",
        "SELECT generate_series(1, 1000000000)",
        "SELECT * FROM generate_series(1, 10)",
        "SELECT * FROM pragma_table_info('orders')",
        "SELECT * FROM read_csv('x.csv')",
        "SELECT * FROM read_parquet('x.parquet')",
        "SELECT * FROM 'x.csv'",
        'SELECT * FROM "x.parquet"',
        "SELECT * FROM orders, LATERAL (SELECT 1) AS l",
        "SELECT * FROM orders TABLESAMPLE BERNOULLI (10)",
        "SELECT * FROM information_schema.tables",
        "SELECT * FROM other.orders",
        "SELECT * FROM sqlite_master",
        "SELECT * FROM pg_shadow",
        "SELECT 'orders'::regclass",
    ],
)
def test_whatever_does_more_than_read_is_refused(dialect: str, sql: str) -> None:
    with pytest.raises(Nl2sqlError) as refused:
        check(sql, catalog(dialect), HIDDEN)
    assert isinstance(refused.value, SecurityViolationError | InvalidPlanError)


@pytest.mark.parametrize(
    "sql",
    [
        "DROP TABLE orders",
        "SELECT 1; DROP TABLE orders",
        "SELECT pg_read_file('secret')",
        "ATTACH 'other.db' AS other",
        "COPY orders TO 'out.csv'",
        "SELECT soundex('x')",
        "SELECT * INTO copied FROM orders",
        "SELECT * FROM orders FOR UPDATE",
        "SELECT * FROM read_csv('x')",
    ],
)
def test_what_was_meant_to_harm_is_a_violation(sql: str) -> None:
    with pytest.raises(SecurityViolationError):
        check(sql, catalog("postgres"), HIDDEN)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM salaries",
        "SELECT * FROM SALARIES",
        'SELECT * FROM "salaries"',
        "SELECT * FROM main.salaries" if DIALECTS else "",
        "SELECT id FROM orders WHERE amount > (SELECT max(amount) FROM salaries)",
        "SELECT id FROM orders WHERE EXISTS (SELECT 1 FROM salaries)",
        "WITH s AS (SELECT * FROM salaries) SELECT * FROM s",
        "SELECT * FROM (SELECT * FROM salaries) AS s",
        "SELECT id FROM orders UNION SELECT id FROM salaries",
        "SELECT o.id FROM orders AS o JOIN salaries AS s ON s.id = o.id",
        "SELECT (SELECT max(id) FROM salaries) FROM orders",
        "SELECT id FROM orders ORDER BY (SELECT max(id) FROM salaries)",
        "SELECT * FROM salaries WHERE 1 IN (WITH salaries AS (SELECT 1) SELECT * FROM salaries)",
    ],
)
def test_a_forbidden_table_is_a_violation_wherever_it_stands(dialect: str, sql: str) -> None:
    with pytest.raises((SecurityViolationError, InvalidPlanError)) as refused:
        check(sql, catalog(dialect), HIDDEN)
    if "WITH salaries" not in sql:
        assert isinstance(refused.value, SecurityViolationError)


@pytest.mark.parametrize(
    "sql, error",
    [
        ("SELECT * FROM nope", UnknownTableError),
        ("SELECT nope FROM orders", UnknownColumnError),
        ("SELECT x.id FROM orders", UnknownColumnError),
        ("SELECT rowid FROM orders", UnknownColumnError),
        ("SELECT name FROM orders", UnknownColumnError),  # a column of a table that is not read
        ("SELECT FROM WHERE", InvalidPlanError),
        ("", InvalidPlanError),
        ("SELECT '\0'", InvalidPlanError),
        ("SELECT " + "(" * 3000 + "1" + ")" * 3000, InvalidPlanError),
        ("SELECT * FROM b WHERE 1 IN (WITH b AS (SELECT 1 AS n) SELECT n FROM b)", UnknownTableError),
        ("WITH orders AS (SELECT 1 AS n) SELECT n FROM orders", InvalidPlanError),
        ("WITH x AS (SELECT 1 AS n) SELECT n FROM main.x", UnknownTableError),  # a schema holds no WITH query
        ("WITH x AS (SELECT n FROM x) SELECT n FROM x", UnknownTableError),  # nor does a query hold itself
        ("SELECT " + "1 + " * 20_000 + "1", InvalidPlanError),
        ("SELECT * FROM (" * 70 + "SELECT 1" + ") AS x" * 70, InvalidPlanError),
    ],
)
def test_a_mistake_is_a_mistake_and_can_be_cured(sql: str, error: type[Nl2sqlError]) -> None:
    with pytest.raises(error):
        check(sql, catalog("sqlite"), HIDDEN)


def test_comments_are_not_sent() -> None:
    assert check("SELECT 1 /* x */ -- y", catalog("postgres")).sql == "SELECT 1"


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("sql", ["SELECT 1;", "SELECT 1; -- done", "SELECT 1 ; /* done */ ;"])
def test_what_stands_behind_the_only_statement_is_not_another(dialect: str, sql: str) -> None:
    assert check(sql, catalog(dialect)).sql == "SELECT 1"


@pytest.mark.parametrize(
    "dialect, sql",
    [
        ("postgres", "SELECT total(amount) FROM orders"),
        ("postgres", "SELECT strftime('%Y', day) FROM orders"),
        ("sqlite", "SELECT to_char(amount) FROM orders"),
        ("sqlite", "SELECT printf('%1000000000d', 1)"),
        ("duckdb", "SELECT printf('%1000000000d', 1)"),
        ("duckdb", "SELECT julianday(day) FROM orders"),
    ],
)
def test_a_function_of_another_database_is_not_allowed(dialect: str, sql: str) -> None:
    with pytest.raises(SecurityViolationError, match="function"):
        check(sql, catalog(dialect))


def test_what_is_sent_is_what_was_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """A renderer that says something else than it was given is found out."""
    monkeypatch.setattr("clew_nl2sql.sql.guard.render", lambda tree, dialect: "SELECT * FROM salaries")
    with pytest.raises(SecurityViolationError):
        check("SELECT * FROM orders", catalog("postgres"), HIDDEN)


def test_quoted_names_of_postgres_are_other_names() -> None:
    with pytest.raises(UnknownTableError):
        check('SELECT * FROM "Orders"', catalog("postgres"))
    assert check("SELECT * FROM Orders", catalog("postgres")).tables == ("orders",)


# -- a search for something that passes and writes ------------------------------------------------------------

PIECES = st.sampled_from(
    """
    SELECT * 1 id amount name count(*) FROM orders customers salaries WHERE amount > 5 AND OR UNION EXCEPT ( ) , ; --
    /* */ ' " ` [ ] WITH x AS RECURSIVE INSERT INTO UPDATE SET DELETE DROP TABLE CREATE TEMP VIEW ATTACH DETACH PRAGMA
    VACUUM REPLACE BEGIN COMMIT ALTER RENAME TO REINDEX ANALYZE RETURNING VALUES (1) LIMIT ORDER BY GROUP HAVING JOIN ON
    load_extension('x') writefile('x','y') 'x.db' sqlite_master main. temp.
    """.split()  # noqa: SIM905 - a list this long reads better as words
)


SOUND = [
    "SELECT id , name FROM customers WHERE name LIKE 'a%' ORDER BY id LIMIT 3",
    "SELECT count(*) FROM orders JOIN customers ON orders . customer_id = customers . id GROUP BY name",
    "WITH x AS ( SELECT id FROM orders ) SELECT * FROM x UNION SELECT id FROM customers",
    "SELECT id FROM orders WHERE amount > ( SELECT avg( amount ) FROM orders )",
]


@st.composite
def nearly_sound(draw: st.DrawFn) -> str:
    """A query with a few pieces of something else in it."""
    found = draw(st.sampled_from(SOUND)).split()
    for piece in draw(st.lists(PIECES, max_size=5)):
        found.insert(draw(st.integers(0, len(found))), piece)
    return " ".join(found)


ANYTHING = st.one_of(st.lists(PIECES, min_size=1, max_size=18).map(" ".join), nearly_sound())


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("fuzz") / "data.db"
    with sqlite3.connect(path) as db:
        db.executescript(
            "CREATE TABLE orders (id INTEGER, customer_id INTEGER, amount INTEGER, day TEXT);"
            "CREATE TABLE customers (id INTEGER, name TEXT); CREATE TABLE salaries (id INTEGER, amount INTEGER);"
            "INSERT INTO orders VALUES (1, 1, 5, 'x'); INSERT INTO salaries VALUES (1, 7)"
        )
    db.close()
    return path


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@settings(max_examples=1500)
@given(ANYTHING)
@example("SELECT * FROM orders ; DELETE FROM orders")
@example("WITH x AS ( SELECT 1 ) DELETE FROM orders")
def test_nothing_that_passes_writes_or_reads_what_is_hidden(database: Path, sql: str) -> None:
    try:
        query = check(sql, catalog("sqlite"), HIDDEN)
    except Nl2sqlError:
        return
    # on a connection that could do anything: the guard alone is on trial
    before, read, done = digest(database), set(), []
    harmless = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION}

    def watch(action: int, first: str | None, *_: str | None) -> int:
        if action == sqlite3.SQLITE_READ:
            read.add(first)
        elif action not in harmless:
            done.append(action)
        return sqlite3.SQLITE_OK

    db = sqlite3.connect(database)
    try:
        db.set_authorizer(watch)
        db.execute(query.sql).fetchmany(10)
        db.commit()
    except sqlite3.Error:
        pass  # the database's own complaint
    finally:
        db.close()
    assert done == []
    assert read <= {"orders", "customers", ""}
    assert digest(database) == before


@settings(max_examples=300)
@given(ANYTHING)
@example("FROM orders")
@example("SELECT * FROM orders ; DELETE FROM orders")
def test_what_passes_is_one_select_to_duckdb_too(sql: str) -> None:
    try:
        query = check(sql, catalog("duckdb"), HIDDEN)
    except Nl2sqlError:
        return
    try:
        statements = duckdb.extract_statements(query.sql)
    except duckdb.ParserException:
        return  # the database's own complaint
    assert [statement.type for statement in statements] == [duckdb.StatementType.SELECT]


TREES = st.deferred(
    lambda: st.one_of(
        st.sampled_from(
            [
                "SELECT id FROM orders",
                "SELECT * FROM customers",
                "SELECT amount FROM salaries",
                "DELETE FROM orders",
                "SELECT pg_read_file('x')",
                "SELECT id INTO y FROM orders",
                "TABLE salaries",
                "VALUES (1)",
            ]
        ),
        st.tuples(TREES, TREES).map(lambda p: f"{p[0]} UNION ALL {p[1]}"),
        TREES.map(lambda q: f"SELECT * FROM ({q}) AS sub"),
        TREES.map(lambda q: f"SELECT id FROM orders WHERE id IN ({q})"),
        st.tuples(TREES, TREES).map(lambda p: f"WITH w AS ({p[0]}) {p[1]}"),
        TREES.map(lambda q: f"SELECT (({q})) FROM customers"),
    )
)


@settings(max_examples=200)
@given(TREES, st.sampled_from(DIALECTS))
def test_what_is_forbidden_is_found_at_any_depth(sql: str, dialect: str) -> None:
    hostile = any(word in sql for word in ("salaries", "DELETE", "pg_read_file", "INTO", "VALUES"))
    try:
        check(sql, catalog(dialect), HIDDEN)
    except Nl2sqlError:
        return
    assert not hostile


def test_the_search_can_fail(database: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    shutil.copy(database, copy)
    before = digest(copy)
    with sqlite3.connect(copy) as db:
        db.execute("DELETE FROM orders")
    db.close()
    assert digest(copy) != before
