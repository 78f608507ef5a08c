"""Look up 150 literals in a table of 100,000 rows: an answer is about the literal, or there is none."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from benchmarks.everyday.bikes import BIKES
from benchmarks.nl2sql_everyday import make
from clew_nl2sql import Pipeline

Lookup = tuple[str, str | None]  # a question, and its only value; None if no row has the literal


def lookups() -> list[Lookup]:
    """Return questions about codes, numbers, e-mail addresses and people; of some, no row exists."""
    rows, random = BIKES.rows(), Random(5)
    found: list[Lookup] = []
    for ride in random.sample(rows["rides"], 50):
        quote = random.choice(("", "'", '"'))
        found.append((f"What is the fare of ride {quote}{ride[1]}{quote}?", str(ride[8])))
    for ride in random.sample(
        rows["rides"], 30
    ):  # codes are seven apart, so one more is another ride's neighbour
        code = f"R{int(str(ride[1])[1:]) + random.choice((-1, 1, 2))}"
        found.append((f"What is the fare of ride {code}?", None))
    for bike in random.sample(rows["bikes"], 20):
        found.append((f"What is the price of the bike with serial number {bike[1]}?", str(bike[5])))
    for bike in random.sample(rows["bikes"], 10):
        found.append((f"What is the price of the bike with serial number {str(bike[1])[:-1]}?", None))
    for rider in random.sample(rows["riders"], 20):
        found.append((f"What is the postal code of the rider with email {rider[3]}?", str(rider[5])))
    for rider in random.sample(rows["riders"], 10):
        found.append((f"What is the postal code of the rider with email x{rider[3]}?", None))
    for station in random.sample(rows["stations"], 10):
        found.append((f"What is the name of the station with code {station[1]}?", str(station[2])))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("dialect", ["sqlite", "duckdb", "postgres"])
def test_no_answer_is_about_something_else(tmp_path: Path, dialect: str) -> None:
    asked = lookups()
    assert len(asked) == 150
    answered = 0
    with Pipeline({"bikes": make(BIKES, tmp_path, dialect)}) as pipeline:
        for question, wanted in asked:
            answer = pipeline.ask(question)
            if answer.status == "answered" and answer.rows:
                answered += 1
                assert wanted is not None, f"{question} was answered with {answer.rows[:3]}"
                assert [_same(row, wanted) for row in answer.rows] == [True], f"{question} {answer.sql}"
    assert answered >= 80  # a pipeline that answers nothing would show nothing


def _same(row: tuple[Any, ...], wanted: str) -> bool:
    values = [str(value) for value in row]
    return wanted in values or any(
        _is_number(v) and _is_number(wanted) and float(v) == float(wanted) for v in values
    )


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).isdigit() and not (text.startswith("0") and "." not in text)
