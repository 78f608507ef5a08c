"""Candidates that make no sense do not exist, and entities, events and measures are shown as people say them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from clew_nl2sql.planner import Plan, RulePlanner
from clew_nl2sql.planner.catalog import Catalog, catalog_from_sqlite
from clew_nl2sql.planner.judging.sense import makes_sense
from clew_nl2sql.planner.linking.schema_index import SchemaIndex
from clew_nl2sql.planner.query import Condition, Query, SelectItem
from clew_nl2sql.sample_data import make_samples

SCRIPT = """
CREATE TABLE clerks (id INTEGER PRIMARY KEY, first_name TEXT NOT NULL, last_name TEXT NOT NULL);
CREATE TABLE bills (
  id INTEGER PRIMARY KEY, bill_no TEXT NOT NULL, clerk_id INTEGER NOT NULL REFERENCES clerks(id),
  issued_on DATE NOT NULL,
  paid_on DATE, amount NUMERIC NOT NULL, has_discount BOOLEAN NOT NULL);
"""


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    path: Path = tmp_path_factory.mktemp("bills") / "bills.db"
    with closing(sqlite3.connect(path)) as opened, opened:
        opened.executescript(SCRIPT)
        people = [(1, "Ann", "Berg"), (2, "Ann", "Cole"), (3, "Dan", "Berg")]
        opened.executemany("INSERT INTO clerks VALUES (?, ?, ?)", people)
        for n in range(1, 301):
            day = f"2025-{1 + n % 12:02d}-{1 + n % 28:02d}"
            bill = (
                n,
                f"{20000 + n * 3:07d}",
                1 + n % 3,
                day,
                None if n % 4 == 0 else day,
                n * 1.5,
                n % 5 == 0,
            )
            opened.execute("INSERT INTO bills VALUES (?, ?, ?, ?, ?, ?, ?)", bill)
    return catalog_from_sqlite(path)


@pytest.fixture(scope="module")
def plan(catalog: Catalog) -> Callable[[str], Plan]:
    return lambda question: RulePlanner().plan(question, catalog)


def first(plan: Plan) -> str:
    return plan.candidates[0].sql


def test_queries_without_sense(catalog: Catalog) -> None:
    schema = SchemaIndex(catalog)

    def column(name: str) -> int:
        found = schema.column_id("bills", name)
        assert found is not None
        return found

    amount, number, clerk = column("amount"), column("bill_no"), column("clerk_id")
    count = SelectItem(None, "count")
    for query in (
        Query((SelectItem(clerk, "sum"),)),
        Query((SelectItem(column("id"), "avg"),)),
        Query((count,), where=(Condition(SelectItem(amount), "between", ("2025-01-01", "2025-01-31")),)),
        Query((SelectItem(number),), group=(number,), order=((count, True),), limit=1),
        Query((SelectItem(number),), where=(Condition(SelectItem(number), "=", "0020123"),)),
    ):
        assert not makes_sense(query, schema), query
    for query in (
        Query((SelectItem(amount, "sum"),)),
        Query((SelectItem(clerk, "count", True),)),
        Query((SelectItem(clerk), count), group=(clerk,)),
        Query((SelectItem(amount),), where=(Condition(SelectItem(number), "=", "0020123"),)),
    ):
        assert makes_sense(query, schema), query


def test_a_word_of_the_value_is_not_the_column_that_is_asked_for(plan: Callable[[str], Plan]) -> None:
    assert first(plan("What is the amount of bill 0020123?")) == (
        "SELECT amount FROM bills WHERE bill_no = '0020123'"
    )


@pytest.mark.parametrize(
    "question, condition",
    [
        ("How many bills are unpaid?", "WHERE paid_on IS NULL"),
        ("How many bills are paid?", "WHERE NOT paid_on IS NULL"),
        ("How many bills have not been paid?", "WHERE paid_on IS NULL"),
        ("How many unpaid bills are there?", "WHERE paid_on IS NULL"),
    ],
)
def test_an_event_that_may_be_missing_is_a_condition(
    plan: Callable[[str], Plan], question: str, condition: str
) -> None:
    assert first(plan(question)) == f"SELECT COUNT(*) FROM bills {condition}"


def test_an_event_with_a_time_is_a_date(plan: Callable[[str], Plan]) -> None:
    found = first(plan("How many bills were paid on 2025-03-03?"))
    assert found == "SELECT COUNT(*) FROM bills WHERE paid_on = '2025-03-03'"


def test_groups_of_people_are_people_and_not_first_names(plan: Callable[[str], Plan]) -> None:
    found = first(plan("How many bills does each clerk have?"))
    assert found.startswith("SELECT T1.first_name, T1.last_name, COUNT(*)")
    assert found.endswith("GROUP BY T1.id")


def test_the_earliest_is_never_the_rarest(plan: Callable[[str], Plan]) -> None:
    shown = [candidate.sql for candidate in plan("What is the earliest issued on of bills?").candidates]
    assert not any("COUNT(*)" in sql for sql in shown)


def test_the_largest_one_is_shown_with_what_was_compared(plan: Callable[[str], Plan]) -> None:
    found = first(plan("What is the largest unpaid bill?"))
    assert found == "SELECT bill_no, amount FROM bills WHERE paid_on IS NULL ORDER BY amount DESC LIMIT 1"


def test_who_is_not_a_date(plan: Callable[[str], Plan]) -> None:
    found = plan("Who issued the most bills?")
    assert found.abstained or "clerks" in first(found)


def test_have_is_not_the_name_of_a_column(plan: Callable[[str], Plan]) -> None:
    assert not any("has_discount" in c.sql for c in plan("How many bills does each clerk have?").candidates)


def test_what_is_missing_is_compared_by_key_and_not_by_name(tmp_path: Path) -> None:
    """Of two customers with one name, an EXCEPT of names would lose the one without orders."""
    sales = catalog_from_sqlite(Path(make_samples(tmp_path)["sales"].removeprefix("sqlite:///")))
    found = RulePlanner().plan("What are the names of customers who have no orders?", sales)
    assert "NOT id IN" in first(found)
    assert not any("EXCEPT" in candidate.sql for candidate in found.candidates)
