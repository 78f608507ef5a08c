"""A database as people have them: no keys declared, abbreviated names in camel case, dates as text, a view, NULLs."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from clew_nl2sql.planner import Catalog, RulePlanner, catalog_from_sqlite
from clew_nl2sql.planner.building.joins import join_tree
from clew_nl2sql.planner.linking.schema_index import prepare
from clew_nl2sql.sources import open_source

_TABLES = """
CREATE TABLE custMst (custId INTEGER, custNm TEXT, ctry TEXT, regDt TEXT, "group" TEXT);
CREATE TABLE "order" (orderNo INTEGER, custId INTEGER, orderDt TEXT, sts TEXT, totAmt REAL);
CREATE TABLE empl (emplId INTEGER, fNm TEXT, lNm TEXT, sal REAL, hiredAt TEXT, depot_id INTEGER);
CREATE TABLE depot (id INTEGER, name TEXT);
CREATE VIEW vBigOrders AS
    SELECT o.orderNo, c.custNm, o.totAmt FROM "order" o JOIN custMst c ON c.custId = o.custId WHERE o.totAmt > 500;
"""
CUSTOMERS = [
    (1, "Alva Ltd", "Norway", "2010-01-15", "gold"),
    (2, "Borg AB", "Sweden", "2011-02-15", "silver"),
    (3, "Cetus Inc", "Norway", "2012-03-15", None),
    (4, "Dorn GmbH", "Germany", "2013-04-15", "gold"),
    (5, "Elm Sons", "France", "2014-05-15", "silver"),
]
ORDERS = [
    (1, 1, "2022-05-01", "open", 900.0),
    (2, 1, "2023-01-09", "shipped", 120.0),
    (3, 1, "2023-08-30", None, 640.0),
    (4, 2, "2023-12-31", "open", 75.5),
    (5, 3, "2024-02-11", "shipped", 610.0),
    (6, 3, "2024-03-12", "open", 55.0),
]
EMPLOYEES = [
    (1, "Ann", "Berg", 5000.0, "2012-03-01 08:00:00", 1),
    (2, "Bo", "Holm", 6000.0, "2014-12-31 17:30:00", 2),
    (3, "Cy", "Lund", 4000.0, "2016-07-01 09:00:00", 1),
]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("odd") / "odd.sqlite"
    connection = sqlite3.connect(path)
    connection.executescript(_TABLES)
    rows = {"custMst": CUSTOMERS, '"order"': ORDERS, "empl": EMPLOYEES, "depot": [(1, "North"), (2, "South")]}
    for table, some in rows.items():
        connection.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(some[0]))})", some)
    connection.commit()
    connection.close()
    return path


@pytest.fixture(scope="module")
def catalog(path: Path) -> Catalog:
    return catalog_from_sqlite(path)


def _answer(path: Path, catalog: Catalog, question: str) -> list[tuple[object, ...]]:
    plan = RulePlanner(threshold=0.0).plan(question, catalog)
    assert plan.sql is not None
    connection = sqlite3.connect(path)
    try:
        return sorted(connection.execute(plan.sql).fetchall(), key=repr)
    finally:
        connection.close()


@pytest.mark.parametrize(
    "question, rows",
    [
        ("How many customers are from Norway?", [(2,)]),
        ("What are the names of customers in the gold group?", [("Alva Ltd",), ("Dorn GmbH",)]),
        ("What are the first and last names of the employees?", [("Ann", "Berg"), ("Bo", "Holm"), ("Cy", "Lund")]),
        ("What is the average salary of employees?", [(5000.0,)]),
        ("How many orders are open?", [(3,)]),
        ("How many orders does Alva Ltd have?", [(3,)]),  # not of the view, which shows the large ones
        ("What are the names of customers without orders?", [("Dorn GmbH",), ("Elm Sons",)]),
        ("How many employees work in the depot named North?", [(2,)]),  # a key that nobody declared
    ],
)  # fmt: skip
def test_answers(path: Path, catalog: Catalog, question: str, rows: list[tuple[object, ...]]) -> None:
    assert _answer(path, catalog, question) == rows


# -- one thing each ----------------------------------------------------------------------------------------------


def test_how_many_counts_each_once(path: Path, catalog: Catalog) -> None:
    assert _answer(path, catalog, "How many customers from Norway have orders?") == [(2,)]
    assert _answer(path, catalog, "How many orders do customers from Norway have?") == [(5,)]


def test_dates_are_not_added_up(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "lib.db")
    connection.executescript(
        "CREATE TABLE loans (id INTEGER PRIMARY KEY, member_id INTEGER, book_id INTEGER, loaned_on TEXT, back_on TEXT);"
        "INSERT INTO loans VALUES (1, 1, 1, '2024-01-05', '2024-01-20'), (2, 1, 2, '2024-02-01', NULL);"
        "INSERT INTO loans VALUES (3, 2, 1, '2023-12-01', '2023-12-24')"
    )
    connection.close()
    plan = RulePlanner(threshold=0.0).plan(
        "How many loans in January 2024?", catalog_from_sqlite(tmp_path / "lib.db")
    )
    assert "SUM(" not in str(plan.sql)


def test_a_total_of_many_is_no_list(catalog: Catalog) -> None:
    plan = RulePlanner().plan("What is the total amount of orders in 2023?", catalog)
    assert plan.abstained or "SUM(" in str(plan.sql)
    assert "SUM(" not in str(
        RulePlanner(threshold=0.0).plan("What is the total amount of order 3?", catalog).sql
    )


def test_or_is_never_both(catalog: Catalog) -> None:
    question = "Which customers have orders with status open or shipped?"
    for candidate in RulePlanner().plan(question, catalog).candidates:
        assert "INTERSECT" not in candidate.sql


def test_the_most_of_a_figure_is_no_count(catalog: Catalog) -> None:
    for candidate in RulePlanner().plan("Which employee earns the most?", catalog).candidates:
        assert "GROUP BY sal ORDER BY COUNT(*)" not in candidate.sql


@pytest.mark.parametrize(
    "question, names",
    [
        ("What are the names of customers with ids 1, 3 and 5?", {"Alva Ltd", "Cetus Inc", "Elm Sons"}),
        ("What are the names of customers in Sweden, Germany and France?", {"Borg AB", "Dorn GmbH", "Elm Sons"}),
        ("What are the names of customers that are not in Sweden, Germany or France?", {"Alva Ltd", "Cetus Inc"}),
    ],
)  # fmt: skip
def test_a_list_means_any_of_it(path: Path, catalog: Catalog, question: str, names: set[str]) -> None:
    plan = RulePlanner().plan(question, catalog)
    assert not plan.abstained, plan.certainty
    assert {name for (name,) in _answer(path, catalog, question)} == names


@pytest.mark.parametrize(
    "question, count",
    [
        ("How many employees were hired after 2014?", 1),
        ("How many employees were hired in 2014?", 1),
        ("How many employees were hired in 2014 or later?", 2),
        ("How many employees were hired before 2014?", 1),
        ("How many employees were hired between 2012 and 2014?", 2),
    ],
)
def test_a_year_is_all_of_its_days(path: Path, catalog: Catalog, question: str, count: int) -> None:
    assert _answer(path, catalog, question) == [(count,)]


def test_dates_that_are_text_are_dates(catalog: Catalog) -> None:
    kinds = {f"{t.name}.{c.name}": c.kind for t in catalog.tables for c in t.columns}
    assert kinds["order.orderDt"] == kinds["empl.hiredAt"] == "date"
    assert kinds["order.sts"] == "text"


def test_a_status_names_no_row(catalog: Catalog) -> None:
    schema = prepare(catalog)
    orders = next(t for t in schema.tables if t.name == "order")
    assert orders.display == orders.key == schema.column_id("order", "orderNo")


def test_a_view_is_asked_only_by_name(catalog: Catalog) -> None:
    planner = RulePlanner(threshold=0.0)
    for question in ("What is the total amount of order 3?", "How many orders does Alva Ltd have?"):
        assert "vBigOrders" not in str(planner.plan(question, catalog).sql)
    named = planner.plan("Show the customer names of the big orders", catalog)
    assert "vBigOrders" in str(named.sql)


def test_no_way_leads_over_a_view(path: Path) -> None:
    for catalog in (catalog_from_sqlite(path), open_source(f"sqlite:///{path}").catalog()):
        assert [table.name for table in catalog.tables if table.view] == ["vBigOrders"]
        schema = prepare(catalog)
        tables = {table.name: table.id for table in schema.tables}
        tree = join_tree(schema, [tables["custMst"], tables["order"]])
        assert tree is not None
        assert tables["vBigOrders"] not in tree.tables


# -- what it must not answer -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "question",
    [
        "Delete all orders",
        "Please remove the customers from Norway",
        "What percentage of orders are open?",
        "What is the difference between the highest and lowest salary?",
        "What is the median salary of employees?",
        "How many customers weigh more than 500?",
        "Which customers did not buy 'Anchor'?",
        "Who was hired first?",
    ],
)
def test_what_no_query_says_is_not_answered(catalog: Catalog, question: str) -> None:
    plan = RulePlanner().plan(question, catalog)
    assert plan.abstained, plan.sql


def test_nobody_is_ranked_by_how_often_he_is_himself(catalog: Catalog) -> None:
    for question in (
        "Which employee is the most?",
        "Who is the best customer?",
        "Which customer has the most?",
    ):
        for candidate in RulePlanner().plan(question, catalog).candidates:
            single = "JOIN" not in candidate.sql and "GROUP BY custNm" in candidate.sql
            assert not (single and "COUNT(*) DESC" in candidate.sql), candidate.sql
