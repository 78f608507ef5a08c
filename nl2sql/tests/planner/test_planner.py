"""What a plan says besides its SQL: certainty, abstention, links, and that it never changes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from sqlglot import exp

from clew_nl2sql.planner import Catalog, Column, RulePlanner, Table, catalog_from_sqlite
from nl2sql.tests.planner.museums import build

QUESTION = "What are the names of artists from Norway?"


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("museums") / "museums.sqlite")


@pytest.fixture(scope="module")
def catalog(database: Path) -> Catalog:
    return catalog_from_sqlite(database)


def test_a_clear_question_is_answered(catalog: Catalog) -> None:
    plan = RulePlanner().plan(QUESTION, catalog)
    assert not plan.abstained
    assert plan.sql == plan.candidates[0].sql
    assert isinstance(plan.expression, exp.Select)
    assert plan.certainty == plan.candidates[0].certainty
    assert plan.unmapped == ()


def test_the_plan_shows_what_words_were_taken_for(catalog: Catalog) -> None:
    plan = RulePlanner().plan(QUESTION, catalog)
    links = {link.text: link.target for link in plan.links}
    assert links["names"] == "artist.name"
    assert links["Norway"] == "artist.country"
    for link in plan.links:
        assert QUESTION[link.start : link.end] == link.text


def test_a_question_about_something_else_is_not_answered(catalog: Catalog) -> None:
    plan = RulePlanner().plan("Which volcano erupted over the sleepy sunlit valley?", catalog)
    assert plan.abstained
    assert plan.sql is None
    assert plan.expression is None
    assert "volcano" in plan.unmapped


def test_abstaining_names_candidates_best_first(catalog: Catalog) -> None:
    plan = RulePlanner(threshold=1.01).plan(QUESTION, catalog)
    assert plan.abstained
    assert plan.sql is None
    assert plan.candidates
    certainties = [candidate.certainty for candidate in plan.candidates[1:]]
    assert certainties == sorted(certainties, reverse=True)
    assert sum(candidate.certainty for candidate in plan.candidates) <= 1 + 1e-5


def test_candidates_differ_in_their_answers(catalog: Catalog) -> None:
    plan = RulePlanner().plan("Show the price of each painting.", catalog)
    texts = [candidate.sql for candidate in plan.candidates]
    assert len(set(texts)) == len(texts)


@pytest.mark.parametrize(
    "question", ["", "?", "   ", "'", "SELECT * FROM artist; DROP TABLE artist", "é" * 300, "7 7 7"]
)
def test_no_text_breaks_it(question: str, catalog: Catalog) -> None:
    plan = RulePlanner().plan(question, catalog)
    for candidate in plan.candidates:
        assert isinstance(candidate.expression, exp.Select | exp.SetOperation)


def test_an_empty_catalog_gives_nothing() -> None:
    plan = RulePlanner().plan(QUESTION, Catalog(tables=()))
    assert plan.abstained
    assert plan.candidates == ()


def test_sql_is_of_the_catalogs_dialect() -> None:
    column = Column(name="order", type="text", kind="text", values=("a", "b"))
    catalog = Catalog(tables=(Table(name="group", columns=(column,), row_count=2),), dialect="postgres")
    plan = RulePlanner(threshold=0.0).plan('Show the order of the group with order "a".', catalog)
    assert plan.sql is not None
    assert '"group"' in plan.sql
    assert '"order"' in plan.sql


def test_the_same_question_gives_the_same_plan(catalog: Catalog, database: Path) -> None:
    first = RulePlanner().plan(QUESTION, catalog)
    again = RulePlanner().plan(QUESTION, catalog_from_sqlite(database))
    assert (again.sql, again.hash, again.certainty) == (first.sql, first.hash, first.certainty)


_CHILD = """
import json, sys
from clew_nl2sql.planner import RulePlanner, catalog_from_sqlite
catalog = catalog_from_sqlite(sys.argv[1])
plans = [RulePlanner().plan(question, catalog) for question in json.loads(sys.argv[2])]
print(json.dumps([[p.hash, [c.sql for c in p.candidates], p.unmapped] for p in plans]))
"""


def test_plans_do_not_depend_on_the_hash_seed(database: Path) -> None:
    questions = [
        QUESTION,
        "How many paintings are there for each artist?",
        "What are the names of museums that do not have any paintings?",
        "Who painted the most expensive painting?",
    ]
    seen = set()
    for seed in ("0", "1", "77"):
        found = subprocess.run(
            [sys.executable, "-c", _CHILD, str(database), json.dumps(questions)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        seen.add(found.stdout)
    assert len(seen) == 1


def test_other_dialects_compare_years_and_patterns_their_own_way() -> None:
    columns = (
        Column(name="title", type="text", kind="text", values=("Low Tide", "Ferry")),
        Column(name="sold_date", type="date", kind="date", values=("2019-05-01", "2021-02-03")),
    )
    catalog = Catalog(tables=(Table(name="painting", columns=columns, row_count=2),), dialect="postgres")
    planner = RulePlanner(threshold=0.0)
    later = planner.plan("What are the titles of paintings sold after 2020?", catalog)
    assert any("sold_date > '2020-12-31'" in candidate.sql for candidate in later.candidates)
    part = planner.plan('What are the titles of paintings whose title contains "tide"?', catalog)
    assert any("ILIKE '%tide%'" in candidate.sql for candidate in part.candidates)


# -- words that mean two things --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shop(samples: dict[str, str]) -> Catalog:
    from clew_nl2sql.sources import open_source

    return open_source(samples["sales"]).catalog()


@pytest.mark.parametrize(
    "question",
    [
        "How many customers from Norway have orders with the product 'Kite line'?",
        "What are the names of customers who have ordered the product named 'Hemp rope'?",
    ],
)
def test_nothing_is_taken_away_that_nobody_denied(shop: Catalog, question: str) -> None:
    for candidate in RulePlanner().plan(question, shop).candidates:
        assert "EXCEPT" not in candidate.sql
        assert "NOT" not in candidate.sql


@pytest.mark.parametrize(
    "question, sorted_rows",
    [
        ("What are the names of the customers and the names of the products that they ordered?", False),
        ("What is the total quantity of rope ordered by customers from France?", False),
        ("What are the names of products ordered by Ariadne Yarns?", False),
        ("List the names of customers ordered by country", True),
        ("List the names of products ordered alphabetically", True),
        ("List the names of products, ordered by price", True),
    ],
)
def test_to_order_is_to_sort_or_to_buy(shop: Catalog, question: str, sorted_rows: bool) -> None:
    plan = RulePlanner().plan(question, shop)
    assert ("ORDER BY" in plan.candidates[0].sql) == sorted_rows


def test_names_in_other_languages_are_whole() -> None:
    size = Column(name="größe", type="REAL", kind="number", values=(1.5, 2.5))
    table = Table(name="bestellung", columns=(Column(name="id", kind="number", primary_key=True), size))
    plan = RulePlanner().plan("What is the average größe of bestellung?", Catalog(tables=(table,)))
    assert plan.candidates[0].sql == 'SELECT AVG("größe") FROM bestellung'
