"""Move the rows of a database from one state to another.

All deletes run before all inserts, so the order of rows cannot violate a unique constraint. Every statement knows how
many rows it must change. A different count rolls the whole restore back, because the journal and the tables do not
match. Rows are found by their key and compared by their whole image. Of equal rows, the required number is taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from clew.explore.systems.postgres.catalog import PostgresTable, WatchedObjects, quoted
from clew.explore.systems.postgres.connection import psycopg, run_all, said
from clew.explore.systems.postgres.triggers import image_sql, image_type

if TYPE_CHECKING:
    from clew.explore.systems.postgres.connection import Connection

Delta = dict[tuple[int, str], int]  # (table, row image): the number of rows to add or, if negative, to remove
Sequences = dict[int, tuple[int, bool]]  # oid: (last_value, is_called)
Statement = tuple[str, Sequence[Any] | None]
# the table, and the number of rows to change
Counted = tuple[str, Sequence[Any] | None, "PostgresTable | None", int]

_MAX_IMAGES = 20_000  # in one statement
# Rows are looked up by their key even in a small table; another plan would compute the images of all its rows. Without
# a key, a hash join is the best plan: it computes each image once.
BY_KEY = (
    "SELECT set_config('lock_timeout', $1, true), set_config('enable_seqscan', 'off', true), "
    "set_config('enable_mergejoin', 'off', true), set_config('enable_hashjoin', 'off', true)"
)
_WITHOUT_KEY, _WITH_KEY = "SET LOCAL enable_hashjoin = on", "SET LOCAL enable_hashjoin = off"

_SETVAL = "SELECT setval(o::regclass, v, c) FROM unnest($1::oid[], $2::bigint[], $3::boolean[]) AS u(o, v, c)"


class WrongRowsError(Exception):
    """The tables do not match the journal."""


def lock_sql(tables: Iterable[PostgresTable]) -> str | None:
    """Return a statement that waits for writers and blocks new ones, but not readers."""
    names = ", ".join(f"ONLY {table.name}" for table in tables)
    return f"LOCK TABLE {names} IN SHARE ROW EXCLUSIVE MODE" if names else None


def sequences_sql(watched: WatchedObjects) -> str | None:
    """Return a statement that reads the sequences."""
    reads = [
        f"SELECT {each.oid}::oid, last_value, is_called FROM {each.name}"
        for each in watched.sequences.values()
    ]
    return " UNION ALL ".join(reads) or None


def set_sequences(wanted: Sequences, now: Sequences) -> list[Statement]:
    """Return statements that set changed sequences. Send them last: a rollback does not undo them."""
    moved = {oid: value for oid, value in wanted.items() if oid in now and now[oid] != value}
    last, called = [value for value, _ in moved.values()], [given for _, given in moved.values()]
    return [(_SETVAL, (list(moved), last, called))] if moved else []


def apply(link: Connection, schema: str, watched: WatchedObjects, change: Delta) -> None:
    """Apply a delta inside a transaction of the caller that holds the locks."""
    rows = _by_table(change)
    changed = [watched.tables[oid] for oid in rows]
    for sql in (sql for table in changed for sql in table.aside):
        # Not in the pipeline: an ALTER makes psycopg discard the prepared statements that are sent with it.
        link.execute(sql.encode(), prepare=False)
    statements = [*_all_deletes(schema, changed, rows)]
    statements += [each for table in changed for each in _inserts(schema, table, rows[table.oid])]
    try:
        cursors = run_all(link, [(sql, values) for sql, values, _, _ in statements]) if statements else []
    except psycopg.errors.UniqueViolation as error:  # a row exists that should not
        raise WrongRowsError(
            f"a table does not match the journal ({said(error)}); something changed it without firing triggers"
        ) from error
    for cursor, (_, _, owner, wanted) in zip(cursors, statements):
        if owner is not None and cursor.rowcount != wanted:
            raise WrongRowsError(
                f"{owner.name} does not match the journal ({cursor.rowcount} of {wanted} rows were found); "
                "something changed it without firing triggers"
            )
    for sql in (sql for table in changed for sql in table.back):
        link.execute(sql.encode(), prepare=False)


def _all_deletes(
    schema: str, tables: Sequence[PostgresTable], rows: Mapping[int, Mapping[str, int]]
) -> Iterator[Counted]:
    without_key = [table for table in tables if table.key is None]
    if without_key:
        yield _WITHOUT_KEY, None, None, 0
        for table in without_key:
            yield from _deletes(schema, table, rows[table.oid])
        yield _WITH_KEY, None, None, 0
    for table in tables:
        if table.key is not None:
            yield from _deletes(schema, table, rows[table.oid])


def _by_table(change: Delta) -> dict[int, dict[str, int]]:
    rows: dict[int, dict[str, int]] = {}
    for (table, image), more in change.items():
        rows.setdefault(table, {})[image] = more
    return rows


def _deletes(schema: str, table: PostgresTable, rows: Mapping[str, int]) -> Iterator[Counted]:
    removed = [(image, -more) for image, more in rows.items() if more < 0]
    sql = _delete_one_each(schema, table) if table.key and table.key.unique else _delete_some(schema, table)
    for part in _parts(removed):
        images, counts = [image for image, _ in part], [number for _, number in part]
        values = (images,) if table.key and table.key.unique else (images, counts)
        yield sql, values, table, sum(counts)


def _inserts(schema: str, table: PostgresTable, rows: Mapping[str, int]) -> Iterator[Counted]:
    added = [image for image, more in rows.items() for _ in range(more)]
    for part in _parts(added):
        yield _insert(schema, table), (part,), table, len(part)


def _parts(items: list[Any]) -> Iterator[list[Any]]:
    for start in range(0, len(items), _MAX_IMAGES):
        yield items[start : start + _MAX_IMAGES]


def _is_wanted(table: PostgresTable) -> str:
    """Return an SQL condition: row `t` of the table has the image `w.i`, whose columns are `w.r`."""
    tests = [f'{image_sql(table, "t")} COLLATE "C" = w.i']
    if table.key is not None:
        tests = [
            f"t.{quoted(name)} OPERATOR({operator}) (w.r).{quoted(name)}"
            for name, operator in table.key.columns
        ] + tests
    return " AND ".join(tests)


def _delete_one_each(schema: str, table: PostgresTable) -> str:
    return (
        f"DELETE FROM ONLY {table.name} t USING "
        f"(SELECT i, i::{image_type(schema, table)} AS r FROM unnest($1::text[]) AS i OFFSET 0) w "
        f"WHERE {_is_wanted(table)}"
    )


def _delete_some(schema: str, table: PostgresTable) -> str:
    return (
        f"DELETE FROM ONLY {table.name} WHERE ctid = ANY (ARRAY(SELECT place FROM ("
        "SELECT t.ctid AS place, w.n, row_number() OVER (PARTITION BY w.i) AS k FROM "
        f"(SELECT i, n, i::{image_type(schema, table)} AS r "
        "FROM unnest($1::text[], $2::bigint[]) AS u(i, n) OFFSET 0) w "
        f"JOIN ONLY {table.name} t ON {_is_wanted(table)}) found WHERE k <= n))"
    )


def _insert(schema: str, table: PostgresTable) -> str:
    if not table.columns:  # it has only generated columns, or none
        return f"INSERT INTO {table.name} SELECT FROM unnest($1::text[])"
    names = [quoted(column.name) for column in table.columns]
    return (
        f"INSERT INTO {table.name} ({', '.join(names)}) OVERRIDING SYSTEM VALUE "
        f"SELECT {', '.join(f'(w.r).{name}' for name in names)} FROM "
        f"(SELECT i::{image_type(schema, table)} AS r FROM unnest($1::text[]) AS i OFFSET 0) w"
    )
