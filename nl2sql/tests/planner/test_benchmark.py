"""The benchmark: when two results are one answer, how hard a query is, and a run over a small folder."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.nl2sql_execution import Database, is_ordered, same_answer
from benchmarks.nl2sql_gold import Judge, analyse
from benchmarks.nl2sql_hardness import hardness
from clew_nl2sql.planner.catalog import catalog_from_sqlite
from clew_nl2sql.planner.deciding.acts import GroupByColumn, SelectAggregate
from clew_nl2sql.planner.deciding.cue_decisions import decisions
from clew_nl2sql.planner.linking.parsed_question import ParsedQuestion
from nl2sql.tests.planner.museums import build

ROOT = Path(__file__).resolve().parents[3]


def test_rows_are_a_multiset() -> None:
    assert same_answer([(1,), (2,), (2,)], [(2,), (1,), (2,)], ordered=False)
    assert not same_answer([(1,), (2,), (2,)], [(2,), (1,), (1,)], ordered=False)
    assert not same_answer([(1,)], [(1,), (1,)], ordered=False)


def test_order_matters_where_it_was_asked_for() -> None:
    assert not same_answer([(1,), (2,)], [(2,), (1,)], ordered=True)
    assert is_ordered("SELECT a FROM t ORDER BY a")
    assert not is_ordered("SELECT a FROM t WHERE b IN (SELECT b FROM u ORDER BY c LIMIT 1)")


def test_the_order_of_columns_does_not_matter_but_their_number_does() -> None:
    assert same_answer([(1, "a"), (2, "b")], [("b", 2), ("a", 1)], ordered=False)
    assert not same_answer([(1, "a"), (2, "b")], [("b", 1), ("a", 2)], ordered=False)
    assert not same_answer([(1,)], [(1, 1)], ordered=False)


@pytest.mark.parametrize(
    "sql, level",
    [
        ("SELECT count(*) FROM t", "easy"),
        ("SELECT a, b FROM t WHERE c = 1", "medium"),
        ("SELECT a FROM t WHERE b = (SELECT max(b) FROM t)", "hard"),
        ("SELECT a FROM t WHERE b = 1 AND c = 2 EXCEPT SELECT a FROM u WHERE d = 3", "extra"),
    ],
)
def test_hardness(sql: str, level: str) -> None:
    assert hardness(sql) == level


def test_a_query_that_never_ends_is_given_up(tmp_path: Path) -> None:
    database = Database(build(tmp_path / "museums.sqlite"))
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    assert database.run(endless, limit=0.05) is None
    assert database.run("SELECT count(*) FROM artist") == [(4,)]
    database.close()


def test_training_finds_the_options_that_agree_with_a_gold_query(tmp_path: Path) -> None:
    catalog = catalog_from_sqlite(build(tmp_path / "museums.sqlite"))
    parsed = ParsedQuestion("What is the average age of the artists of each country?", catalog)
    gold = analyse("SELECT country, avg(age) FROM artist GROUP BY country", parsed.schema)
    found = decisions(parsed)
    right = Judge(gold, parsed.schema, parsed).right(found)
    acts = [decision.options[n].act for decision, good in zip(found, right) for n in good]
    age, country = (parsed.schema.column_id("artist", name) for name in ("age", "country"))
    assert any(isinstance(act, SelectAggregate) and act.columns == (age,) for act in acts)
    assert any(isinstance(act, GroupByColumn) and act.column == country for act in acts)


def test_a_run_over_a_folder(tmp_path: Path) -> None:
    (tmp_path / "databases").mkdir()
    build(tmp_path / "databases" / "museums.sqlite")
    questions = [
        {
            "db": "museums",
            "question": "How many paintings are there?",
            "sql": "SELECT count(*) FROM painting",
        },
        {"db": "museums", "question": "Sing me a song of the sea.", "sql": "SELECT name FROM artist"},
        {"db": "museums", "question": "Broken gold.", "sql": "SELECT nothing FROM nowhere"},
    ]
    (tmp_path / "questions.json").write_text(json.dumps(questions))
    found = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "nl2sql.py"), str(tmp_path), "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    figures = json.loads(found.stdout)
    assert figures["questions"] == 2
    assert figures["accuracy"] == 0.5
    assert figures["precision"] == 1.0
    assert [v["outcome"] for v in figures["verdicts"]] == ["right", "abstained"]
