"""Figures, groups and periods mean what the words of a question say, and what has several readings is asked back."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from clew_nl2sql.planner import Plan, RulePlanner
from clew_nl2sql.planner.building.render import UnjoinableTablesError, to_expression, to_sql
from clew_nl2sql.planner.candidates import candidates
from clew_nl2sql.planner.catalog import Catalog, catalog_from_sqlite
from clew_nl2sql.planner.judging.unsupported import CEILING
from clew_nl2sql.planner.linear_model import shipped
from clew_nl2sql.planner.linking.parsed_question import ParsedQuestion

SCRIPT = """
CREATE TABLE inns (id INTEGER PRIMARY KEY, name TEXT NOT NULL, stars INTEGER NOT NULL, number_of_beds INTEGER NOT NULL);
CREATE TABLE waiters (
  id INTEGER PRIMARY KEY, full_name TEXT NOT NULL, inn_id INTEGER REFERENCES inns(id), started_on DATE NOT NULL,
  left_on DATE, hourly_rate NUMERIC NOT NULL);
CREATE TABLE bookings (
  id INTEGER PRIMARY KEY, booking_no TEXT NOT NULL, inn_id INTEGER NOT NULL REFERENCES inns(id),
  booked_at TIMESTAMP NOT NULL, arrives_on DATE NOT NULL, leaves_on DATE NOT NULL,
  price NUMERIC NOT NULL, channel TEXT NOT NULL, breakfast INTEGER NOT NULL, rating INTEGER);
CREATE TABLE shifts (
  id INTEGER PRIMARY KEY, waiter_id INTEGER NOT NULL REFERENCES waiters(id), shift_started_at TIMESTAMP NOT NULL,
  swapped_on DATE);
CREATE TABLE transfers (
  id INTEGER PRIMARY KEY, from_inn_id INTEGER NOT NULL REFERENCES inns(id),
  to_inn_id INTEGER NOT NULL REFERENCES inns(id), agreed_on DATE NOT NULL, confirmed_on DATE NOT NULL);
"""


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    path: Path = tmp_path_factory.mktemp("inns") / "inns.db"
    with closing(sqlite3.connect(path)) as opened, opened:
        opened.executescript(SCRIPT)
        for n in range(1, 9):
            opened.execute("INSERT INTO inns VALUES (?, ?, ?, ?)", (n, f"Inn {n}", 1 + n % 5, 10 + n))
        for n in range(1, 41):
            home, left = (None if n % 9 == 0 else 1 + n % 8), (None if n % 4 else f"2024-0{1 + n % 9}-01")
            row = (n, f"Kim Berg{n}", home, f"20{10 + n % 12}-03-01", left, 10 + n)
            opened.execute("INSERT INTO waiters VALUES (?, ?, ?, ?, ?, ?)", row)
        for n in range(1, 301):
            day = f"2024-{1 + n % 12:02d}-{1 + n % 28:02d}"
            row = (n, f"B-{n * 7}", 1 + n % 8, f"{day} 10:00:00", day, day, n * 1.5, ("web", "phone", "desk")[n % 3],
                   n % 2, None if n % 5 else 1 + n % 5)  # fmt: skip
            opened.execute("INSERT INTO bookings VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
            shift = (n, 1 + n % 40, f"{day} 08:00:00", None if n % 3 else day)
            opened.execute("INSERT INTO shifts VALUES (?, ?, ?, ?)", shift)
            opened.execute(
                "INSERT INTO transfers VALUES (?, ?, ?, ?, ?)", (n, 1 + n % 8, 1 + n % 7, day, day)
            )
    return catalog_from_sqlite(path)


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


@pytest.fixture(scope="module")
def plan(catalog: Catalog) -> Callable[[str], Plan]:
    return lambda question: RulePlanner().plan(question, catalog)


@pytest.mark.parametrize(
    "question",
    [
        "How many bookings are there?",
        "bookings per channel",
        "How much do bookings cost?",
        "What is the sum of the prices?",
    ],
)
def test_a_figure_is_no_list(queries: Callable[[str], list[str]], question: str) -> None:
    lists = ("SELECT booking_no", "SELECT channel FROM", "SELECT id")
    assert not [sql for sql in queries(question) if sql.startswith(lists)]


@pytest.mark.parametrize(
    "question, never",
    [
        ("What is the average price for each channel?", "SELECT AVG(price) FROM bookings"),
        ("What is the average price per inn?", "SELECT AVG(T1.price) FROM"),
        ("Which 3 inns have the most bookings?", "= 3"),
        ("Which 3 inns have the most bookings?", "ORDER BY T2.booked_at"),
        ("Which 3 inns have the highest total price?", "GROUP BY T2.id"),
        ("Which inns have bookings of more than 50?", "HAVING COUNT(*) > 50"),
        ("What is the total price of bookings for breakfast?", "SELECT SUM(price), "),
        ("What is the average rating of each waiter?", "AVG(hourly_rate)"),
        ("Which waiters started before 2015?", "shift_started_at"),
        ("How many bookings are there between 2024-05-01 and 2024-05-31?", "arrives_on"),
        ("How many waiters does Inn 3 have?", "SELECT COUNT(*) FROM inns WHERE"),
        ("Which waiters are not in any inn?", "NOT inn_id IN (SELECT id FROM inns)"),
        ("Which inn booked the most bookings?", "GROUP BY T2.booked_at"),
        ("How many bookings include breakfast?", "LIKE '%breakfast%'"),
    ],
)
def test_a_query_with_other_figures_is_no_candidate(
    queries: Callable[[str], list[str]], question: str, never: str
) -> None:
    assert not [sql for sql in queries(question) if never in sql]


@pytest.mark.parametrize(
    "question, sql",
    [
        ("How many waiters are still active?", "SELECT COUNT(*) FROM waiters WHERE left_on IS NULL"),
        ("How many active waiters are there?", "SELECT COUNT(*) FROM waiters WHERE left_on IS NULL"),
        ("How many bookings have breakfast?", "SELECT COUNT(*) FROM bookings WHERE breakfast = 1"),
        (
            "How many bookings were made between 2024-05-01 and 2024-05-31?",
            "SELECT COUNT(*) FROM bookings WHERE booked_at >= '2024-05-01' AND booked_at < '2024-06-01'",
        ),
    ],
)
def test_what_goes_on_has_no_end_and_a_period_its_usual_date(
    plan: Callable[[str], Plan], question: str, sql: str
) -> None:
    made = plan(question)
    assert made.sql == sql
    assert not made.unmapped


def test_a_state_in_other_words_is_stated(plan: Callable[[str], Plan]) -> None:
    (line,) = plan("How many active waiters are there?").assumptions
    assert "active" in line
    assert "left_on" in line


@pytest.mark.parametrize(
    "question",
    [
        "How many transfers were there between 2024-05-01 and 2024-05-31?",  # agreed or confirmed
        "How many bookings were done between 2024-05-01 and 2024-05-31?",  # booked, or over
        "How many bookings are there between 2025-05-01 and 2025-05-31?",  # nothing was booked then
        "How many beds does Inn 3 have?",
        "Which inns have no transfers?",  # from there, or to it
        "Which waiters were never swapped?",
    ],
)
def test_several_readings_are_asked_back(plan: Callable[[str], Plan], question: str) -> None:
    made = plan(question)
    assert made.abstained or made.unmapped or made.certainty <= CEILING


def test_similar_words_are_not_read(plan: Callable[[str], Plan]) -> None:
    assert "transport" in plan("How many transport are there?").unmapped
