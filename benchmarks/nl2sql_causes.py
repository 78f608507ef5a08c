"""Why an answer is wrong: the first part of the query in which it differs from the gold query.

Parts are compared as sets, from the coarse to the fine, so that a missing table is not reported as a wrong column.
"""

from __future__ import annotations

from benchmarks.nl2sql_gold import Gold, analyse
from clew_nl2sql.planner.catalog import Catalog
from clew_nl2sql.planner.linking.schema_index import prepare

_PARTS = (
    ("set operation or negation", lambda g: (g.set_op, frozenset(g.negative), frozenset(g.excluded))),
    ("nested comparison", lambda g: frozenset((c, a) for c, _, a in g.compared)),
    ("what is selected", lambda g: frozenset(g.select)),
    ("filter", lambda g: frozenset(g.where)),
    ("grouping", lambda g: (bool(g.group), frozenset(g.having))),
    ("order or limit", lambda g: (frozenset(g.order), frozenset(g.limits))),
    ("tables", lambda g: frozenset(g.tables)),
)


def cause(gold_sql: str, sql: str, catalog: Catalog) -> str:
    """The name of the first part that differs."""
    schema = prepare(catalog)
    try:
        gold: Gold = analyse(gold_sql, schema)
        made: Gold = analyse(sql, schema)
    except Exception:  # a query that sqlglot cannot read has no parts to compare
        return "unreadable gold query"
    for name, part in _PARTS:
        if part(gold) != part(made):
            return name
    return "duplicates, group key or join path"
