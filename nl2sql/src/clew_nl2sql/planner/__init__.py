"""The planner that needs no model and no network: English questions to SQL by rules and a small ranking.

`RulePlanner().plan(question, catalog)` gives a `Plan`. The same question over the same catalog gives the same
plan, in any process. It abstains, with candidates, where it is not certain.

How it works, in the order of its modules: `tokens` and `inflection` read words; `schema_linking`, `value_linking`,
`comment_linking` and `cues` find what they may mean in the `schema_index`; `parsed_question` holds all that together;
`decisions`, `value_decisions` and `cue_decisions` list the `acts` that every piece may stand for; `assignment_search`
finds likely assignments; `assembly` makes queries of them; `features` describes whole queries, `dry_run` runs the best
on sampled rows; `certainty` says whether to answer, and `unsupported` what never is. `render` writes SQL with sqlglot,
`joins` finds the way between tables, `linear_model` reads the learned weights.
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
    """Load what needs sqlglot only when it is asked for: a catalog alone is cheap."""
    if name in ("Candidate", "LinkedSpan", "Plan"):
        from clew_nl2sql.planner import plan as plans

        return getattr(plans, name)
    if name == "RulePlanner":
        from clew_nl2sql.planner.rule_planner import RulePlanner

        return RulePlanner
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
