"""What happened and when, in a database with short names and few declared keys."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import date
from pathlib import Path

import pytest

from clew_nl2sql.decompose.rewrite import dated
from clew_nl2sql.planner.building.render import UnjoinableTablesError, to_expression, to_sql
from clew_nl2sql.planner.candidates import candidates
from clew_nl2sql.planner.catalog import Catalog, catalog_from_sqlite
from clew_nl2sql.planner.deciding.acts import Filter, RankByCount
from clew_nl2sql.planner.deciding.value_decisions import amount_decision
from clew_nl2sql.planner.judging.shapes import has_strange_shape
from clew_nl2sql.planner.judging.unread import unread
from clew_nl2sql.planner.linear_model import shipped
from clew_nl2sql.planner.linking.parsed_question import ParsedQuestion
from clew_nl2sql.planner.linking.schema_index import prepare
from clew_nl2sql.planner.query import Query, SelectItem

SCRIPT = """
CREATE TABLE fitter (
  fitter_no INTEGER PRIMARY KEY, fname TEXT NOT NULL, lname TEXT NOT NULL, mgr_no INTEGER, joined DATE NOT NULL,
  newsletter_reader BOOLEAN NOT NULL);
CREATE TABLE yard (yard_cd TEXT PRIMARY KEY, yard_name TEXT NOT NULL, opened DATE NOT NULL, closed DATE,
  lease_year INTEGER NOT NULL);
CREATE TABLE job (
  job_no TEXT PRIMARY KEY, fitter_no INTEGER NOT NULL REFERENCES fitter(fitter_no), yard_cd TEXT NOT NULL,
  status TEXT NOT NULL, opened_ts TIMESTAMP NOT NULL, closed_ts TIMESTAMP, cost NUMERIC NOT NULL,
  rush_flg INTEGER NOT NULL, under_warranty INTEGER NOT NULL);
CREATE TABLE worklog (
  log_id INTEGER PRIMARY KEY, job_no TEXT NOT NULL, fitter_no INTEGER NOT NULL, logged_ts TIMESTAMP NOT NULL,
  hours NUMERIC NOT NULL);
CREATE TABLE permit (permit_id INTEGER PRIMARY KEY, placed_on DATE NOT NULL, sent_on DATE NOT NULL);
"""


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    path: Path = tmp_path_factory.mktemp("yards") / "yards.db"
    with closing(sqlite3.connect(path)) as opened, opened:
        opened.executescript(SCRIPT)
        first, last = ("Ada", "Bo", "Cy", "Di"), ("Berg", "Holm", "Lund", "Moe")
        fitter = [
            (n, first[n % 4], last[n // 4], None if n < 2 else n % 2, f"20{10 + n % 9}-03-01", n % 2)
            for n in range(16)
        ]
        opened.executemany("INSERT INTO fitter VALUES (?, ?, ?, ?, ?, ?)", fitter)
        yards = [("N", "North", "2001-01-01", None, 2021), ("S", "South", "2005-01-01", "2023-05-05", 2023)]
        opened.executemany("INSERT INTO yard VALUES (?, ?, ?, ?, ?)", yards)
        opened.execute("INSERT INTO permit VALUES (1, '2024-05-01', '2024-06-01')")
        for n in range(400):
            day = f"20{19 + n % 6}-{1 + n % 12:02d}-{1 + n % 28:02d} 10:00:00"
            state, done = ("open", None) if n % 3 else ("closed", day)
            row = (
                f"J-{n + 1000}",
                n % 14,
                "NS"[n % 2],
                state,
                day,
                done,
                500 + 20 * n,
                n % 5 == 0,
                n % 7 == 0,
            )
            opened.execute("INSERT INTO job VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
            log = (n, f"J-{n * 7 % 400 + 1000}", n % 14, day, 1 + n % 8)
            opened.execute("INSERT INTO worklog VALUES (?, ?, ?, ?, ?)", log)
    return catalog_from_sqlite(path)


@pytest.fixture(scope="module")
def queries(catalog: Catalog) -> Callable[[str], list[str]]:
    """Return the candidates for a question, those that leave words unread with these words."""

    def find(question: str) -> list[str]:
        parsed = ParsedQuestion(question, catalog)
        found = []
        for candidate in candidates(parsed, shipped()):
            try:
                sql = to_sql(to_expression(candidate.query, parsed.schema), "sqlite")
                found.append(" ".join((sql, *unread(parsed, candidate))))
            except UnjoinableTablesError:
                continue
        return found

    return find


def test_a_column_with_the_name_of_a_key_refers_to_it(catalog: Catalog) -> None:
    schema = prepare(catalog)
    edges = {(schema.columns[a].name, schema.tables[schema.columns[b].table].name) for a, b in schema.edges}
    assert ("job_no", "job") in edges


@pytest.mark.parametrize(
    "question", ["How many jobs were opened in 2023?", "How many jobs did Ada Berg open in 2023?"]
)
def test_an_event_is_no_state(catalog: Catalog, question: str) -> None:
    assert all(v.text not in ("open", "opened") for v in ParsedQuestion(question, catalog).values)


def test_a_state_is_one(catalog: Catalog) -> None:
    assert [v.text for v in ParsedQuestion("How many open jobs are there?", catalog).values] == ["open"]


@pytest.mark.parametrize(
    "question, expected",
    [
        ("Which yards have closed?", "SELECT yard_name FROM yard WHERE NOT closed IS NULL"),
        (
            "Which fitters have never opened a job?",
            "SELECT fname, lname FROM fitter WHERE NOT fitter_no IN (SELECT fitter_no FROM job)",
        ),
        ("How many rush jobs are there?", "SELECT COUNT(*) FROM job WHERE rush_flg = 1"),
        (
            "How many fitters are readers of the newsletter?",
            "SELECT COUNT(*) FROM fitter WHERE newsletter_reader = 1",
        ),
        ("How many warranty jobs are there?", "SELECT COUNT(*) FROM job WHERE under_warranty = 1"),
        (
            "Who is the manager of Ada Moe?",
            "SELECT fname, lname FROM fitter WHERE fitter_no IN "
            "(SELECT mgr_no FROM fitter WHERE fname = 'Ada' AND lname = 'Moe')",
        ),
        ("What is the newest job?", "SELECT job_no, opened_ts FROM job ORDER BY opened_ts DESC LIMIT 1"),
    ],
)
def test_what_happened_is_read(queries: Callable[[str], list[str]], question: str, expected: str) -> None:
    assert expected in queries(question)


@pytest.mark.parametrize(
    "question, expected",
    [
        (
            "What are the total hours per month?",
            "SELECT SUBSTRING(logged_ts, 1, 7) AS month, SUM(hours) FROM worklog GROUP BY SUBSTRING(logged_ts, 1, 7) "
            "ORDER BY SUBSTRING(logged_ts, 1, 7) ASC",
        ),
        (
            "How many jobs were opened in each year?",
            "SELECT SUBSTRING(opened_ts, 1, 4) AS year, COUNT(*) FROM job GROUP BY SUBSTRING(opened_ts, 1, 4) "
            "ORDER BY SUBSTRING(opened_ts, 1, 4) ASC",
        ),
        (
            "How many permits are there for each month?",
            "SELECT SUBSTRING(placed_on, 1, 7) AS month, COUNT(*) FROM permit GROUP BY SUBSTRING(placed_on, 1, 7) "
            "ORDER BY SUBSTRING(placed_on, 1, 7) ASC",
        ),
        (
            "Which month had the highest total hours?",
            "SELECT SUBSTRING(logged_ts, 1, 7) AS month FROM worklog GROUP BY SUBSTRING(logged_ts, 1, 7) "
            "ORDER BY SUM(hours) DESC LIMIT 1",
        ),
    ],
)
def test_groups_of_time_cut_the_date(
    queries: Callable[[str], list[str]], question: str, expected: str
) -> None:
    assert expected in queries(question)


@pytest.mark.parametrize(
    "question",
    [
        "How many jobs are there per year?",  # opened or closed
        "How many jobs were closed per month?",  # some were not
        "How many fitters worked in each year?",  # a fitter joined then, and did not work then
        "In which year was the yard North opened?",
        "How many hours were invoiced per month?",  # that is another day
    ],
)
def test_other_times_make_no_groups(catalog: Catalog, question: str) -> None:
    assert ParsedQuestion(question, catalog).period is None


@pytest.mark.parametrize(
    "question, excluded",
    [
        ("How many jobs with their cost were finished before 2020?", "cost <"),
        ("How many rush jobs are there?", "DISTINCT rush_flg"),
        ("jobs opened per month", "month FROM"),
        ("How many fitters worked at the yard North between 2021-01-01 and 2021-12-31?", "joined"),
    ],
)
def test_what_makes_no_sense_is_no_candidate(
    queries: Callable[[str], list[str]], question: str, excluded: str
) -> None:
    assert [query for query in queries(question) if excluded in query] == []


def test_a_range_is_not_about_keys(catalog: Catalog) -> None:
    parsed = ParsedQuestion("Which fitters have made more than 9 jobs?", catalog)
    compared = [o.act.column for o in amount_decision(parsed, 0).options if isinstance(o.act, Filter)]
    assert [
        parsed.schema.columns[column].name for column in compared if parsed.schema.columns[column].is_id
    ] == []


def test_the_most_hours_are_not_rows(catalog: Catalog) -> None:
    parsed = ParsedQuestion("Which fitters have the most hours?", catalog)
    ranks = [c.assignment.acts("super", RankByCount) for c in candidates(parsed, shipped())]
    assert [found for found in ranks if list(found)] == []


def test_a_figure_is_added_up_for_what_is_shown(catalog: Catalog) -> None:
    parsed = ParsedQuestion("Which 3 fitters have the highest total hours?", catalog)
    name, own = parsed.schema.column_id("fitter", "lname"), parsed.schema.column_id("fitter", "fitter_no")
    log, hours = parsed.schema.column_id("worklog", "log_id"), parsed.schema.column_id("worklog", "hours")
    assert own is not None
    assert log is not None
    best = Query((SelectItem(name),), group=(own,), order=((SelectItem(hours, "sum"), True),), limit=3)
    assert not has_strange_shape(parsed, best)
    assert has_strange_shape(parsed, best._replace(group=(log,)))
    assert has_strange_shape(parsed, best._replace(limit=1))


@pytest.mark.parametrize(
    "question, said",
    [
        (
            "Which fitters opened the most jobs in 2023?",
            "Which fitters opened the most jobs with opened ts between 2023-01-01 and 2023-12-31?",
        ),
        (
            "Which fitters have the most hours in 2023?",
            "Which fitters have the most hours with logged ts between 2023-01-01 and 2023-12-31?",
        ),
        ("Which yards have a lease in 2023?", "Which yards have a lease in 2023?"),
        # Several dates of the job may be meant.
        ("Which jobs are from 2023?", "Which jobs are from 2023?"),
        (
            "How many jobs had fitters in 2023?",
            "How many jobs had fitters between 2023-01-01 and 2023-12-31?",
        ),
    ],
)
def test_a_period_belongs_to_what_was_done(catalog: Catalog, question: str, said: str) -> None:
    assert dated(question, catalog, date(2025, 6, 18)) == said
