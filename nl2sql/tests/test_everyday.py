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
