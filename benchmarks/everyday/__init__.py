"""Everyday databases with questions as an analyst asks them. Nothing is learned from them.

Each `Part` makes its tables from fixed random numbers, so a count is the same on every machine. A question has
the query that answers it, or None if the tables cannot answer it. `TODAY` is the date of the questions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date
from typing import NamedTuple

TODAY = date(2025, 6, 18)  # a Wednesday

Rows = dict[str, list[tuple[object, ...]]]


class Part(NamedTuple):
    """A database: its tables, a function that returns their rows, and questions with their queries."""

    name: str
    script: str
    rows: Callable[[], Rows]
    questions: tuple[tuple[str, str | None], ...]
    alternatives: Mapping[str, tuple[str, ...]] = {}  # other queries that answer a question as well
