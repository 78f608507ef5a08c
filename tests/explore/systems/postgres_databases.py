"""A database of a test's own, and the truth about it: what a fresh connection reads, by none of the code under test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any

import psycopg
from psycopg import sql

from clew.explore.systems import PostgresSystem

Truth = dict[str, Any]

_RELATIONS = """
SELECT n.nspname, c.relname, c.relkind FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'S', 'm') AND c.relpersistence <> 't'
  AND n.nspname !~ '^pg_' AND n.nspname NOT IN ('information_schema', 'clew_explore') ORDER BY 1, 2
"""


@dataclass
class Database:
    """A fresh database, and the connections that a test has opened to it."""

    dsn: str
    name: str
    open: list[Any] = field(default_factory=list)

    def connect(self, **options: Any) -> psycopg.Connection[Any]:
        """A connection of the application's; it is closed with the test."""
        connection = psycopg.connect(self.dsn, **{"autocommit": True, **options})
        self.open.append(connection)
        return connection

    def run(self, *statements: str) -> list[tuple[Any, ...]]:
        """Statements on a connection of their own, committed one by one. The rows of the last one."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            cursor = connection.cursor()
            for statement in statements:
                cursor.execute(statement.encode())
            return cursor.fetchall() if cursor.description is not None else []

    def system(self, **options: Any) -> PostgresSystem:
        system = PostgresSystem(self.dsn, **options)
        self.open.append(system)
        return system

    def truth(self) -> Truth:
        """Every row of every table as PostgreSQL writes it, and every sequence."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute("SET search_path = pg_catalog")
            connection.execute("SET extra_float_digits = 1")
            found = connection.execute(_RELATIONS).fetchall()
            return {
                f"{schema}.{name}": _content(connection, sql.Identifier(schema, name), kind)
                for schema, name, kind in found
            }


def _content(connection: psycopg.Connection[Any], name: sql.Identifier, kind: str) -> Any:
    if kind == "S":
        return connection.execute(sql.SQL("SELECT last_value, is_called FROM {}").format(name)).fetchone()
    rows = connection.execute(sql.SQL("SELECT t::text FROM ONLY {} t").format(name)).fetchall()
    return sorted(row for (row,) in rows)


def visits_in_any_order(states: int) -> list[int]:
    """A walk that goes from each state to each other one, and from each to itself."""
    walk = [place for pair in permutations(range(states), 2) for place in pair]
    return walk + [place for place in range(states) for _ in range(2)]


def check_round_trips(
    database: Database, setup: Sequence[str], steps: Sequence[str], **options: Any
) -> PostgresSystem:
    """Checkpoint after each step, then go from every state to every other: each time all rows are what they were."""
    database.run(*setup)
    system = database.system(**options)
    tokens, truths, digests = [system.checkpoint("before")], [database.truth()], [system.observe().digest]
    application = database.connect()
    for step in steps:
        application.execute(step.encode())
        tokens.append(system.checkpoint(step))
        truths.append(database.truth())
        digests.append(system.observe().digest)
    for place in visits_in_any_order(len(tokens)):
        system.rollback(tokens[place])
        assert database.truth() == truths[place]
        assert system.observe().digest == digests[place]
    return system
