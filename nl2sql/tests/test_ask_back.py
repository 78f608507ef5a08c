"""For an uncertain question, a person chooses between up to three readings."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clew import Engine
from clew_nl2sql import Pipeline, UserContext
from clew_nl2sql.errors import ErrorCode, UsageError
from clew_nl2sql.planner.catalog import Catalog
from clew_nl2sql.replay_graphs import graph_for
from clew_nl2sql.schemas import CandidateModel, PlanModel, ReadingsQuestion

ALL = "SELECT COUNT(*) FROM patients"
LYON = "SELECT COUNT(*) FROM patients WHERE city = 'Lyon'"
SAME = "SELECT COUNT(id) FROM patients WHERE city = 'Lyon'"
BERN = "SELECT name FROM patients WHERE city = 'Bern'"
HIDDEN = "SELECT COUNT(*) FROM salaries"
HEAVY = "SELECT name, weight FROM patients ORDER BY weight DESC"
QUESTION = "How many patients are there?"


class Unsure:
    """A planner that names several queries and chooses none."""

    def __init__(self, *sql: str, unmapped: tuple[str, ...] = ()) -> None:
        self.sql, self.unmapped, self.calls = sql, unmapped, 0

    def plan(self, question: str, catalog: Catalog) -> PlanModel:
        self.calls += 1
        candidates = tuple(CandidateModel(sql=sql, certainty=0.2) for sql in self.sql)
        if self.unmapped:
            return PlanModel(sql=self.sql[0], certainty=0.9, candidates=candidates, unmapped=self.unmapped)
        return PlanModel(abstained=True, certainty=0.2, candidates=candidates, threshold=0.5)


@pytest.fixture
def clinic(tmp_path: Path) -> dict[str, str]:
    with sqlite3.connect(tmp_path / "clinic.db") as opened:
        opened.executescript(
            "CREATE TABLE patients (id INTEGER PRIMARY KEY, name TEXT, city TEXT, weight REAL);"
            "INSERT INTO patients VALUES (1, 'Ada', 'Lyon', 60), (2, 'Bo', 'Bern', 80), (3, 'Cy', 'Lyon', 90);"
            "CREATE TABLE salaries (amount INTEGER)"
        )
    opened.close()
    return {"clinic": f"sqlite:///{tmp_path}/clinic.db"}


class Person:
    """Answers with a number, and keeps what was asked."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.asked: list[ReadingsQuestion] = []

    def __call__(self, question: ReadingsQuestion) -> int:
        self.asked.append(question)
        return self.number


New = Callable[..., Pipeline]


def test_readings_in_words_with_their_sql_and_first_row(clinic: dict[str, str], new_pipeline: New) -> None:
    person = Person(2)
    answer = new_pipeline(clinic, planner=Unsure(ALL, LYON, BERN, HEAVY)).ask(QUESTION, choose=person)
    (asked,) = person.asked
    assert (asked.source, asked.question) == ("clinic", QUESTION)
    assert [reading.words for reading in asked.readings] == [
        "the number of patients",
        "the number of patients, where city is 'Lyon'",
        "name of patients, where city is 'Bern'",
    ]
    assert [reading.row for reading in asked.readings] == [(3,), (2,), ("Bo",)]
    assert "'Lyon'" in asked.readings[1].sql
    assert (answer.status, answer.rows) == ("answered", ((2,),))
    assert answer.scans[0].chosen == asked.readings[1].words
    assert answer.text.splitlines()[0] == f"Chosen: {asked.readings[1].words}."


def test_readings_with_equal_rows_are_one_and_failing_ones_none(
    clinic: dict[str, str], new_pipeline: New
) -> None:
    person = Person(1)
    planner = Unsure("SELECT nope FROM patients", LYON, SAME, "DROP TABLE patients", ALL)
    new_pipeline(clinic, planner=planner).ask(QUESTION, choose=person)
    assert [reading.row for reading in person.asked[0].readings] == [(2,), (3,)]


def test_a_reading_never_shows_what_the_user_may_not_see(clinic: dict[str, str], new_pipeline: New) -> None:
    person = Person(1)
    user = UserContext(user_id="ann", policies=("clinic.patients",))
    new_pipeline(clinic, planner=Unsure(HIDDEN, ALL)).ask(QUESTION, user=user, choose=person)
    assert [reading.row for reading in person.asked[0].readings] == [(3,)]


def test_none_of_the_readings(clinic: dict[str, str], new_pipeline: New) -> None:
    abstained = new_pipeline(clinic, planner=Unsure(ALL, LYON)).ask(QUESTION, choose=Person(0))
    assert (abstained.status, abstained.rows) == ("unanswered", ())
    assert abstained.errors[0].code is ErrorCode.PLAN_ABSTAINED
    partial = new_pipeline(clinic, planner=Unsure(ALL, LYON, unmapped=("allergic",)))
    assert partial.ask(QUESTION, choose=Person(0)).status == "partial"


def test_unread_words_are_asked_back_too(clinic: dict[str, str], new_pipeline: New) -> None:
    pipeline = new_pipeline(clinic, planner=Unsure(ALL, LYON, unmapped=("allergic",)))
    assert pipeline.ask(QUESTION).status == "partial"
    answer = pipeline.ask(QUESTION, choose=Person(1))
    assert (answer.status, answer.rows) == ("answered", ((3,),))


def test_a_certain_question_is_not_asked_back(clinic: dict[str, str], new_pipeline: New) -> None:
    person = Person(1)
    assert new_pipeline(clinic).ask(QUESTION, choose=person).rows == ((3,),)
    assert person.asked == []


def test_a_run_waits_and_is_continued_by_another_pipeline(
    clinic: dict[str, str], new_pipeline: New, tmp_path: Path
) -> None:
    store = tmp_path / "runs.db"
    waiting = new_pipeline(clinic, store=store, planner=Unsure(ALL, LYON)).ask(QUESTION, ask_back=True)
    assert (waiting.status, [len(asked.readings) for asked in waiting.questions]) == ("unanswered", [2])
    assert waiting.to_dict()["questions"][0]["readings"][1]["row"] == [2]
    later = new_pipeline(clinic, store=store, planner=Unsure())
    for wrong in (3, -1, "1"):
        with pytest.raises(UsageError):
            later.choose(waiting.run_id, wrong)
    answer = later.choose(waiting.run_id, 2)
    assert (answer.status, answer.rows, answer.questions) == ("answered", ((2,),), ())
    with pytest.raises(UsageError):
        later.choose(waiting.run_id, 2)


def test_a_choice_is_recorded_and_replays_without_anything(clinic: dict[str, str], new_pipeline: New) -> None:
    pipeline = new_pipeline(clinic, planner=Unsure(ALL, LYON))
    answer = pipeline.ask(QUESTION, choose=Person(2))
    graph = graph_for(pipeline.engine.runs()[0].target)
    assert graph is not None
    report = Engine(graph, store=pipeline.engine.store).replay(answer.run_id)
    assert report.ok, str(report)


def test_a_choice_is_remembered_for_the_same_question_of_the_same_user(
    clinic: dict[str, str], new_pipeline: New, tmp_path: Path
) -> None:
    store = tmp_path / "runs.db"
    pipeline = new_pipeline(clinic, store=store, planner=Unsure(ALL, LYON))
    pipeline.ask(QUESTION, choose=Person(2), remember=True)
    pipeline.close()
    again = new_pipeline(clinic, store=store, planner=Unsure(ALL, LYON))
    assert again.ask("How many patients are here?").status == "unanswered"
    answer = again.ask(f"  {QUESTION.lower()}")
    assert (answer.status, answer.rows, answer.questions) == ("answered", ((2,),), ())
    assert answer.text.startswith("As chosen before: ")
    other = UserContext(user_id="bob", policies=("*",))
    assert again.ask(QUESTION, user=other).status == "unanswered"
    assert again.replay(answer.run_id).ok
    again.ask(QUESTION, run_id="later", choose=Person(1))
    assert again.answer("later").rows == ((2,),)


def test_a_remembered_choice_is_an_input_of_the_run(clinic: dict[str, str], new_pipeline: New) -> None:
    pipeline = new_pipeline(clinic, planner=Unsure(ALL, LYON), store=None)
    pipeline.ask(QUESTION, choose=Person(2), remember=True)
    first = pipeline.ask(QUESTION)
    pipeline._choices._stored.clear()
    assert pipeline.replay(first.run_id).ok
    assert pipeline.answer(first.run_id).rows == ((2,),)


def test_a_remembered_choice_that_no_longer_fits_is_asked_again(
    clinic: dict[str, str], new_pipeline: New, tmp_path: Path
) -> None:
    pipeline = new_pipeline(clinic, planner=Unsure(ALL, LYON), store=None, catalog_ttl=0.0)
    pipeline.ask(QUESTION, choose=Person(2), remember=True)
    with sqlite3.connect(tmp_path / "clinic.db") as opened:
        opened.execute("ALTER TABLE patients RENAME COLUMN city TO town")
    opened.close()
    person = Person(1)
    answer = pipeline.ask(QUESTION, choose=person)
    assert (len(person.asked), answer.rows) == (1, ((3,),))


@pytest.mark.parametrize("number", [4, "x", None])
def test_an_answer_that_is_not_a_reading_is_refused(
    clinic: dict[str, str], new_pipeline: New, number: Any
) -> None:
    pipeline = new_pipeline(clinic, planner=Unsure(ALL, LYON))
    with pytest.raises(UsageError):
        pipeline.ask(QUESTION, choose=lambda _: number)
