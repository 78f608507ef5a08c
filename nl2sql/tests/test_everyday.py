"""Everyday databases: never a confidently wrong answer, and most questions answered."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.everyday import Part
from benchmarks.nl2sql_everyday import PARTS, evaluate

LEAST_RIGHT = 0.6  # of the questions that the tables can answer
LEAST_AMONG = 0.8  # right, or among the three readings that a person can choose from


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_no_answer_is_wrong_and_most_are_right(part: Part) -> None:
    verdicts = evaluate(part)
    assert [v.question for v in verdicts if v.outcome == "wrong"] == []
    answerable = {question for question, sql in part.questions if sql is not None}
    counts = Counter(v.outcome for v in verdicts if v.question in answerable)
    assert counts["right"] >= LEAST_RIGHT * len(answerable), counts
    among = sum(v.among for v in verdicts if v.question in answerable)
    assert counts["right"] + among >= LEAST_AMONG * len(answerable), (counts, among)
    unanswerable = {question for question, sql in part.questions if sql is None}
    assert unanswerable
    answered = {v.question for v in verdicts if v.answer.status == "answered"}
    assert unanswerable & answered == set()


STRANGE = {  # questions in other words, each with a query that looks right and answers something else
    "letting": [
        "Which flats cost less than 600?",
        "Which trade caused the highest costs in 2024?",
        "Which tenant paid the most?",
    ],
    "vet": ["What is the email of owner 12?", "Which owner has the highest unpaid invoices?"],
    "freight": [
        "Which vehicle used the most fuel?",
        "How many fragile shipments weigh more than 5 tons?",
        "What is the average freight cost per kg?",
    ],
    "agency": ["How many people work here?", "Which client has the highest budget?"],
    "webshop": ["What is the biggest order?"],
    "bikes": ["How many riders under 25 are members?", "How many rides took more than two hours?"],
    "gym": [
        "How many bookings were cancelled last month?",
        "How many hours did Maria Lopez teach?",
        "Is Old Mill open?",
    ],
}


@pytest.mark.parametrize("part", [part for part in PARTS if part.name in STRANGE], ids=lambda part: part.name)
def test_another_question_is_not_answered(part: Part) -> None:
    strange = part._replace(questions=tuple((question, None) for question in STRANGE[part.name]))
    assert [v.question for v in evaluate(strange) if v.outcome == "wrong"] == []
