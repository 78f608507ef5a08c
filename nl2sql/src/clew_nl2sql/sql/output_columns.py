"""Classify the columns of a result: read from a table, computed, or a count.

Only a column that was read can join two results; a sum that happens to equal an id cannot. A count of no rows
is 0, while a sum of no rows is None, so counts are a separate class.
"""

from __future__ import annotations

from typing import Any, Literal

from sqlglot import exp

Role = Literal["attribute", "measure", "count"]


def roles_of(tree: exp.Expression) -> list[tuple[Role, str]]:
    """Return role and table of each column of the result; fewer if a star stands for several columns."""
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
    """Return whether the query defines the order of its rows."""
    root: Any = tree
    while isinstance(root, exp.Subquery):
        if root.args.get("order"):
            return True
        root = root.this
    return bool(root.args.get("order"))
