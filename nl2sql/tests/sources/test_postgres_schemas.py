"""Several schemas in one PostgreSQL database: names, grants, the guard, and questions."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from clew_nl2sql import Pipeline, UserContext
from clew_nl2sql.access import Access
from clew_nl2sql.errors import SecurityViolationError, UnknownTableError
from clew_nl2sql.planner.catalog import Catalog
from clew_nl2sql.sources.postgres import PostgresSource
from clew_nl2sql.sql.guard import check

SCRIPT = """
CREATE TABLE orders (id INT PRIMARY KEY, total INT);
CREATE SCHEMA crm;
CREATE TABLE crm.customers (id INT PRIMARY KEY, name TEXT, city TEXT);
CREATE TABLE crm.visits (id INT PRIMARY KEY, customer_id INT REFERENCES crm.customers, day DATE);
CREATE SCHEMA archive;
CREATE TABLE archive.orders (id INT PRIMARY KEY, total INT);
CREATE SCHEMA "HR";
CREATE TABLE "HR"."Salaries" (id INT PRIMARY KEY, customer_id INT REFERENCES crm.customers, amount INT);
INSERT INTO orders VALUES (1, 10), (2, 20);
INSERT INTO archive.orders VALUES (1, 1), (2, 2), (3, 3);
INSERT INTO crm.customers SELECT n, 'Customer ' || n, CASE WHEN n % 2 = 0 THEN 'Lyon' ELSE 'Nice' END
  FROM generate_series(1, 6) AS n;
INSERT INTO crm.visits SELECT n, 1 + n % 3, '2025-01-01'::date + n FROM generate_series(1, 9) AS n;
INSERT INTO "HR"."Salaries" VALUES (1, 1, 1000), (2, 2, 3000);
"""


@pytest.fixture
def address(new_database: Callable[..., str]) -> str:
    return new_database(SCRIPT)


@pytest.fixture
def catalog(address: str) -> Catalog:
    return PostgresSource(address).catalog()


@pytest.fixture
def pipeline(address: str) -> Iterator[Pipeline]:
    with Pipeline({"erp": address}) as made:
        yield made


def names(catalog: Catalog) -> list[str]:
    return [table.name for table in catalog.tables]


def test_tables_outside_public_have_their_schema_in_their_names(catalog: Catalog) -> None:
    assert names(catalog) == ["orders", "HR.Salaries", "archive.orders", "crm.customers", "crm.visits"]
    assert [(t.schema, t.own_name) for t in catalog.tables][:2] == [("", "orders"), ("HR", "Salaries")]
    assert [(key.table, key.target_table) for key in catalog.foreign_keys] == [
        ("HR.Salaries", "crm.customers"),
        ("crm.visits", "crm.customers"),
    ]
    assert catalog.tables[3].columns[2].values == ("Lyon", "Nice")


def test_schemas_that_the_database_user_may_not_use_are_left_out(new_database: Callable[..., str]) -> None:
    made = new_database(
        SCRIPT + "CREATE ROLE schema_reader LOGIN; GRANT USAGE ON SCHEMA crm TO schema_reader;"
        "GRANT SELECT ON ALL TABLES IN SCHEMA crm, archive, public TO schema_reader"
    )
    source = PostgresSource(made.replace("postgres@", "schema_reader@"))
    assert names(source.catalog()) == ["orders", "crm.customers", "crm.visits"]


def test_one_name_never_means_two_tables(new_database: Callable[..., str]) -> None:
    made = new_database(
        'CREATE TABLE "crm.visits" (secret TEXT); CREATE SCHEMA crm; CREATE TABLE crm.visits (id INT)'
    )
    found = PostgresSource(made).catalog()
    assert [(t.schema, t.name) for t in found.tables] == [("", "crm.visits")]


@pytest.mark.parametrize(
    "grant, seen",
    [
        ("erp.*", ["orders", "HR.Salaries", "archive.orders", "crm.customers", "crm.visits"]),
        ("erp.orders", ["orders"]),
        ("erp.public.orders", ["orders"]),
        ("erp.public.*", ["orders"]),
        ("erp.archive.orders", ["archive.orders"]),
        ("erp.crm.*", ["crm.customers", "crm.visits"]),
        ("erp.hr.salaries", ["HR.Salaries"]),
        ("erp.customers", []),
        ("erp.crm", []),
    ],
)
def test_grants(catalog: Catalog, grant: str, seen: list[str]) -> None:
    assert names(Access(UserContext(policies=(grant,))).visible("erp", catalog)) == seen


@pytest.mark.parametrize(
    "sql, tables",
    [
        ("SELECT total FROM orders", ("orders",)),
        ("SELECT total FROM public.orders", ("orders",)),
        ("SELECT total FROM archive.orders", ("archive.orders",)),
        ("SELECT a.total FROM orders AS a JOIN ARCHIVE.orders AS b ON a.id = b.id", ("archive.orders", "orders")),
        ('SELECT amount FROM "HR"."Salaries"', ("HR.Salaries",)),
        ("WITH old AS (SELECT id FROM archive.orders) SELECT id FROM old", ("archive.orders",)),
        ("WITH visits AS (SELECT 1 AS id) SELECT v.id FROM crm.visits AS v", ("crm.visits",)),
    ],
)  # fmt: skip
def test_the_guard_resolves_qualified_tables(
    catalog: Catalog, address: str, sql: str, tables: tuple[str, ...]
) -> None:
    checked = check(sql, catalog)
    assert checked.tables == tables
    PostgresSource(address).run(checked, max_rows=10)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT total FROM archive.orders",
        'SELECT amount FROM "HR"."Salaries"',
        "SELECT v.id FROM crm.visits AS v JOIN archive.orders AS o ON o.id = v.id",
        "SELECT id FROM crm.visits WHERE id IN (SELECT id FROM archive.orders)",
        "WITH orders2 AS (SELECT * FROM archive.orders) SELECT * FROM orders2",
        "SELECT id FROM crm.visits UNION SELECT id FROM archive.orders",
        "SELECT relname FROM pg_catalog.pg_class",
        "SELECT table_name FROM information_schema.tables",
        "SELECT id FROM erp.crm.visits",
        'SELECT id FROM "CRM".visits',
        'SELECT id FROM "crm.customers"',
        "SELECT usename FROM crm.pg_user",
        "SELECT crm.leak(1)",
        "SELECT crm.visits.id FROM crm.visits",
    ],
)
def test_the_guard_refuses_other_schemas(catalog: Catalog, sql: str) -> None:
    visible = Access(UserContext(policies=("erp.crm.*",))).visible("erp", catalog)
    hidden = frozenset(names(catalog)) - frozenset(names(visible))
    with pytest.raises(SecurityViolationError):
        check(sql, visible, hidden)


def test_a_missing_table_of_a_known_schema_is_only_a_mistake(catalog: Catalog) -> None:
    for sql in ("SELECT id FROM crm.visitors", "SELECT id FROM visits", "SELECT id FROM public.visits"):
        with pytest.raises(UnknownTableError):
            check(sql, catalog)


def test_questions_join_tables_of_a_schema(pipeline: Pipeline) -> None:
    answer = pipeline.ask("How many visits are there for customers in Lyon?")
    assert (answer.status, answer.rows) == ("answered", ((3,),))
    assert answer.sql["erp"].count("crm.") == 2


def test_a_name_that_repeats_is_told_apart_by_its_schema(pipeline: Pipeline) -> None:
    answer = pipeline.ask("How many archive orders are there?")
    assert (answer.status, answer.rows) == ("answered", ((3,),))


def test_a_plain_name_is_the_table_of_the_default_schema_and_the_first_line_says_so(
    pipeline: Pipeline,
) -> None:
    answer = pipeline.ask("How many orders are there?")
    assert (answer.status, answer.rows) == ("answered", ((2,),))
    assert "archive.orders" in answer.text.splitlines()[0]


def test_a_user_of_one_schema_is_refused_another(address: str) -> None:
    user = UserContext(user_id="ann", policies=("erp.crm.*",))
    with Pipeline({"erp": address}, policies={}) as made:
        assert made.ask("How many visits are there?", user=user).rows == ((9,),)
        assert made.ask("What is the total amount of salaries?", user=user).status == "refused"
        assert made.ask("How many orders are there?", user=user).status == "refused"


def test_a_name_that_two_schemas_have_is_asked_back(new_database: Callable[..., str]) -> None:
    made = new_database(
        "CREATE SCHEMA north; CREATE TABLE north.parcels (id INT, weight INT);"
        "CREATE SCHEMA south; CREATE TABLE south.parcels (id INT, weight INT);"
        "INSERT INTO north.parcels VALUES (1, 5), (2, 6); INSERT INTO south.parcels VALUES (1, 5), (2, 6), (3, 7)"
    )
    with Pipeline({"post": made}) as asked:
        waiting = asked.ask("How many parcels are there?", ask_back=True)
        assert waiting.status == "unanswered"
        readings = [reading.words for reading in waiting.questions[0].readings]
        assert {"the number of north parcels", "the number of south parcels"} <= set(readings)
        assert asked.ask("How many south parcels are there?").rows == ((3,),)
