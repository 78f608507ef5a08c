"""Abbreviations in names are read by the words of the question; where two words or two names fit, they are not."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from clew_nl2sql.planner import Catalog, RulePlanner, catalog_from_sqlite
from clew_nl2sql.planner.linking.parsed_question import ParsedQuestion
from clew_nl2sql.planner.linking.schema_index import prepare
from clew_nl2sql.planner.words.abbreviations import is_compound_of, is_short_form, may_stand_for

SCRIPT = """
CREATE TABLE ptnt (
  ptnt_no VARCHAR(8) PRIMARY KEY, nm VARCHAR(20) NOT NULL, brd VARCHAR(20) NOT NULL, wt_kg NUMERIC NOT NULL,
  vac_flg CHAR(1) NOT NULL, ft_flg SMALLINT NOT NULL, rel_dt DATE, sngl_cnt INTEGER NOT NULL);
CREATE TABLE vst (
  vst_no INTEGER PRIMARY KEY, ptnt_no VARCHAR(8) NOT NULL, dsct_amt NUMERIC NOT NULL, pnt INTEGER NOT NULL,
  nurse VARCHAR(20) NOT NULL);
"""


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    path: Path = tmp_path_factory.mktemp("vets") / "vets.db"
    with closing(sqlite3.connect(path)) as opened, opened:
        opened.executescript(SCRIPT)
        for n in range(1, 151):
            row = (f"P{n:05d}", f"Rex {n}", ("Poodle", "Collie")[n % 2], n, "YN"[n % 2], n % 2,
                   None if n % 3 else "2024-05-06", n % 4)  # fmt: skip
            opened.execute("INSERT INTO ptnt VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
            opened.execute(
                "INSERT INTO vst VALUES (?, ?, ?, ?, ?)", (n, f"P{n:05d}", n * 1.5, n % 7, f"Ann {n % 5}")
            )
    return catalog_from_sqlite(path)


@pytest.mark.parametrize(
    "part, word",
    [("veh", "vehicle"), ("rnd", "round"), ("cmpl", "complaint"), ("com", "commercial"), ("hse", "house")],
)
def test_a_beginning_or_a_skeleton_stands_for_a_word(part: str, word: str) -> None:
    assert may_stand_for(part, word)


@pytest.mark.parametrize("part, word", [("rnd", "refund"), ("veh", "have"), ("s", "sale")])
def test_other_words_have_other_abbreviations(part: str, word: str) -> None:
    assert not may_stand_for(part, word)


def test_two_letters_stand_for_two_halves() -> None:
    assert is_compound_of("hh", "household")
    assert not is_compound_of("pt", "property")


@pytest.mark.parametrize("word", ["bin", "role", "fuel", "price", "km", "own", "number", "station"])
def test_an_english_word_is_no_abbreviation(word: str) -> None:
    assert not is_short_form(word)


@pytest.mark.parametrize(
    "question, sql",
    [
        ("How many patients are there?", "SELECT COUNT(*) FROM ptnt"),
        ("How many patients are vaccinated?", "SELECT COUNT(*) FROM ptnt WHERE vac_flg = 'Y'"),
        ("How many patients have been released?", "SELECT COUNT(*) FROM ptnt WHERE NOT rel_dt IS NULL"),
        ("How many full time patients are there?", "SELECT COUNT(*) FROM ptnt WHERE ft_flg = 1"),
        ("What is the average discount amount?", "SELECT AVG(dsct_amt) FROM vst"),
    ],
)
def test_a_question_in_whole_words_is_answered(catalog: Catalog, question: str, sql: str) -> None:
    plan = RulePlanner().plan(question, catalog)

    assert (plan.sql, plan.unmapped) == (sql, ())


def test_a_word_that_fits_a_table_and_a_column_names_the_table(catalog: Catalog) -> None:
    parsed = ParsedQuestion("How many patients are there?", catalog)

    assert parsed.schema.tables[0].words == ("patient",)


@pytest.mark.parametrize(
    "question",
    [
        "How many visitors and visits are there?",  # two words for `vst`
        "How many nurses are there?",
    ],
)
def test_an_uncertain_abbreviation_is_not_read(catalog: Catalog, question: str) -> None:
    assert ParsedQuestion(question, catalog).schema is prepare(catalog)
