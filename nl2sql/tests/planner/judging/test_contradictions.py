"""Queries that contradict the words of their question are not candidates, and some questions are never answered."""

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
from clew_nl2sql.planner.judging.unread import unread
from clew_nl2sql.planner.judging.unsupported import CEILING
from clew_nl2sql.planner.linear_model import shipped
from clew_nl2sql.planner.linking.parsed_question import ParsedQuestion

SCRIPT = """
CREATE TABLE depots (id INTEGER PRIMARY KEY, name TEXT NOT NULL, town TEXT NOT NULL, opened_on DATE NOT NULL);
CREATE TABLE drivers (
  id INTEGER PRIMARY KEY, first_name TEXT NOT NULL, last_name TEXT NOT NULL, born DATE NOT NULL,
  depot_id INTEGER NOT NULL REFERENCES depots(id));
CREATE TABLE parcels (
  id INTEGER PRIMARY KEY, parcel_no TEXT NOT NULL, driver_id INTEGER REFERENCES drivers(id), sent_at TIMESTAMP NOT NULL,
  delivered_on DATE, weight_kg NUMERIC NOT NULL, cost NUMERIC NOT NULL, boxes INTEGER NOT NULL, colour TEXT,
  state TEXT NOT NULL);
CREATE TABLE claims (
  id INTEGER PRIMARY KEY, parcel_id INTEGER NOT NULL REFERENCES parcels(id), made_on DATE NOT NULL,
  amount NUMERIC NOT NULL);
CREATE TABLE fuel_receipts (
  id INTEGER PRIMARY KEY, driver_id INTEGER NOT NULL REFERENCES drivers(id), litres NUMERIC NOT NULL);
"""


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    path: Path = tmp_path_factory.mktemp("parcels") / "parcels.db"
    with closing(sqlite3.connect(path)) as opened, opened:
        opened.executescript(SCRIPT)
        depots = [(n, f"Depot {n}", ("Bonn", "Trier")[n % 2], f"201{n}-04-01") for n in range(1, 7)]
        opened.executemany("INSERT INTO depots VALUES (?, ?, ?, ?)", depots)
        drivers = [
            (n, ["Ann", "Bo", "Cy"][n % 3], f"Berg{n}", f"19{60 + n}-01-01", 1 + n % 5) for n in range(1, 31)
        ]
        opened.executemany("INSERT INTO drivers VALUES (?, ?, ?, ?, ?)", drivers)
        for n in range(1, 301):
            day = f"2024-{1 + n % 12:02d}-{1 + n % 28:02d}"
            colour = (None, None, "red", "blue")[n % 4]
            state = ("delivered", "lost", "waiting")[n % 3]
            row = (n, f"P-{n * 7}", None if n % 9 == 0 else 1 + n % 30, f"{day} 10:00:00", None if n % 3 else day,
                   n * 0.5, n * 2.25, n % 6, colour, state)  # fmt: skip
            opened.execute("INSERT INTO parcels VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        for n in range(1, 201):
            opened.execute(
                "INSERT INTO claims VALUES (?, ?, ?, ?)", (n, n, f"2024-05-{1 + n % 28:02d}", n * 3.5)
            )
            opened.execute("INSERT INTO fuel_receipts VALUES (?, ?, ?)", (n, 1 + n % 30, n * 1.5))
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
        assert found
        return found

    return find


@pytest.fixture(scope="module")
def plan(catalog: Catalog) -> Callable[[str], Plan]:
    return lambda question: RulePlanner().plan(question, catalog)


@pytest.mark.parametrize(
    "question, never, wanted",
    [
        ("How many parcels cost more than 100?", "SUM(cost) FROM parcels WHERE",
         "SELECT COUNT(*) FROM parcels WHERE cost > 100"),
        ("How many parcels weigh between 10 and 20 kg?", "SUM(weight_kg) FROM parcels WHERE",
         "SELECT COUNT(*) FROM parcels WHERE weight_kg BETWEEN 10 AND 20"),
        ("How many parcels weigh between 10 and 20 kg?", "COUNT(*) FROM parcels WHERE weight_kg BETWEEN 10 AND 20 GR",
         "SELECT COUNT(*) FROM parcels WHERE weight_kg BETWEEN 10 AND 20"),
        ("Which parcels weigh more than 50 kg?", "COUNT(*) >", "SELECT parcel_no FROM parcels WHERE weight_kg > 50"),
        ("Which parcels weigh more than 50 kg?", "SELECT weight_kg FROM parcels WHERE",
         "SELECT parcel_no FROM parcels WHERE weight_kg > 50"),
        ("What is the highest cost?", "SELECT parcel_no FROM", "SELECT MAX(cost) FROM parcels"),
        ("List the parcels with their cost", "ORDER BY", "SELECT parcel_no, cost FROM parcels"),
        ("Which depots have no drivers?", "driver_id IS NULL",
         "SELECT name FROM depots WHERE NOT id IN (SELECT depot_id FROM drivers)"),
        ("What is the largest claim?", "parcels AS", "SELECT id, amount FROM claims ORDER BY amount DESC LIMIT 1"),
    ],
)  # fmt: skip
def test_a_query_against_the_words_is_no_candidate(
    queries: Callable[[str], list[str]], question: str, never: str, wanted: str
) -> None:
    found = queries(question)
    assert not [sql for sql in found if never in sql]
    assert wanted in found


def test_rows_are_counted_once_where_a_join_repeats_them(queries: Callable[[str], list[str]]) -> None:
    found = [sql for sql in queries("Which state has the most drivers?") if "GROUP BY T1.state" in sql]
    assert any("COUNT(DISTINCT T2.id) DESC" in sql for sql in found)


def test_one_row_does_not_answer_for_each_group(queries: Callable[[str], list[str]]) -> None:
    assert not [sql for sql in queries("What is the cheapest parcel of each state?") if "LIMIT 1" in sql]


def test_a_quantity_is_not_a_number_of_rows(queries: Callable[[str], list[str]]) -> None:
    found = queries("Which driver used the most fuel?")
    assert not [sql for sql in found if "fuel_receipts" in sql and "ORDER BY COUNT(*)" in sql]


def test_a_date_belongs_to_a_named_table(queries: Callable[[str], list[str]]) -> None:
    found = queries("Which driver had the most parcels in 2024?")
    assert not [sql for sql in found if "made_on" in sql or "opened_on" in sql]


def test_the_most_common_value_is_known(queries: Callable[[str], list[str]]) -> None:
    wanted = (
        "SELECT colour FROM parcels WHERE NOT colour IS NULL GROUP BY colour ORDER BY COUNT(*) DESC LIMIT 1"
    )
    assert wanted in queries("Which colour is the most common?")


def test_people_and_places_are_shown_by_name_and_not_by_key(queries: Callable[[str], list[str]]) -> None:
    assert not [sql for sql in queries("How many drivers does each depot have?") if "SELECT T1.id" in sql]
    assert [sql for sql in queries("What is the id of each depot?") if sql.startswith("SELECT id")]


@pytest.mark.parametrize(
    "question",
    [
        "What is the total of the lost parcels?",  # a number, or a sum of costs?
        "What is the average cost per box?",
        "How old is Ann Berg3?",
        "Which state is the most expensive?",
        "Which depot has the highest parcel costs?",
        "How many parcels were delivered by each driver for each depot?",
        "Who manages Depot 3?",
        "Which parcels are neither lost nor delivered?",
    ],
)
def test_a_question_with_another_meaning_is_not_answered(plan: Callable[[str], Plan], question: str) -> None:
    found = plan(question)
    assert found.certainty <= CEILING or found.unmapped


def test_an_event_is_not_dated_by_another_one(plan: Callable[[str], Plan]) -> None:
    found = plan("How many parcels were lost in 2024?")
    assert (
        "sent_at" not in found.candidates[0].sql or not found.abstained
    )  # "lost" is not an event with a date
    late = plan("How many parcels were delivered in 2024?")
    assert "delivered_on" in late.candidates[0].sql


def test_last_is_not_a_word_of_last_name(catalog: Catalog) -> None:
    parsed = ParsedQuestion("What was the last parcel of Ann Berg3?", catalog)
    for candidate in candidates(parsed, shipped()):
        if not candidate.query.order:
            assert "last" in unread(parsed, candidate)


def test_an_event_before_a_date_is_the_one_that_is_dated(plan: Callable[[str], Plan]) -> None:
    found = plan("Which parcels delivered in 2024 weigh more than 20 kg?")
    assert not any("sent_at" in candidate.sql for candidate in found.candidates)


def test_each_year_is_not_each_day(queries: Callable[[str], list[str]]) -> None:
    found = queries("How many parcels were delivered in each year?")
    assert not [sql for sql in found if "GROUP BY delivered_on" in sql]


def test_a_word_that_denies_denies_one_thing(queries: Callable[[str], list[str]]) -> None:
    found = queries("How many parcels without a colour are lost?")
    assert "SELECT COUNT(*) FROM parcels WHERE colour IS NULL AND state = 'lost'" in found
    assert not [sql for sql in found if "colour IS NULL AND state <> 'lost'" in sql]


@pytest.mark.parametrize(
    "question, condition",
    [
        ("How many parcels have a colour?", "WHERE NOT colour IS NULL"),
        ("How many parcels have no colour?", "WHERE colour IS NULL"),
    ],
)
def test_to_have_something_is_to_know_it(plan: Callable[[str], Plan], question: str, condition: str) -> None:
    assert plan(question).candidates[0].sql == f"SELECT COUNT(*) FROM parcels {condition}"


def test_namesakes_are_counted_apart(queries: Callable[[str], list[str]]) -> None:
    found = queries("Which drivers have more than 10 parcels?")
    assert not [sql for sql in found if sql.endswith("GROUP BY T1.first_name HAVING COUNT(*) > 10")]
    assert [sql for sql in found if sql.endswith("GROUP BY T1.id HAVING COUNT(*) > 10")]


def test_a_column_with_another_name_does_not_hold_the_code(queries: Callable[[str], list[str]]) -> None:
    """The words "parcel cost" name the cost; they are not spent on the number of the parcel."""
    found = queries("What is the parcel cost of 'P-21'?")
    assert "SELECT cost FROM parcels WHERE parcel_no = 'P-21'" in found


def test_dates_have_no_sum(queries: Callable[[str], list[str]]) -> None:
    assert not [
        sql for sql in queries("What is the total delivered on of parcels?") if "SUM(delivered" in sql
    ]


def test_a_kind_is_counted_as_a_whole(queries: Callable[[str], list[str]]) -> None:
    found = queries("Which town has the most drivers?")
    assert not [sql for sql in found if "SELECT T1.town" in sql and "GROUP BY T1.id" in sql]
    assert [sql for sql in found if "SELECT T1.town" in sql and "GROUP BY T1.town" in sql]


def test_which_asks_for_a_name_and_not_for_a_reference(queries: Callable[[str], list[str]]) -> None:
    assert not [sql for sql in queries("Which drivers have lost parcels?") if "SELECT driver_id FROM" in sql]


def test_a_count_has_no_order(queries: Callable[[str], list[str]]) -> None:
    found = queries("How many parcels were sent but not delivered?")
    assert not [sql for sql in found if sql.startswith("SELECT COUNT(*) FROM parcels") and "ORDER BY" in sql]


def test_a_month_without_a_year_is_not_read(queries: Callable[[str], list[str]]) -> None:
    assert not [sql for sql in queries("How many parcels were delivered in April?") if "-04-" in sql]


@pytest.mark.parametrize(
    "question, names",
    [
        ("Show the total cost of parcels for each depot name", ".name,"),
        ("Show the total litres of fuel receipts for each driver last name", ".last_name,"),
        ("Show the total litres of fuel receipts for each driver name", ".last_name,"),
    ],
)
def test_a_group_is_shown_before_its_figures(plan: Callable[[str], Plan], question: str, names: str) -> None:
    grouped = [c.sql for c in plan(question).candidates if "_name" in c.sql or ".name" in c.sql]
    shown = [sql.partition(" FROM ")[0] for sql in grouped if "GROUP BY" in sql]
    assert [one for one in shown if names in one]
    assert not [one for one in shown if one.startswith("SELECT SUM(") and "name" in one]


def test_a_reading_without_a_name_is_not_offered_next_to_one_with_it(plan: Callable[[str], Plan]) -> None:
    found = plan("Which large depots are in Bonn?")
    assert len(found.candidates) > 1
    assert all("'Bonn'" in candidate.sql for candidate in found.candidates)


@pytest.mark.parametrize(
    "question",
    [
        "How many parcels were sent in the last 9999 years?",
        "How many parcels were sent in the last 0 weeks?",
        "How many parcels were delivered on 2024-02-30?",
        "How many parcels were delivered in Q5 2024?",
    ],
)
def test_a_time_that_does_not_exist_is_not_answered(plan: Callable[[str], Plan], question: str) -> None:
    assert plan(question).abstained


def test_rows_may_be_days(tmp_path: Path) -> None:
    """The last 3 of a table `days` are rows, and no period."""
    path = tmp_path / "days.db"
    with closing(sqlite3.connect(path)) as opened, opened:
        opened.execute(
            "CREATE TABLE days (id INTEGER PRIMARY KEY, name TEXT NOT NULL, rain NUMERIC NOT NULL)"
        )
        opened.executemany("INSERT INTO days VALUES (?, ?, ?)", [(n, f"d{n}", n % 7) for n in range(30)])
    days = catalog_from_sqlite(path)
    assert RulePlanner().plan("Show the last 3 days by rain", days).certainty > CEILING
    assert RulePlanner().plan("How much rain was there in the last 3 days?", days).certainty <= CEILING
