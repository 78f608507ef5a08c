"""Every shape of question that the planner is for, over a database that nothing was learned from."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from clew_nl2sql.planner import Catalog, RulePlanner, catalog_from_sqlite
from nl2sql.tests.planner.museums import build

SHAPES = [
    ("count", "How many paintings are there?", {(6,)}),
    ("filter", "What are the titles of paintings with a price higher than 500?",
     {("Low Tide",), ("Red Market",), ("Ferry",)}),
    ("value", "What are the names of artists from Norway?", {("Ada Berg",), ("Dov Katz",)}),
    ("group", "How many artists are there for each country?", {("Norway", 2), ("Ghana", 1), ("Italy", 1)}),
    ("group and having", "What are the names of artists who have at least 2 paintings?",
     {("Ada Berg",), ("Chiara Neri",)}),
    ("join over two keys", "What are the names of artists whose paintings are in the museum named 'Casa Grande'?",
     {("Ben Okoro",), ("Chiara Neri",), ("Ada Berg",)}),
    ("nested average", "What are the titles of paintings whose price is higher than the average price?",
     {("Low Tide",), ("Red Market",), ("Ferry",)}),
    ("set difference", "What are the names of museums that do not have any paintings?", {("The Attic",)}),
    ("date range", "How many visits have a visit date between 2023-02-01 and 2023-06-30?", {(3,)}),
    ("either", "What are the names of artists from Ghana or Italy?", {("Ben Okoro",), ("Chiara Neri",)}),
    ("superlative", "What is the name of the oldest artist?", {("Dov Katz",)}),
    ("most by count", "What is the name of the artist with the most paintings?", {("Ada Berg",)}),
]  # fmt: skip


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("museums") / "museums.sqlite")


@pytest.fixture(scope="module")
def catalog(database: Path) -> Catalog:
    return catalog_from_sqlite(database)


def _rows(database: Path, sql: str) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(database)
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


@pytest.mark.parametrize(
    "question, expected", [(q, e) for _, q, e in SHAPES], ids=[name for name, _, _ in SHAPES]
)
def test_shape(question: str, expected: set[tuple[object, ...]], database: Path, catalog: Catalog) -> None:
    plan = RulePlanner(threshold=0.0).plan(question, catalog)
    assert plan.sql is not None
    rows = _rows(database, plan.sql)
    assert {frozenset(row) for row in rows} == {frozenset(row) for row in expected}, plan.sql


def test_top_k_is_descending(database: Path, catalog: Catalog) -> None:
    plan = RulePlanner(threshold=0.0).plan("List the titles of the top 3 most expensive paintings.", catalog)
    assert plan.sql is not None
    assert _rows(database, plan.sql) == [("Low Tide",), ("Ferry",), ("Red Market",)]


def test_order_is_as_asked(database: Path, catalog: Catalog) -> None:
    plan = RulePlanner(threshold=0.0).plan("List the names of artists in descending order of age.", catalog)
    assert plan.sql is not None
    assert _rows(database, plan.sql) == [("Dov Katz",), ("Ada Berg",), ("Ben Okoro",), ("Chiara Neri",)]
