"""What the columns of a query's result are: something that was read, something that was computed, or a count.

Only what was read can join two results; a sum that happens to equal an id cannot. A count of nothing is 0, while
the sum of nothing is nothing, so the two are told apart."""

from __future__ import annotations

from typing import Any, Literal

from sqlglot import exp

Role = Literal["attribute", "measure", "count"]


def roles_of(tree: exp.Expression) -> list[tuple[Role, str]]:
    """Role and table of each column of the result; fewer where a star stands for several."""
    select: Any = tree
    while isinstance(select, exp.SetOperation | exp.Subquery):
        select = select.this
    tables = {table.alias_or_name.lower(): table.name for table in select.find_all(exp.Table)}
    only = next(iter(tables.values())) if len(tables) == 1 else ""
    found: list[tuple[Role, str]] = []
    for projection in select.expressions:
        if projection.is_star and not isinstance(projection, exp.Count):
            break
        inner = projection.unalias()
        if isinstance(inner, exp.Column):
            found.append(("attribute", tables.get(inner.table.lower(), only)))
        elif isinstance(inner, exp.Count | exp.CountIf):
            found.append(("count", ""))
        else:
            found.append(("measure", ""))
    return found


def is_ordered(tree: exp.Expression) -> bool:
    """Whether the query says in which order its rows come."""
    root: Any = tree
    while isinstance(root, exp.Subquery):
        if root.args.get("order"):
            return True
        root = root.this
    return bool(root.args.get("order"))
