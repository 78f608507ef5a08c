"""A question that continues the last one is resolved against it, or not answered; never answered for everybody."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from clew_nl2sql import Conversation, Pipeline, UserContext
from clew_nl2sql.dialogue.follow_ups import is_follow_up, resolved
from clew_nl2sql.planner.catalog import Catalog, catalog_from_sqlite

SCRIPT = """
CREATE TABLE patients (id INTEGER PRIMARY KEY, name TEXT, city TEXT, gender TEXT, ward TEXT);
INSERT INTO patients VALUES (1, 'Ada', 'Lyon', 'female', 'North'), (2, 'Bo', 'Bern', 'male', 'South'),
  (3, 'Cy', 'Lyon', 'male', 'North'), (4, 'Di', 'Paris', 'female', 'South'), (5, 'Ed', 'Paris', 'male', 'South'),
  (6, 'Flo', 'Paris', 'female', 'North');
CREATE TABLE secrets (id INTEGER, town TEXT);
INSERT INTO secrets VALUES (1, 'Atlantis'), (2, 'Lyon');
"""


@pytest.fixture
def clinic(tmp_path: Path) -> Path:
    with sqlite3.connect(tmp_path / "clinic.db") as opened:
        opened.executescript(SCRIPT)
    opened.close()
    return tmp_path / "clinic.db"


@pytest.fixture
def catalog(clinic: Path) -> Catalog:
    return catalog_from_sqlite(clinic)


@pytest.mark.parametrize(
    "last, said, complete",
    [
        ("How many patients live in Lyon?", "And in Paris?", "How many patients live in Paris?"),
        ("How many patients live in Lyon?", "what about Bern?", "How many patients live in Bern?"),
        ("How many patients are in Lyon?", "And in North?", "How many patients are in Lyon in North?"),
        ("How many patients live in Lyon?", "And in Rome?", "How many patients live in Rome?"),
        ("Which patients live in Lyon?", "How many of them are male?", "How many patients that live in Lyon are male?"),
        ("How many patients are there?", "How many of those live in Lyon?", "How many patients live in Lyon?"),
        ("How many orders came in 2024?", "And in 2025?", "How many orders came in 2025?"),
        ("How many orders came last month?", "And this month?", "How many orders came this month?"),
        ("How many orders came in 2024?", "and 2023?", "How many orders came in 2023?"),
        ("How many patients are there?", "How many patients live in Lyon?", "How many patients live in Lyon?"),
        (None, "And in Paris?", None),
        (None, "How many of them are female?", None),
        ("How many patients live in Lyon or Bern?", "And in Paris?", None),
        ("How many patients are there?", "And the weather?", None),
        ("What is the average age?", "And why?", "And why?"),
    ],
)  # fmt: skip
def test_resolved(catalog: Catalog, last: str | None, said: str, complete: str | None) -> None:
    assert resolved(said, last, [catalog]) == complete


@pytest.mark.parametrize("question", [
    "And how many orders are there?", "What is the total?", "Which patients have bills, and how many of them are paid?",
])  # fmt: skip
def test_a_complete_question_is_not_a_follow_up(question: str) -> None:
    assert not is_follow_up(question)


def test_a_conversation(clinic: Path, new_pipeline: Callable[..., Pipeline]) -> None:
    talk = Conversation(new_pipeline({"clinic": f"sqlite:///{clinic}"}))
    assert talk.ask("How many patients live in Lyon?").rows == ((2,),)
    answer = talk.ask("And in Paris?")
    assert (answer.status, answer.rows) == ("answered", ((3,),))
    assert answer.question == "How many patients live in Paris?"
    assert answer.text.splitlines()[0] == "Read as: How many patients live in Paris?"
    some = talk.ask("How many of them are female?")
    assert (some.status, some.rows) == ("answered", ((2,),))
    assert talk.ask("And in Lyon?").rows == ((1,),)


def test_them_are_those_of_the_last_question(clinic: Path, new_pipeline: Callable[..., Pipeline]) -> None:
    """A question without an answer has nobody to continue with."""
    talk = Conversation(new_pipeline({"clinic": f"sqlite:///{clinic}"}))
    assert talk.ask("How many patients live in Lyon?").rows == ((2,),)
    assert talk.ask("What is the profit?").status == "unanswered"
    assert talk.ask("How many of them are female?").status != "answered"
    assert talk.ask("How many patients live in Lyon?").rows == ((2,),)
    assert talk.ask("And the weather?").status != "answered"  # continues nothing, and changes nothing
    assert talk.ask("And in Paris?").rows == ((3,),)


def test_what_continues_nothing_is_not_answered(clinic: Path, new_pipeline: Callable[..., Pipeline]) -> None:
    talk = Conversation(new_pipeline({"clinic": f"sqlite:///{clinic}"}))
    for said in ("And in Paris?", "How many of them are female?"):
        assert talk.ask(said).status in ("partial", "unanswered")


def test_values_that_the_user_may_not_see_resolve_nothing(
    clinic: Path, new_pipeline: Callable[..., Pipeline]
) -> None:
    user = UserContext(user_id="ann", policies=("clinic.patients",))
    talk = Conversation(new_pipeline({"clinic": f"sqlite:///{clinic}"}), user=user)
    assert talk.ask("How many patients are there?").rows == ((6,),)
    assert talk.ask("And in Atlantis?").status in ("partial", "unanswered")


def test_a_resolved_question_replays(clinic: Path, new_pipeline: Callable[..., Pipeline]) -> None:
    pipeline = new_pipeline({"clinic": f"sqlite:///{clinic}"})
    talk = Conversation(pipeline)
    talk.ask("How many patients live in Lyon?")
    assert pipeline.replay(talk.ask("And in Paris?").run_id).ok
