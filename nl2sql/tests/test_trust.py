"""A question is answered only if every word of it was read, and every query that is tried is certain enough."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from clew_nl2sql import Pipeline
from clew_nl2sql.planner.catalog import Catalog
from clew_nl2sql.schemas import CandidateModel, PlanModel

SCRIPT = """
CREATE TABLE patients (id INTEGER PRIMARY KEY, name TEXT, city TEXT, weight_kg INTEGER);
INSERT INTO patients VALUES (1, 'Ada', 'Lyon', 60), (2, 'Bo', 'Bern', 80), (3, 'Cy', 'Lyon', 90);
"""


@pytest.fixture
def clinic(tmp_path: Path) -> dict[str, str]:
    with sqlite3.connect(tmp_path / "clinic.db") as opened:
        opened.executescript(SCRIPT)
    opened.close()
    return {"clinic": f"sqlite:///{tmp_path}/clinic.db"}


@pytest.fixture
def ask(clinic: dict[str, str], new_pipeline: Callable[..., Pipeline]) -> Callable[..., Any]:
    return new_pipeline(clinic).ask


@pytest.mark.parametrize(
    "question, word",
    [
        ("How many patients are allergic?", "allergic"),
        ("How many patients complained?", "complained"),
        ("How many patients came yesterday evening?", "evening"),
        ("List the names of the unhappy patients.", "unhappy"),
        ("How many of them live in Lyon?", "them"),
        ("And in Bern?", "And"),
    ],
)
def test_an_unread_word_is_not_answered(ask: Callable[..., Any], question: str, word: str) -> None:
    answer = ask(question)
    assert answer.status in ("partial", "unanswered")
    if answer.status == "partial":
        assert repr(word) in answer.text.splitlines()[0]


@pytest.mark.parametrize(
    "question, rows",
    [
        ("How many patients are there?", 3),
        ("How many patients live in Lyon?", 2),
        ("Please tell me how many patients have a weight above 70 kilograms.", 2),
    ],
)
def test_fillers_light_verbs_and_units_are_read(ask: Callable[..., Any], question: str, rows: int) -> None:
    answer = ask(question)
    assert (answer.status, answer.rows) == ("answered", ((rows,),))


def test_a_candidate_below_the_threshold_is_not_tried(
    clinic: dict[str, str], new_pipeline: Callable[..., Pipeline]
) -> None:
    class Sure:
        def plan(self, question: str, catalog: Catalog) -> PlanModel:
            others = (CandidateModel(sql="SELECT count(*) FROM patients", certainty=0.0012),)
            return PlanModel(sql="SELECT nope FROM patients", certainty=0.9, candidates=others, threshold=0.5)

    answer = new_pipeline(clinic, planner=Sure()).ask("How many patients are there?")
    assert (answer.status, answer.rows) == ("unanswered", ())
    assert answer.scans[0].sql is None or "nope" in answer.scans[0].sql


def test_people_are_shown_by_first_and_last_name(
    tmp_path: Path, new_pipeline: Callable[..., Pipeline]
) -> None:
    with sqlite3.connect(tmp_path / "staff.db") as opened:
        opened.executescript(
            "CREATE TABLE customers (id INTEGER PRIMARY KEY, first_name TEXT, last_name TEXT, postcode TEXT);"
            "INSERT INTO customers VALUES (1, 'Ada', 'Byron', '00650'), (2, 'Ada', 'King', '10115')"
        )
    opened.close()
    answer = new_pipeline({"crm": f"sqlite:///{tmp_path}/staff.db"}).ask(
        "Which customers have the postcode 00650?"
    )
    assert (answer.status, answer.rows) == ("answered", (("Ada", "Byron"),))


def test_a_part_that_one_source_cannot_place_is_not_answered(ask: Callable[..., Any]) -> None:
    answer = ask("How many patients are there, and what is the weather in Paris?")
    assert answer.status in ("partial", "unanswered")


def test_generated_run_ids_are_uuids(ask: Callable[..., Any]) -> None:
    run_id = ask("How many patients are there?").run_id
    assert UUID(run_id.removeprefix("ask-")).version == 4
