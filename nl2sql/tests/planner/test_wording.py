"""Small words that change the answer: a denied comparison, two directions of one order, a verb for a column."""

from __future__ import annotations

import pytest

from clew_nl2sql.planner import Catalog, Column, RulePlanner, Table, catalog_from_sqlite
from clew_nl2sql.planner.words.cues import find_amounts
from clew_nl2sql.planner.words.tokens import tokenize
from nl2sql.tests.planner.museums import build


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    return catalog_from_sqlite(build(tmp_path_factory.mktemp("museums") / "museums.sqlite"))


def _best(catalog: Catalog, question: str) -> str:
    return RulePlanner().plan(question, catalog).candidates[0].sql


def test_no_more_than_the_average_is_at_most_it(catalog: Catalog) -> None:
    sql = _best(catalog, "What are the titles of paintings whose price is no more than the average price?")
    assert sql == "SELECT title FROM painting WHERE price <= (SELECT AVG(price) FROM painting)"


@pytest.mark.parametrize(
    "question, order",
    [
        ("List the titles of paintings sorted by year in descending order and then by price in ascending order",
         "year DESC, price ASC"),
        ("List the titles of paintings in descending order of price and ascending order of year",
         "price DESC, year ASC"),
    ],
)  # fmt: skip
def test_every_key_of_an_order_has_its_own_direction(catalog: Catalog, question: str, order: str) -> None:
    assert _best(catalog, question).endswith(f"ORDER BY {order}")


def test_directions_of_nothing_break_nothing(catalog: Catalog) -> None:
    words = ("ascending", "descending", "age", "name", "sorted by", "order", "titles", "price desc")
    for first in words:
        for second in words:
            RulePlanner().plan(f"List {first} of artists {second} {first} and {second} ascending", catalog)


def test_what_costs_has_a_price(catalog: Catalog) -> None:
    sql = _best(catalog, "What are the titles of paintings costing between 300 and 700?")
    assert sql == "SELECT title FROM painting WHERE price BETWEEN 300 AND 700"


def test_a_comparison_ends_with_its_number() -> None:
    found = find_amounts(tokenize("rooms that cost less than 160 and have two beds"))
    assert [(amount.op, amount.values) for amount in found] == [("<", (160,)), ("=", (2,))]


@pytest.mark.parametrize(
    "text, found",
    [
        ("after 1961 or before 1959", [(">", 1961), ("<", 1959)]),
        ("in or before 1959", [("<=", 1959)]),
        ("sales greater 18000", [(">", 18000)]),
        ("no more than 5 rooms", [("<=", 5)]),
    ],
)
def test_comparisons(text: str, found: list[tuple[str, int]]) -> None:
    assert [(amount.op, amount.values[0]) for amount in find_amounts(tokenize(text))] == found


def test_people_are_called_after_their_country() -> None:
    country = Column(name="country", type="TEXT", kind="text", values=("Bangladesh", "Iceland", "Angola"))
    catalog = Catalog(tables=(Table(name="artist", columns=(country,), row_count=9),))
    for people, place in (("Bangladeshi", "Bangladesh"), ("Icelander", "Iceland"), ("Angolan", "Angola")):
        assert f"country = '{place}'" in _best(catalog, f"How many {people} artists are there?")


@pytest.mark.parametrize(
    "question, is_answered",
    [
        ("What are the names of museums that are not sleepy?", False),
        ("What are the names of museums without any paintings?", True),
        ("What are the titles of paintings with a price of no more than 400?", True),
    ],
)
def test_what_is_denied_is_not_told(catalog: Catalog, question: str, is_answered: bool) -> None:
    plan = RulePlanner().plan(question, catalog)
    said = {"NOT", "EXCEPT", "<>", "<="}
    assert plan.abstained or any(word in str(plan.sql) for word in said)
    assert plan.abstained != is_answered


@pytest.mark.parametrize(
    "ending, pattern",
    [
        ("starts with A", "A%"),
        ("starts with the letter A", "A%"),
        ("ends with the letter z", "%z"),
        ("contains the letter o", "%o%"),
    ],
)
def test_letters_of_a_name(catalog: Catalog, ending: str, pattern: str) -> None:
    plan = RulePlanner().plan(f"What are the ages of artists whose name {ending}?", catalog)
    assert plan.abstained or f"LIKE '{pattern}'".lower() in str(plan.sql).lower(), plan.sql


def test_when_is_answered_with_a_time(catalog: Catalog) -> None:
    for question in (
        "When was the museum named 'The Attic' opened?",
        "When was the most expensive painting sold?",
        "When did the oldest artist visit?",
    ):
        plan = RulePlanner().plan(question, catalog)
        shown = str(plan.sql).split("FROM")[0]
        assert plan.abstained or "year" in shown or "date" in shown, plan.sql


def test_a_list_of_numbers_is_one_amount() -> None:
    found = find_amounts(tokenize("the orders 3, 5, and 8 of 2 customers"))
    assert [(amount.op, amount.values) for amount in found] == [("in", (3, 5, 8)), ("=", (2,))]
    assert find_amounts(tokenize("between 3 and 5, or 8"))[0].op == "between"
