"""The planner's answer: a query with its certainty, what it was read from, and what else it might be.

When the planner *abstains*, `sql` and `expression` are None and `candidates` says what it considered, best
first. `hash` depends on the catalog's dialect, the question's plan and nothing else: no time, no address.
"""

from __future__ import annotations

import msgspec
from sqlglot import exp


class LinkedSpan(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of the question and what it was taken for: `kind` is table, column, value, number or word."""

    text: str
    kind: str
    target: str
    role: str
    start: int
    end: int


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """One way to read the question."""

    sql: str
    expression: exp.Expression
    certainty: float


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What the planner made of one question."""

    question: str
    sql: str | None
    expression: exp.Expression | None
    certainty: float
    abstained: bool
    candidates: tuple[Candidate, ...]
    links: tuple[LinkedSpan, ...]
    unmapped: tuple[str, ...]
    hash: str
