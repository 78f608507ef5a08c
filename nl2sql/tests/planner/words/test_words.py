"""Tokens, word forms and likeness: what the linking stands on."""

from __future__ import annotations

import pytest

from clew_nl2sql.planner.words.inflection import lemma, parts, stem
from clew_nl2sql.planner.words.similarity import alike
from clew_nl2sql.planner.words.tokens import tokenize


@pytest.mark.parametrize(
    "plural, singular",
    [("cities", "city"), ("people", "person"), ("addresses", "address"), ("ids", "id"), ("status", "status"),
     ("boxes", "box"), ("series", "series"), ("courses", "course"), ("bus", "bus")],
)  # fmt: skip
def test_lemma(plural: str, singular: str) -> None:
    assert lemma(plural) == singular


def test_related_words_share_a_stem() -> None:
    assert stem("enrolled") == stem("enrollment")
    assert stem("founded") == stem("founder")
    assert stem("painting") != stem("museum")


@pytest.mark.parametrize(
    "name, words",
    [
        ("order_items", ("order", "items")),
        ("petType", ("pet", "type")),
        ("HTTPCode2", ("http", "code", "2")),
        ("größe", ("größe",)),
        ("StraßenName_2", ("straßen", "name", "2")),
        ("été", ("été",)),
    ],
)
def test_parts_of_identifiers(name: str, words: tuple[str, ...]) -> None:
    assert parts(name) == words


@pytest.mark.parametrize(
    "word, schema_word, way",
    [("artists", "artist", "exact"), ("enrolled", "enrollment", "stem"), ("movie", "film", "synonym"),
     ("enrollment", "enr", "prefix"), ("calender", "calendar", "fuzzy"), ("february", "feb", "exact")],
)  # fmt: skip
def test_ways_to_be_alike(word: str, schema_word: str, way: str) -> None:
    found = alike(word, schema_word)
    assert found is not None
    assert found[1] == way


def test_unlike_words_are_unlike() -> None:
    assert alike("painting", "museum") is None


def test_quotes_numbers_dates_and_contractions() -> None:
    tokens = tokenize("""Who doesn't own "New York" on 2020-01-31 for $1,200.50, the dog's bed?""")
    assert [t.low for t in tokens if t.kind == "word"][:4] == ["who", "does", "not", "own"]
    assert [t.text for t in tokens if t.kind == "quoted"] == ["New York"]
    assert [t.value for t in tokens if t.kind == "number"] == [1200.50]
    assert [t.text for t in tokens if t.kind == "date"] == ["2020-01-31"]
    assert "dog" in [t.low for t in tokens]


def test_tokens_know_their_place() -> None:
    question = "Show 'Low Tide', please."
    for token in tokenize(question):
        piece = question[token.start : token.end].strip("'")
        assert piece.lower() == token.low
