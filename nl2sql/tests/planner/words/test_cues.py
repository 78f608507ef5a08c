"""Numbers with their comparisons, counting, aggregates and superlatives."""

from __future__ import annotations

import pytest

from clew_nl2sql.planner.words.cues import find_amounts, find_cues
from clew_nl2sql.planner.words.tokens import tokenize


@pytest.mark.parametrize(
    "text, op, values",
    [
        ("more than 5 books", ">", (5,)),
        ("at least three books", ">=", (3,)),
        ("no more than 10", "<=", (10,)),
        ("2010 or later", ">=", (2010,)),
        ("before the year 1950", "<", (1950,)),
        ("between 60 and 120", "between", (60, 120)),
        ("between $60 and $120", "between", (60, 120)),
        ("exactly one book", "=", (1,)),
        ("fewer than 3", "<", (3,)),
        ("not older than 30", "<=", (30,)),
        ("in or after 2005", ">=", (2005,)),
        ("after 2020-05-01", ">", ("2020-05-01",)),
        ("in 1999", "=", (1999,)),
    ],
)
def test_amounts(text: str, op: str, values: tuple[object, ...]) -> None:
    amounts = find_amounts(tokenize(text))
    assert [(a.op, a.values) for a in amounts] == [(op, values)]


def test_two_comparisons_stay_apart() -> None:
    amounts = find_amounts(tokenize("population bigger than 1500 or smaller than 500"))
    assert [(a.op, a.values) for a in amounts] == [(">", (1500,)), ("<", (500,))]


@pytest.mark.parametrize(
    "text, kind, what",
    [
        ("how many books", "count", "count"),
        ("the average price", "agg", "avg"),
        ("the total price", "agg", "sum"),
        ("the highest price", "super", "desc"),
        ("the fewest pages", "super", "asc"),
        ("longer than any other", "cmp", ">"),
        ("how old is he", "deg", "how"),
    ],
)
def test_cues(text: str, kind: str, what: str) -> None:
    assert [(c.kind, c.what) for c in find_cues(tokenize(text))] == [(kind, what)]


def test_a_superlative_knows_how_many() -> None:
    assert [c.limit for c in find_cues(tokenize("the 5 oldest people"))] == [5]
    assert [c.limit for c in find_cues(tokenize("the top 3 songs"))] == [3]


def test_at_least_is_no_superlative() -> None:
    assert find_cues(tokenize("at least two people")) == []
