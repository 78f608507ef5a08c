"""A noun is not answered with a column that only contains its name, and a condition is no group."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from clew_nl2sql.planner import Catalog, Plan, RulePlanner, catalog_from_sqlite
from clew_nl2sql.planner.building.render import UnjoinableTablesError, to_expression, to_sql
from clew_nl2sql.planner.candidates import candidates
from clew_nl2sql.planner.judging.shapes import has_strange_shape
from clew_nl2sql.planner.linear_model import shipped
from clew_nl2sql.planner.linking.parsed_question import ParsedQuestion
from clew_nl2sql.planner.query import Query, SelectItem

SCRIPT = """
CREATE TABLE shops (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL, town TEXT NOT NULL, partner_since DATE NOT NULL,
  house_no INTEGER NOT NULL);
CREATE TABLE couriers (
  id INTEGER PRIMARY KEY, full_name TEXT NOT NULL, freelance BOOLEAN NOT NULL, fee_per_stop NUMERIC NOT NULL,
  joined_on DATE NOT NULL, training_from_courier_id INTEGER, plate TEXT NOT NULL);
CREATE TABLE stops (
  id INTEGER PRIMARY KEY, courier_id INTEGER NOT NULL REFERENCES couriers(id), street TEXT NOT NULL,
  com_flag SMALLINT NOT NULL, km NUMERIC NOT NULL);
"""


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    path: Path = tmp_path_factory.mktemp("couriers") / "couriers.db"
    with closing(sqlite3.connect(path)) as opened, opened:
        opened.executescript(SCRIPT)
        for n in range(1, 31):
            name = f"Kim B{'aeiou'[n % 5]}{'lmnrst'[n % 6]}k"
            opened.execute(
                "INSERT INTO shops VALUES (?, ?, ?, ?, ?)",
                (n, f"Shop {n}", ("Bonn", "Trier")[n % 2], f"20{9 + n % 14:02d}-04-{n % 28 + 1:02d}", n),
            )
            opened.execute(
                "INSERT INTO couriers VALUES (?, ?, ?, ?, ?, ?, ?)",
                (n, name, n % 2, 1 + n / 8, f"20{9 + n % 14:02d}-03-01", 1 + n % 4 if n > 4 else None,
                 f"BN {100 + n * 7}"),
            )  # fmt: skip
        for n in range(1, 301):
            row = (n, 1 + n % 30, f"{('Mill', 'Oak', 'Elm')[n % 3]} Lane", n % 2, n * 0.5)
            opened.execute("INSERT INTO stops VALUES (?, ?, ?, ?, ?)", row)
    return catalog_from_sqlite(path)


@pytest.fixture(scope="module")
def plan(catalog: Catalog) -> Callable[[str], Plan]:
    return lambda question: RulePlanner().plan(question, catalog)


@pytest.fixture(scope="module")
def queries(catalog: Catalog) -> Callable[[str], list[str]]:
    """Return every query that is a candidate for a question."""

    def find(question: str) -> list[str]:
        parsed = ParsedQuestion(question, catalog)
        found = []
        for candidate in candidates(parsed, shipped()):
            try:
                found.append(to_sql(to_expression(candidate.query, parsed.schema), "sqlite"))
            except UnjoinableTablesError:
                continue
        return found

    return find


@pytest.mark.parametrize(
    "question, sql",
    [
        (
            "average fee per stop of the freelancers",
            "SELECT AVG(fee_per_stop) FROM couriers WHERE freelance = 1",
        ),
        ("How many couriers are freelancers?", "SELECT COUNT(*) FROM couriers WHERE freelance = 1"),
        ("what's the number plate of Kim Bimk?", "SELECT plate FROM couriers WHERE full_name = 'Kim Bimk'"),
    ],
)
def test_a_noun_is_a_condition_or_a_column(plan: Callable[[str], Plan], question: str, sql: str) -> None:
    assert plan(question).sql == sql


@pytest.mark.parametrize(
    "question, never",
    [
        ("partners in Bonn", "SELECT partner_since FROM"),
        ("Which courier did the training for Kim Burk come from?", "ORDER BY"),
        ("Which stops come to the Mill Lane?", "com_flag"),
    ],
)
def test_another_reading_is_no_candidate(
    queries: Callable[[str], list[str]], question: str, never: str
) -> None:
    assert not [sql for sql in queries(question) if never in sql]


def test_the_origin_of_a_row_is_a_row_of_the_same_table(catalog: Catalog) -> None:
    schema = ParsedQuestion("Who is the training courier of Kim Burk?", catalog).schema
    origin = schema.column_id("couriers", "training_from_courier_id")

    assert origin is not None
    assert schema.key_of_same(origin) == schema.column_id("couriers", "id")


def test_may_is_a_month_after_a_preposition(plan: Callable[[str], Plan]) -> None:
    assert "May" in plan("How many couriers joined in May?").unmapped


def test_a_name_that_only_begins_alike_is_not_counted(plan: Callable[[str], Plan]) -> None:
    asked = plan("Which streets have had more than 90 complaints?")

    assert asked.abstained or "complaints" in asked.unmapped


def test_a_number_at_the_end_denies_nothing(catalog: Catalog) -> None:
    assert ParsedQuestion("shops in Bonn, name and house no", catalog).denials == []


def test_an_average_is_not_taken_of_each_row(catalog: Catalog) -> None:
    parsed = ParsedQuestion("average km per stop", catalog)
    km, key = (parsed.schema.column_id("stops", name) for name in ("km", "id"))
    assert km is not None
    assert key is not None
    street = parsed.schema.column_id("stops", "street")

    assert has_strange_shape(parsed, Query((SelectItem(km, "avg"),), group=(key,)))
    assert not has_strange_shape(parsed, Query((SelectItem(km, "avg"),), group=(street or 0,)))
