"""Resolve the column names of a query.

A name is resolved as databases do it: first in the relations of the same query, then in those of the enclosing
queries. So `o.total` must be a column of the relation `o`. This is a security rule: in PostgreSQL, if the
column does not exist, ``o.anything`` calls the function ``anything`` with the row `o`.

Rules:

- A qualified column belongs to the relation of its qualifier: a table, a subquery or a WITH query.
- An unqualified column belongs to a relation in scope, or is an alias of the SELECT, where the dialect allows
  that.
- A subquery in FROM sees the enclosing queries, but not its siblings.

The database checks types and ambiguous names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sqlglot import exp

from clew_nl2sql.errors import UnknownColumnError
from clew_nl2sql.planner.catalog import Table

Names = tuple[str, ...]  # column names of a relation, in lower case and in order
Relations = dict[str, Names]  # by qualifier; relations without one are numbered
Scopes = tuple[Relations, ...]  # innermost first


class NameCheck:
    """Resolves every column of a query; `tables` maps the table nodes of the query to tables."""

    def __init__(self, dialect: str, tables: Mapping[int, Table]) -> None:
        self._dialect = dialect
        self._tables = tables
        self._aliases_in = ("order", "group") if dialect == "postgres" else tuple(exp.Select.arg_types)

    def query(self, node: Any, outer: Scopes = (), known: Mapping[str, Names] | None = None) -> Names:
        """Check a query and its subqueries; return the names of its columns."""
        known = dict(known or {})
        for cte in node.args["with_"].expressions if node.args.get("with_") else ():
            known[cte.alias.lower()] = _renamed(self.query(cte.this, outer, known), cte)
        if isinstance(node, exp.Subquery):
            inside = self.query(node.this, outer, known)
            self._tail(node, inside, outer, known)
            return inside
        if isinstance(node, exp.SetOperation):
            inside = self.query(node.this, outer, known)
            other = self.query(node.expression, outer, known)
            self._tail(node, (*inside, *other), outer, known)
            return inside
        return self._select(node, outer, known)

    def _select(self, select: Any, outer: Scopes, known: Mapping[str, Names]) -> Names:
        here: Relations = {}
        scopes = (here, *outer)
        if source := select.args.get("from_"):
            self._relation(source.this, here, outer, known)
        self._joins(select, here, outer, known)
        aliases = frozenset(p.alias.lower() for p in select.expressions if p.alias)
        for part, value in select.args.items():
            if part not in ("with_", "from_", "joins"):
                given = aliases if part in self._aliases_in else frozenset[str]()
                for expression in _children(value):
                    self._expression(expression, scopes, known, given)
        return tuple(name for p in select.expressions for name in _outputs(p, here))

    def _tail(self, node: Any, outputs: Names, outer: Scopes, known: Mapping[str, Names]) -> None:
        """Check ORDER BY and LIMIT after a set operation or parentheses; they see its columns."""
        for part in ("order", "limit", "offset"):
            if node.args.get(part):
                self._expression(node.args[part], ({"": outputs}, *outer), known, frozenset())

    # -- relations ---------------------------------------------------------------------------------------------

    def _relation(self, node: Any, here: Relations, outer: Scopes, known: Mapping[str, Names]) -> None:
        inside = node.this
        if isinstance(node, exp.Table):
            here[node.alias_or_name.lower()] = _renamed(self._columns(node, known), node)
            self._joins(node, here, outer, known)
        elif isinstance(inside, exp.Table) or (isinstance(inside, exp.Subquery) and not _is_query(inside)):
            self._joined(node, here, outer, known)
        else:
            names = self.query(node, outer, known)
            here[node.alias.lower() or f"#{len(here)}"] = _renamed(names, node)
            self._joins(node, here, outer, known)

    def _columns(self, node: exp.Table, known: Mapping[str, Names]) -> Names:
        table = self._tables.get(id(node))
        return tuple(c.name.lower() for c in table.columns) if table else known.get(node.name.lower(), ())

    def _joined(self, node: Any, here: Relations, outer: Scopes, known: Mapping[str, Names]) -> None:
        """Add a join in parentheses: one relation if it has an alias."""
        within: Relations = {}
        self._relation(node.this, within, outer, known)
        self._joins(node, within, outer, known)
        if node.alias:
            names = tuple(name for columns in within.values() for name in columns)
            within = {node.alias.lower(): _renamed(names, node)}
        here.update(within)

    def _joins(self, node: Any, here: Relations, outer: Scopes, known: Mapping[str, Names]) -> None:
        for join in node.args.get("joins") or ():
            self._relation(join.this, here, outer, known)
            if join.args.get("on"):
                self._expression(join.args["on"], (here, *outer), known, frozenset())
            for name in join.args.get("using") or ():
                self._look_up("", name.name, (here,), frozenset(), name)

    # -- columns -----------------------------------------------------------------------------------------------

    def _expression(
        self, node: Any, scopes: Scopes, known: Mapping[str, Names], aliases: frozenset[str]
    ) -> None:
        for found in _own(node):
            if isinstance(found, exp.Query):
                self.query(found, scopes, known)
            elif not isinstance(found.this, exp.Star):
                self._look_up(found.table, found.name, scopes, aliases, found)
            elif found.table and not any(found.table.lower() in scope for scope in scopes):
                raise UnknownColumnError(f"{found.sql(self._dialect)}: {found.table} is not defined here")

    def _look_up(self, qualifier: str, name: str, scopes: Scopes, aliases: frozenset[str], node: Any) -> None:
        wanted = name.lower()
        if not qualifier:
            if wanted not in aliases and not _knows(scopes, wanted):
                quoted = "; write text in single quotes" if _is_quoted(node) else ""
                raise UnknownColumnError(f"the column {name} does not exist{quoted}")
            return
        meant = next((scope[qualifier.lower()] for scope in scopes if qualifier.lower() in scope), None)
        if meant is None:
            raise UnknownColumnError(f"{node.sql(self._dialect)}: {qualifier} is not defined here")
        if wanted not in meant:
            raise UnknownColumnError(f"the column {name} does not exist in {qualifier}")


def _knows(scopes: Scopes, column: str) -> bool:
    return any(column in columns for scope in scopes for columns in scope.values())


def _own(node: Any) -> Iterator[Any]:
    """Yield the columns of an expression, and its subqueries without their columns."""
    if not isinstance(node, exp.Expression):
        return
    if isinstance(node, exp.Query | exp.Column):
        yield node
        return
    for value in node.args.values():
        for child in _children(value):
            yield from _own(child)


def _children(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _is_query(node: Any) -> bool:
    return isinstance(node.this, exp.Select | exp.SetOperation) or (
        isinstance(node.this, exp.Subquery) and _is_query(node.this)
    )


def _is_quoted(node: Any) -> bool:
    identifier = node.this if isinstance(node, exp.Column) else node
    return bool(getattr(identifier, "args", {}).get("quoted"))


def _renamed(names: Names, node: Any) -> Names:
    """Return a relation's columns after ``AS x(a, b)``, which renames the first ones."""
    alias = node.args.get("alias")
    given = tuple(c.name.lower() for c in (alias.args.get("columns") or ())) if alias else ()
    return (*given, *names[len(given) :])


def _outputs(projection: Any, here: Relations) -> Iterator[str]:
    """Yield the names of one element of a SELECT list; databases name a computed column after its function."""
    if projection.alias:
        yield projection.alias.lower()
        return
    inner = projection.unalias()
    while isinstance(inner, exp.Paren | exp.Cast):
        inner = inner.this
    if isinstance(inner, exp.Star):
        yield from (name for columns in here.values() for name in columns)
    elif isinstance(inner, exp.Column):
        if isinstance(inner.this, exp.Star):
            yield from here.get(inner.table.lower(), ())
        else:
            yield inner.name.lower()
    elif isinstance(inner, exp.Anonymous):
        yield str(inner.this).lower()
    else:
        yield inner.sql_name().lower() if isinstance(inner, exp.Func) else inner.key.lower()
