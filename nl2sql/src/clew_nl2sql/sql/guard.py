"""Check every proposed query before a database receives it.

A proposal is text from a planner, a model or a user. `check` parses it, rejects everything unknown, renders
the tree in the source's dialect, and checks the rendered text again. The result is a `CheckedQuery`. Sources
accept nothing else, and only this module creates one.

Rules:

- There is one statement, with a SELECT or a set operation at its root.
- The tree contains only constructs, functions and types of `clew_nl2sql.sql.allowlist`.
- Every table is visible to the user, or is a WITH query in scope. Every column belongs to the relation that
  its name refers to (`clew_nl2sql.sql.name_resolution`).
- A table that exists and is not granted, a system table, and anything that could do more than read is a
  `SecurityViolationError`. A name that does not exist is an `UnknownTableError` or `UnknownColumnError`,
  which another plan may avoid.

The guard does not check types or meaning. The database's EXPLAIN does.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import ErrorLevel, SqlglotError

from clew_nl2sql.errors import InvalidPlanError, Nl2sqlError, SecurityViolationError, UnknownTableError
from clew_nl2sql.planner.catalog import Catalog, Table
from clew_nl2sql.sql.allowlist import (
    CONSTRUCTS,
    DEFAULT_SCHEMAS,
    FUNCTIONS,
    NAMED_FUNCTIONS,
    ROOTS,
    SYSTEM_NAMES,
    TYPES,
)
from clew_nl2sql.sql.name_resolution import NameCheck

LONGEST = 20_000  # characters; no question needs more
DEEPEST = 60  # nesting levels of queries and parentheses; parsers recurse


# The parser logs a warning for statements that it cannot parse; here they are rejected with an error.
logging.getLogger("sqlglot").addFilter(lambda record: "parsing as a 'Command'" not in record.getMessage())


_BEGINS_LIKE_A_QUERY = re.compile(r"[\s(]*(?:select|with|from)\b|\s*$", re.IGNORECASE)


@dataclass(frozen=True)
class CheckedQuery:
    """A query that may be sent: its text in the source's dialect, the tables that it reads, its tree."""

    sql: str
    dialect: str
    tables: tuple[str, ...]
    tree: exp.Expression


def check(proposal: str, visible: Catalog, hidden: frozenset[str] = frozenset()) -> CheckedQuery:
    """Parse a proposal in the catalog's dialect; return the checked query, or raise an error.

    Args:
        visible: What the user may see.
        hidden: Tables that the user may not see; they distinguish a forbidden table from a misspelled one.
    """
    tree = parse(proposal, visible.dialect)
    Inspection(tree, visible, hidden).run()
    sql = render(tree, visible.dialect)
    # The rendered text is what is sent, so it must pass the same checks.
    again = parse(sql, visible.dialect)
    tables = Inspection(again, visible, hidden).run()
    return CheckedQuery(sql=sql, dialect=visible.dialect, tables=tables, tree=again)


def render(tree: exp.Expression, dialect: str) -> str:
    """Return a tree as text; raise an error if the dialect cannot express it, since the meaning would change."""
    try:
        return tree.sql(dialect=dialect, comments=False, unsupported_level=ErrorLevel.RAISE)
    except SqlglotError as error:
        raise InvalidPlanError(f"{dialect} cannot express this query: {error}") from error


def parse(proposal: str, dialect: str) -> exp.Expression:
    """Return the only query of a text."""
    if len(proposal) > LONGEST or "\0" in proposal:
        raise InvalidPlanError("the query is too long, or holds a NUL character; ask for a simpler one")
    statements = _statements(proposal, dialect)
    if not statements:
        raise InvalidPlanError("the text contains no query")
    if len(statements) > 1:
        raise SecurityViolationError("expected one query, got several statements")
    root: exp.Expression = statements[0]
    if type(root).__name__ not in ROOTS:
        raise SecurityViolationError(f"expected a SELECT, got {_statement(root)}")
    return root


def _statements(proposal: str, dialect: str) -> list[Any]:
    try:
        statements = sqlglot.parse(proposal, dialect=dialect)
    except SqlglotError as error:
        reason = str(error).partition("\n")[0]
        if not _BEGINS_LIKE_A_QUERY.match(proposal):
            message = "only a SELECT is allowed, and the text does not start with one"
            raise SecurityViolationError(message) from error
        raise InvalidPlanError(f"the query cannot be parsed as {dialect}: {reason}") from error
    except RecursionError as error:
        raise InvalidPlanError("the query is nested too deeply to be read") from error
    return [s for s in statements if not isinstance(s, exp.Semicolon | None)]  # a comment after the last one


def _statement(root: exp.Expression) -> str:
    if isinstance(root, exp.Command):
        return f"a {str(root.this).upper()} statement"
    return f"a {root.key.upper()} statement"


class Inspection:
    """One pass over a tree."""

    def __init__(self, tree: exp.Expression, visible: Catalog, hidden: frozenset[str]) -> None:
        self._tree = tree
        self._dialect = visible.dialect
        self._exact = visible.dialect == "postgres"
        self._default = DEFAULT_SCHEMAS.get(visible.dialect, "")
        self._tables = {
            (self._key(table.schema, True), self._key(table.own_name, True)): table
            for table in visible.tables
        }
        self._hidden = {name.lower() for name in hidden}
        self._resolved: dict[int, Table] = {}  # by the node that names it

    def run(self) -> tuple[str, ...]:
        """Return the tables that the query reads; raise an error for anything that is not allowed."""
        for node in self._tree.walk():
            self._construct(node)
        for query in self._tree.find_all(exp.Query):
            if depth_of(query) > DEEPEST:
                raise InvalidPlanError("the query is nested too deeply")
        for table in self._tree.find_all(exp.Table):
            self._table(table)
        NameCheck(self._dialect, self._resolved).query(self._tree)
        return tuple(sorted({table.name for table in self._resolved.values()}))

    # -- constructs ---------------------------------------------------------------------------------------------

    def _construct(self, node: Any) -> None:
        kind = type(node).__name__
        if isinstance(node, exp.Anonymous):
            if str(node.this).lower() not in NAMED_FUNCTIONS.get(self._dialect, ()):
                raise SecurityViolationError(f"the function {node.this} is not allowed")
        elif isinstance(node, exp.DataType):
            if getattr(node.this, "name", node.this) not in TYPES:
                raise SecurityViolationError(f"the type {node.sql(self._dialect)} is not allowed")
        elif kind in CONSTRUCTS or kind in FUNCTIONS:
            self._details(node)
        elif isinstance(node, exp.Func):
            raise SecurityViolationError(f"the function {node.sql_name()} is not allowed")
        else:
            raise SecurityViolationError(
                f"{node.sql(self._dialect)[:60]!r} ({node.key}) is not allowed in a query"
            )

    def _details(self, node: exp.Expression) -> None:
        allowed = next((parts for kind, parts in _PARTS.items() if isinstance(node, kind)), None)
        if isinstance(node, exp.Select) and not node.expressions:
            raise InvalidPlanError("the query selects nothing")
        if allowed is not None and (odd := _given(node) - allowed):
            raise SecurityViolationError(f"{', '.join(sorted(odd))} is not allowed in a {node.key}")

    # -- tables ------------------------------------------------------------------------------------------------

    def _table(self, table: exp.Table) -> None:
        if not isinstance(table.this, exp.Identifier) or _given(table) - {"this", "alias", "db", "joins"}:
            raise SecurityViolationError(f"{table.sql(self._dialect)[:60]!r} is not a table")
        schema, name = table.args.get("db"), table.name
        own = self._key(name, table.this.quoted)
        if schema is not None:
            self._qualified(table, self._key(schema.name, schema.quoted), own)
        elif any(self._key(cte, True) == own for cte in _ctes_in_scope(table)):
            if ("", own) in self._tables or self._is_closed(name):
                raise InvalidPlanError(f"a WITH query has the name of the table {name}; rename it")
        elif ("", own) in self._tables:
            self._resolved[id(table)] = self._tables["", own]
        else:
            raise self._unreadable(name)

    def _unreadable(self, name: str) -> Nl2sqlError:
        if self._is_closed(name):
            return SecurityViolationError(f"the table {name} may not be read")
        if not name.replace("_", "").replace(" ", "").isalnum():
            # Some databases would read a file of that name.
            return SecurityViolationError(f"{name!r} is not a table of this source")
        return UnknownTableError(f"the table {name} does not exist")

    def _is_closed(self, name: str) -> bool:
        """Return whether a name is that of a hidden table or a system table."""
        return name.lower() in self._hidden or name.lower().startswith(SYSTEM_NAMES)

    def _qualified(self, table: exp.Table, schema: str, own: str) -> None:
        """Resolve a table with its schema. A schema without a visible table does not exist for the user."""
        key = ("" if schema == self._default else schema, own)
        if key in self._tables:
            self._resolved[id(table)] = self._tables[key]
            return
        name = f"{schema}.{own}"
        known = schema == self._default or any(schema == of for of, _ in self._tables)
        hidden = ".".join(filter(None, key)).lower() in self._hidden
        if hidden or not known or own.lower().startswith(SYSTEM_NAMES):
            raise SecurityViolationError(f"the table {name} may not be read")
        raise UnknownTableError(f"the table {name} does not exist")

    def _key(self, name: str, quoted: bool) -> str:
        return name if self._exact and quoted else name.lower()


def _given(node: exp.Expression) -> set[str]:
    return {name for name, value in node.args.items() if value not in (None, [], False)}


# The parts that each construct may have.
_PARTS: dict[type[exp.Expression], set[str]] = {
    exp.Select: {
        "with_", "expressions", "distinct", "from_", "joins", "where", "group", "having", "order", "limit",
        "offset", "windows", "qualify",
    },
    exp.Star: set(),
    exp.Subquery: {"this", "alias", "with_", "joins", "order", "limit", "offset"},
    exp.SetOperation: {"this", "expression", "distinct", "with_", "order", "limit", "offset"},
    exp.With: {"expressions"},  # RECURSIVE may never end
    exp.Column: {"this", "table"},
    exp.CTE: {"this", "alias"},
}  # fmt: skip


def _ctes_in_scope(node: exp.Expression) -> Iterator[str]:
    """Return the names of the WITH queries in scope: those before its own, and those of enclosing queries."""
    child: Any = node
    parent: Any = node.parent
    while parent is not None:
        if isinstance(parent, exp.With):
            for cte in parent.expressions:
                if cte is child:
                    break
                yield cte.alias
        else:
            around = parent.args.get("with_")
            if around is not None and around is not child:
                yield from (cte.alias for cte in around.expressions)
        child, parent = parent, parent.parent


def depth_of(node: Any) -> int:
    """Return the number of enclosing queries."""
    depth = 0
    parent: Any = node.parent
    while parent is not None:
        depth += isinstance(parent, exp.Query)
        parent = parent.parent
    return depth
