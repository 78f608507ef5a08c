"""Planner without a model or network: it translates English questions to SQL by rules and a small ranking.

`RulePlanner().plan(question, catalog)` returns a `Plan`. The same question and catalog give the same plan in
every process. If the planner is not certain, it abstains and lists candidates.

The steps, in the order of the modules: `tokens` and `inflection` split and normalize words; `schema_linking`,
`value_linking`, `comment_linking` and `cues` find what they may mean in the `schema_index`; `parsed_question`
holds the result; `decisions`, `value_decisions` and `cue_decisions` list the `acts` that each piece may stand
for; `assignment_search` finds likely assignments; `assembly` builds queries from them; `features` describes
whole queries; `dry_run` runs the best ones on sampled rows; `certainty` decides whether to answer, and
`unsupported` lists what is never answered. `render` writes SQL with sqlglot, `joins` finds join paths,
`linear_model` reads the learned weights.
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
