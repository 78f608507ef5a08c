"""The result of the planner: a query with its certainty, its links, and alternatives.

If the planner *abstains*, `sql` and `expression` are None, and `candidates` lists what it considered, best
first. `threshold` is the certainty that every query needs. `unmapped` are the words that the query does not
read. `hash` depends only on the catalog's dialect and the plan, not on time or location.
"""

from __future__ import annotations

import msgspec
from sqlglot import exp


class LinkedSpan(msgspec.Struct, frozen=True, kw_only=True):
    """Words of the question and their meaning: `kind` is table, column, value, number or word."""

    text: str
    kind: str
    target: str
    role: str
    start: int
    end: int


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """One interpretation of the question."""

    sql: str
    expression: exp.Expression
    certainty: float
    unmapped: tuple[str, ...] = ()


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The planner's result for one question."""

    question: str
    sql: str | None
    expression: exp.Expression | None
    certainty: float
    abstained: bool
    candidates: tuple[Candidate, ...]
    links: tuple[LinkedSpan, ...]
    unmapped: tuple[str, ...]
    assumptions: tuple[str, ...] = ()  # sentences for the user
    threshold: float = 0.0
    hash: str
