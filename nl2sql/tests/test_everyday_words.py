"""Dates, flags, missing values and ages, on SQLite, DuckDB and PostgreSQL."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

from clew_nl2sql import Pipeline
from clew_nl2sql.decompose import LinkingDecomposer
from clew_nl2sql.decompose.dates import in_birth_dates, in_days

TODAY = date(2025, 6, 18)  # a Wednesday
SCRIPT = """
CREATE TABLE members (
  id INTEGER PRIMARY KEY, name VARCHAR(20) NOT NULL, birth_date DATE NOT NULL, phone VARCHAR(20), is_active BOOLEAN NOT NULL);
CREATE TABLE visits (
  id INTEGER PRIMARY KEY, member_id INTEGER REFERENCES members(id), started_at TIMESTAMP NOT NULL, paid CHAR(1) NOT NULL,
  minutes INTEGER);
"""  # noqa: E501


def members() -> list[tuple[Any, ...]]:
    names = ("Ada", "Bo", "Cy", "Di", "Ed", "Flo", "Gus", "Hal", "Ida", "Jo")
    born = [date(1950 + 6 * n, 6, 18) for n in range(10)]
    return [(n + 1, names[n], born[n], None if n % 3 == 0 else f"0{n}55", n % 4 != 0) for n in range(10)]


def visits() -> list[tuple[Any, ...]]:
    """Return five visits a day at odd hours, from the start of 2024 to the end of June 2025."""
    found = []
    for day in range(547):
        for hour in (0, 7, 12, 18, 23):
            number = len(found) + 1
            at = datetime(2024, 1, 1, hour, 59, 59) + timedelta(days=day)
            member, minutes = (number % 9) + 1, number % 50 or None
            found.append(
                (number, None if number % 11 == 0 else member, at, "Y" if number % 3 else "N", minutes)
            )
    return found


@pytest.fixture(scope="module", params=["sqlite", "duckdb", "postgres"])
def club(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A pipeline over the same rows in each engine."""
    folder = tmp_path_factory.mktemp("club")
    address = {"sqlite": _sqlite, "duckdb": _duckdb, "postgres": _postgres}[request.param](folder, request)
    with Pipeline({"club": address}, decomposer=LinkingDecomposer(today=lambda _: TODAY)) as pipeline:
        yield pipeline


def _sqlite(folder: Path, _: Any) -> str:
    with sqlite3.connect(folder / "club.db") as opened:
        opened.executescript(SCRIPT)
        plain = [[(str(v) if isinstance(v, date) else v) for v in row] for row in members()]
        opened.executemany("INSERT INTO members VALUES (?, ?, ?, ?, ?)", plain)
        plain = [[(str(v) if isinstance(v, datetime) else v) for v in row] for row in visits()]
        opened.executemany("INSERT INTO visits VALUES (?, ?, ?, ?, ?)", plain)
    opened.close()
    return f"sqlite:///{folder}/club.db"


def _duckdb(folder: Path, _: Any) -> str:
    with duckdb.connect(str(folder / "club.duckdb")) as opened:
        opened.execute(SCRIPT)
        opened.executemany("INSERT INTO members VALUES (?, ?, ?, ?, ?)", members())
        opened.executemany("INSERT INTO visits VALUES (?, ?, ?, ?, ?)", visits())
    return f"duckdb:///{folder}/club.duckdb"


def _postgres(_: Path, request: pytest.FixtureRequest) -> str:
    import psycopg

    from nl2sql.tests.conftest import address

    server = request.getfixturevalue("server")
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("CREATE DATABASE club")
    made = address(server, "club")
    with psycopg.connect(made) as connection:
        connection.execute(SCRIPT)
        with connection.cursor() as cursor:
            cursor.executemany("INSERT INTO members VALUES (%s, %s, %s, %s, %s)", members())
            cursor.executemany("INSERT INTO visits VALUES (%s, %s, %s, %s, %s)", visits())
    return made


def day(year: int, month: int, number: int) -> date:
    return date(year, month, number)


TIMES = {
    "on 2025-03-03": (day(2025, 3, 3), day(2025, 3, 3)),
    "between 2025-03-03 and 2025-03-05": (day(2025, 3, 3), day(2025, 3, 5)),
    "before 2024-02-01": (day(2024, 1, 1), day(2024, 1, 31)),
    "after 2025-06-01": (day(2025, 6, 2), day(2025, 6, 30)),
    "since 2025-06-01": (day(2025, 6, 1), day(2025, 6, 30)),
    "until 2024-01-31": (day(2024, 1, 1), day(2024, 1, 31)),
    "in 2024": (day(2024, 1, 1), day(2024, 12, 31)),
    "in May 2025": (day(2025, 5, 1), day(2025, 5, 31)),
    "last month": (day(2025, 5, 1), day(2025, 5, 31)),
    "yesterday": (day(2025, 6, 17), day(2025, 6, 17)),
    "today": (day(2025, 6, 18), day(2025, 6, 18)),
    "in the last 30 days": (day(2025, 5, 19), day(2025, 6, 17)),
    "in the last 2 weeks": (day(2025, 6, 2), day(2025, 6, 15)),
    "in the last three months": (day(2025, 3, 1), day(2025, 5, 31)),
    "in the last 2 quarters": (day(2024, 10, 1), day(2025, 3, 31)),
    "this year": (day(2025, 1, 1), day(2025, 12, 31)),
    "last week": (day(2025, 6, 9), day(2025, 6, 15)),
    "in Q1 2025": (day(2025, 1, 1), day(2025, 3, 31)),
}


@pytest.mark.parametrize("when", TIMES)
def test_a_day_includes_its_hours(club: Pipeline, when: str) -> None:
    first, last = TIMES[when]
    expected = sum(first <= at.date() <= last for _, _, at, *_ in visits())
    answer = club.ask(f"How many visits started {when}?")
    assert (answer.status, answer.rows) == ("answered", ((expected,),)), answer.sql


def test_groups_of_time(club: Pipeline) -> None:
    answer = club.ask("How many visits started per month in 2024?")
    months = Counter(at.strftime("%Y-%m") for _, _, at, *_ in visits() if at.year == 2024)
    assert (answer.status, answer.rows) == ("answered", tuple(sorted(months.items()))), answer.sql


def test_a_time_of_others_makes_no_groups(club: Pipeline) -> None:
    assert club.ask("How many members came per year?").status != "answered"


FLAGS: dict[str, Callable[[], int]] = {
    "How many members are active?": lambda: sum(m[4] for m in members()),
    "How many inactive members are there?": lambda: sum(not m[4] for m in members()),
    "How many members are not active?": lambda: sum(not m[4] for m in members()),
    "How many visits are paid?": lambda: sum(v[3] == "Y" for v in visits()),
    "How many unpaid visits are there?": lambda: sum(v[3] == "N" for v in visits()),
    "How many visits are not paid?": lambda: sum(v[3] == "N" for v in visits()),
    "How many members have no phone?": lambda: sum(m[3] is None for m in members()),
    "How many members are without a phone?": lambda: sum(m[3] is None for m in members()),
    "How many visits have no member?": lambda: sum(v[1] is None for v in visits()),
    "How many members are older than 50?": lambda: sum(m[2] <= date(1974, 6, 18) for m in members()),
    "How many members are younger than 21?": lambda: sum(m[2] > date(2004, 6, 18) for m in members()),
    "How many members are at least 21 years old?": lambda: sum(m[2] <= date(2004, 6, 18) for m in members()),
    "What is the smallest minutes of visits?": lambda: 1,
}


@pytest.mark.parametrize("question", FLAGS)
def test_flags_missing_values_and_ages(club: Pipeline, question: str) -> None:
    answer = club.ask(question)
    assert (answer.status, answer.rows) == ("answered", ((FLAGS[question](),),)), answer.sql


def test_the_smallest_is_not_a_missing_one(tmp_path: Path, new_pipeline: Callable[..., Pipeline]) -> None:
    with sqlite3.connect(tmp_path / "p.db") as opened:
        opened.executescript(
            "CREATE TABLE projects (id INTEGER PRIMARY KEY, title TEXT, budget INTEGER);"
            "INSERT INTO projects VALUES (1, 'a', NULL), (2, 'b', 7), (3, 'c', 3), (4, 'd', 9)"
        )
    opened.close()
    answer = new_pipeline({"p": f"sqlite:///{tmp_path}/p.db"}).ask("Which project has the smallest budget?")
    assert (answer.status, answer.rows) == ("answered", (("c",),))


def test_a_number_is_never_compared_with_a_date(club: Pipeline) -> None:
    answer = club.ask("How many members are over 30?")
    assert not any("birth_date > 30" in sql or "birth_date < 30" in sql for sql in answer.sql.values())


@pytest.mark.parametrize(
    "when",
    [
        "on 31 February 2025",
        "on 2025-02-31",
        "on 2025-13-01",
        "in Q5 2025",
        "in the last 0 days",
        "in the last zero months",
        "in the last 9999 years",
        "in the last 99999 days",
        "in the last 9999 minutes",
    ],
)
def test_what_is_no_time_is_not_answered(club: Pipeline, when: str) -> None:
    assert club.ask(f"How many visits started {when}?").status in ("partial", "unanswered")


@pytest.mark.parametrize(
    "text, days",
    [
        ("on 3 March 2025", "between 2025-03-03 and 2025-03-03"),
        ("on March 3rd, 2025", "between 2025-03-03 and 2025-03-03"),
        ("since May 2025", "since 2025-05-01"),
        ("until May 2025", "until 2025-05-31"),
        ("before May 2025", "before 2025-05-01"),
        ("after May 2025", "after 2025-05-31"),
        ("in the second quarter of 2024", "between 2024-04-01 and 2024-06-30"),
        ("year to date", "between 2025-01-01 and 2025-06-18"),
        ("between 1 March and 31 May 2025", "between 2025-03-01 and 2025-05-31"),
        ("from March to May 2025", "between 2025-03-01 and 2025-05-31"),
        ("between 1 March and 31 April 2025", "between 1 March and 31 April 2025"),
        ("in May", "in May"),
        ("on 05/06/2025", "on 05/06/2025"),
        ("on 31 February 2025", "on 31 February 2025"),
        ("on February 0, 2025", "on February 0, 2025"),
        ("in the last 0 days", "in the last 0 days"),
        ("in the last 9999 years", "in the last 9999 years"),
    ],
)
def test_times_in_words(text: str, days: str) -> None:
    assert in_days(text, TODAY) == days


@pytest.mark.parametrize(
    "text, days",
    [
        ("aged 30", "with born between 1994-06-19 and 1995-06-18"),
        ("between 20 and 29 years old", "with born between 1995-06-19 and 2005-06-18"),
        ("65 or older", "with born until 1960-06-18"),
        ("18 and under", "with born after 2006-06-18"),
    ],
)
def test_ages_are_birth_dates(text: str, days: str) -> None:
    assert in_birth_dates(text, TODAY, "born") == days
