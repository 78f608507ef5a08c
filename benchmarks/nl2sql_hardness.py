"""Easy, medium, hard, extra: how much a gold query does, by the counts that the Spider benchmark introduced.

One count for clauses, one for nesting, one for repeated parts; a table over the three gives the class.
"""

from __future__ import annotations

import sqlglot
from sqlglot import exp

LEVELS = ("easy", "medium", "hard", "extra")


def hardness(sql: str) -> str:
    """The class of a query; one that cannot be parsed is extra."""
    try:
        tree = sqlglot.parse_one(sql.strip().rstrip(";"), dialect="sqlite")
    except sqlglot.errors.SqlglotError:
        return "extra"
    first = tree
    nested = 0
    while isinstance(first, exp.SetOperation):
        nested += 1
        first = first.this
    if isinstance(first, exp.Subquery):
        first = first.this
    if not isinstance(first, exp.Select):
        return "extra"
    nested += sum(1 for s in first.find_all(exp.Select) if s is not first)
    return _level(_clauses(first), nested, _repeats(first))


def _own(select: exp.Select, *kinds: type[exp.Expression]) -> list[exp.Expression]:
    return [n for n in select.find_all(*kinds) if n.find_ancestor(exp.Select) is select]


def _clauses(select: exp.Select) -> int:
    found = sum(select.args.get(name) is not None for name in ("where", "group", "order", "limit"))
    found += len(select.args.get("joins") or [])
    return found + len(_own(select, exp.Or)) + len(_own(select, exp.Like))


def _repeats(select: exp.Select) -> int:
    where = select.args.get("where")
    conditions = 0
    if where is not None:
        conditions = 1 + sum(n.find_ancestor(exp.Select) is select for n in where.find_all(exp.And, exp.Or))
    group = select.args.get("group")
    return sum(
        (
            len(_own(select, exp.AggFunc)) > 1,
            len(select.expressions) > 1,
            conditions > 1,
            group is not None and len(group.expressions) > 1,
        )
    )


def _level(clauses: int, nested: int, repeats: int) -> str:
    if clauses <= 1 and repeats == 0 and nested == 0:
        return "easy"
    if nested == 0 and ((repeats <= 2 and clauses <= 1) or (clauses <= 2 and repeats < 2)):
        return "medium"
    if nested == 0 and ((repeats > 2 and clauses <= 2) or (2 < clauses <= 3 and repeats <= 2)):
        return "hard"
    if clauses <= 1 and repeats == 0 and nested <= 1:
        return "hard"
    return "extra"
