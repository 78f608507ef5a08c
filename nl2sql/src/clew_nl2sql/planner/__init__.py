"""Planner without a model or network: it translates English questions to SQL by rules and a small ranking.

`RulePlanner().plan(question, catalog)` returns a `Plan`. The same question and catalog give the same plan in
every process. If the planner is not certain, it abstains and lists candidates.

Each step is a folder, and imports only the ones before it: `words` splits and normalizes the question; `linking`
finds what its words may mean in the schema, and holds the result (`parsed_question`); `deciding` lists the acts
that each piece may stand for, and searches for likely assignments; `building` makes queries from them, writes SQL
with sqlglot, and runs the best ones on sampled rows; `ranking` describes whole queries and decides whether to answer;
`judging` drops candidates that contradict the question, and finds unread words and ambiguities. `candidates` and
`rule_planner` put them together. `catalog` and `query` are the data, `linear_model` reads the learned weights.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clew_nl2sql.planner.catalog import Catalog, Column, ForeignKey, Table, catalog_from_sqlite

if TYPE_CHECKING:
    from clew_nl2sql.planner.plan import Candidate, LinkedSpan, Plan
    from clew_nl2sql.planner.rule_planner import RulePlanner

__all__ = [
    "Candidate",
    "Catalog",
    "Column",
    "ForeignKey",
    "LinkedSpan",
    "Plan",
    "RulePlanner",
    "Table",
    "catalog_from_sqlite",
]


def __getattr__(name: str) -> Any:
    """Import modules that need sqlglot on first use, so that a catalog alone is cheap."""
    if name in ("Candidate", "LinkedSpan", "Plan"):
        from clew_nl2sql.planner import plan as plans

        return getattr(plans, name)
    if name == "RulePlanner":
        from clew_nl2sql.planner.rule_planner import RulePlanner

        return RulePlanner
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
