"""The only way from a proposed query to a database.

A proposal is text from a planner, a model or a user. `check` parses it, refuses what it does not know, renders what
it understood in the source's dialect, and does all of that again on the text it rendered. What comes out is a
`CheckedQuery`, and that is what sources take: nobody else makes one.

Rules:

- One statement, and a SELECT or a set operation at its root.
- Only constructs, functions and types of `clew_nl2sql.sql.allowlist`, anywhere in the tree.
- Every table is one that the user may see, or a WITH name in whose scope it stands. Every column is one of what its
  name means there (`clew_nl2sql.sql.name_resolution`).
- What exists and is not granted, what is the database's own, and whatever could do more than read is a
  `SecurityViolationError`. What is merely not there is an `UnknownTableError` or `UnknownColumnError`, which
  another plan can cure.

The guard does not know whether a query makes sense. The database's EXPLAIN does.
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

from clew_nl2sql.errors import InvalidPlanError, SecurityViolationError, UnknownTableError
from clew_nl2sql.planner.catalog import Catalog, Table
from clew_nl2sql.sql.allowlist import (
    CONSTRUCTS,
    FUNCTIONS,
    NAMED_FUNCTIONS,
    ROOTS,
    SCHEMAS,
    SYSTEM_NAMES,
    TYPES,
)
from clew_nl2sql.sql.name_resolution import NameCheck

LONGEST = 20_000  # characters; nothing that a person asks needs more
DEEPEST = 60  # nested nodes' levels of queries and brackets; parsers recurse


# The parser warns of statements that it cannot read; here these are refused, and said so.
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
    """Read a proposal in the catalog's dialect; refuse it, or make it a query.

    Args:
        visible: What the user may see.
        hidden: Tables of the source that the user may not see, so that a forbidden one is told from a misspelled one.
    """
    tree = parse(proposal, visible.dialect)
    Inspection(tree, visible, hidden).run()
    sql = render(tree, visible.dialect)
    # What is sent is what was rendered, so that is what has to pass.
    again = parse(sql, visible.dialect)
    tables = Inspection(again, visible, hidden).run()
    return CheckedQuery(sql=sql, dialect=visible.dialect, tables=tables, tree=again)


def render(tree: exp.Expression, dialect: str) -> str:
    """A tree as text. What the dialect cannot say is refused, or something else would be said."""
    try:
        return tree.sql(dialect=dialect, comments=False, unsupported_level=ErrorLevel.RAISE)
    except SqlglotError as error:
        raise InvalidPlanError(f"{dialect} cannot say this: {error}") from error


def parse(proposal: str, dialect: str) -> exp.Expression:
    """The one query of a text."""
    if len(proposal) > LONGEST or "\0" in proposal:
        raise InvalidPlanError("the query is too long, or holds a NUL character; ask for a simpler one")
    try:
        statements = [
            statement
            for statement in sqlglot.parse(proposal, dialect=dialect)
            if not isinstance(statement, exp.Semicolon | None)  # a comment behind the last one
        ]
    except SqlglotError as error:
        told = str(error).partition("\n")[0]
        if not _BEGINS_LIKE_A_QUERY.match(proposal):
            raise SecurityViolationError(
                "only a SELECT may be sent, and this does not begin like one"
            ) from error
        raise InvalidPlanError(f"the query cannot be read as {dialect}: {told}") from error
    except RecursionError as error:
        raise InvalidPlanError("the query is nested too deeply to be read") from error
    if not statements:
        raise InvalidPlanError("there is no query")
    if len(statements) > 1:
        raise SecurityViolationError("there are several statements where one query is allowed")
    root: Any = statements[0]
    if type(root).__name__ not in ROOTS:
        raise SecurityViolationError(f"only a SELECT may be sent, and this is {_statement(root)}")
    return root  # type: ignore[no-any-return]


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
        self._tables = {self._key(table.name, True): table for table in visible.tables}
        self._hidden = {name.lower() for name in hidden}
        self._meant: dict[int, Table] = {}  # by the node that names it

    def run(self) -> tuple[str, ...]:
        """The tables that are read; raises for what may not be there."""
        for node in self._tree.walk():
            self._construct(node)
        for query in self._tree.find_all(exp.Query):
            if depth_of(query) > DEEPEST:
                raise InvalidPlanError("the query is nested too deeply")
        for table in self._tree.find_all(exp.Table):
            self._table(table)
        NameCheck(self._dialect, self._meant).query(self._tree)
        return tuple(sorted({table.name for table in self._meant.values()}))

    # -- what it is made of ------------------------------------------------------------------------------------

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
        given = {name for name, value in node.args.items() if value not in (None, [], False)}
        if isinstance(node, exp.Select):
            odd = given - _SELECT_PARTS
            if not node.expressions:
                raise InvalidPlanError("there is a SELECT of nothing")
        elif isinstance(node, exp.Star):
            odd = given
        elif isinstance(node, exp.Subquery):
            odd = given - {"this", "alias", "with_", "joins", "order", "limit", "offset"}
        elif isinstance(node, exp.SetOperation):
            odd = given - {"this", "expression", "distinct", "with_", "order", "limit", "offset"}
        elif isinstance(node, exp.With):
            odd = given - {"expressions"}  # RECURSIVE has no end that anybody could promise
        elif isinstance(node, exp.Column):
            odd = given - {"this", "table"}
        elif isinstance(node, exp.CTE):
            odd = given - {"this", "alias"}
        else:
            return
        if odd:
            raise SecurityViolationError(f"{', '.join(sorted(odd))} is not allowed in a {node.key}")

    # -- tables ------------------------------------------------------------------------------------------------

    def _table(self, table: exp.Table) -> None:
        odd = {name for name, value in table.args.items() if value not in (None, [], False)}
        if not isinstance(table.this, exp.Identifier) or odd - {"this", "alias", "db", "joins"}:
            raise SecurityViolationError(f"{table.sql(self._dialect)[:60]!r} is no table")
        name = table.name
        schema = table.text("db")
        if schema and schema.lower() not in SCHEMAS.get(self._dialect, ()):
            raise SecurityViolationError(f"the table {schema}.{name} may not be read")
        key = self._key(name, table.this.quoted)
        if not schema and any(self._key(cte, True) == key for cte in _ctes_in_scope(table)):
            if key in self._tables or name.lower() in self._hidden or name.lower().startswith(SYSTEM_NAMES):
                raise InvalidPlanError(f"a WITH query is called {name}, like a table; give it another name")
            return
        if key in self._tables:
            self._meant[id(table)] = self._tables[key]
        elif name.lower() in self._hidden or name.lower().startswith(SYSTEM_NAMES):
            raise SecurityViolationError(f"the table {name} may not be read")
        elif not name.replace("_", "").replace(" ", "").isalnum():
            raise SecurityViolationError(
                f"{name!r} is no table of this source"
            )  # a file's name, to some databases
        else:
            raise UnknownTableError(f"there is no table {name}")

    def _key(self, name: str, quoted: bool) -> str:
        return name if self._exact and quoted else name.lower()


_SELECT_PARTS = {
    "with_",
    "expressions",
    "distinct",
    "from_",
    "joins",
    "where",
    "group",
    "having",
    "order",
    "limit",
    "offset",
    "windows",
    "qualify",
}


def _ctes_in_scope(node: exp.Expression) -> Iterator[str]:
    """Names of the WITH queries that a table at this place may mean: those before its own, and those around it."""
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
    """How many queries there are around one."""
    depth = 0
    parent: Any = node.parent
    while parent is not None:
        depth += isinstance(parent, exp.Query)
        parent = parent.parent
    return depth
