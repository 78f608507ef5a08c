"""Schema epochs: the time between two schema changes, what the schema consists of, and the way back to an epoch.

The states of an epoch are a tree of row deltas. The epoch after it knows the state in which it was left. If the schema
change only added definitions (a table, a column, an index, a constraint, a view, a function, a type), going back means
to drop them. A removed or altered definition cannot be undone like that, because its rows are lost or changed.

Each definition is a text, with the statement that drops it. A definition is the same if a table was dropped and created
again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clew.errors import RollbackError
from clew.explore.systems.delta_tree import DeltaNode
from clew.explore.systems.postgres.catalog import WatchedObjects, quoted
from clew.explore.systems.postgres.change_capture import ChangeCapture
from clew.explore.systems.postgres.restore import Delta, Sequences
from clew.explore.systems.tables import TableChoice

if TYPE_CHECKING:
    from clew.explore.systems.postgres.connection import Connection


Definitions = Mapping[str, str | None]  # text to the statement that drops it, if it can be dropped by itself

_DEFINITIONS = """
WITH places AS (SELECT oid, nspname FROM pg_namespace
                WHERE nspname !~ '^pg_' AND nspname NOT IN ('information_schema', $1)),
     kinds AS (SELECT c.*, p.nspname, format('%I.%I', p.nspname, c.relname) AS named
               FROM pg_class c JOIN places p ON p.oid = c.relnamespace WHERE c.relpersistence <> 't')
SELECT concat_ws(' ', 'n', nspname), format('DROP SCHEMA IF EXISTS %I CASCADE', nspname) FROM places
UNION ALL SELECT
    concat_ws(' ', 'c', nspname, relname, relkind, relowner, relrowsecurity, relacl, reloptions,
              pg_get_expr(relpartbound, oid), CASE relkind WHEN 'm' THEN relfilenode END),
    'DROP ' || CASE relkind WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW' WHEN 'S' THEN 'SEQUENCE'
                            WHEN 'f' THEN 'FOREIGN TABLE' WHEN 'c' THEN 'TYPE'
                            WHEN 'i' THEN 'INDEX' WHEN 'I' THEN 'INDEX' ELSE 'TABLE' END
            || format(' IF EXISTS %s CASCADE', named)
    FROM kinds WHERE relkind NOT IN ('i', 'I') OR NOT EXISTS (SELECT FROM pg_constraint o WHERE o.conindid = kinds.oid)
UNION ALL SELECT
    concat_ws(' ', 'a', k.nspname, k.relname, row_number() OVER (PARTITION BY k.oid ORDER BY a.attnum), a.attname,
              format_type(a.atttypid, a.atttypmod), a.attcollation, a.attnotnull, a.attidentity, a.attgenerated,
              pg_get_expr(d.adbin, d.adrelid)),
    CASE WHEN k.relkind IN ('r', 'p', 'f')
         THEN format('ALTER TABLE IF EXISTS %s DROP COLUMN IF EXISTS %I CASCADE', k.named, a.attname) END
    FROM kinds k JOIN pg_attribute a ON a.attrelid = k.oid AND a.attnum > 0 AND NOT a.attisdropped
    LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE k.relkind IN ('r', 'p', 'v', 'm', 'c', 'f')
UNION ALL SELECT
    concat_ws(' ', 'o', p.nspname, o.conrelid::regclass, o.conname, pg_get_constraintdef(o.oid)),
    CASE WHEN o.conrelid <> 0
         THEN format('ALTER TABLE IF EXISTS %s DROP CONSTRAINT IF EXISTS %I CASCADE', k.named, o.conname) END
    FROM places p JOIN pg_constraint o ON o.connamespace = p.oid LEFT JOIN kinds k ON k.oid = o.conrelid
UNION ALL SELECT concat_ws(' ', 'i', pg_get_indexdef(i.indexrelid)), NULL
    FROM kinds k JOIN pg_index i ON i.indrelid = k.oid
UNION ALL SELECT
    concat_ws(' ', 't', t.tgenabled, pg_get_triggerdef(t.oid)),
    format('DROP TRIGGER IF EXISTS %I ON %s CASCADE', t.tgname, k.named)
    FROM kinds k JOIN pg_trigger t ON t.tgrelid = k.oid AND NOT t.tgisinternal AND t.tgfoid NOT IN
        (SELECT oid FROM pg_proc WHERE pronamespace = to_regnamespace($2))
UNION ALL SELECT
    concat_ws(' ', 'r', w.ev_enabled, pg_get_ruledef(w.oid)),
    CASE WHEN w.rulename <> '_RETURN' THEN format('DROP RULE IF EXISTS %I ON %s CASCADE', w.rulename, k.named) END
    FROM kinds k JOIN pg_rewrite w ON w.ev_class = k.oid
UNION ALL SELECT
    concat_ws(' ', 's', k.nspname, k.relname, s.seqtypid, s.seqstart, s.seqincrement, s.seqmax, s.seqmin, s.seqcache,
              s.seqcycle), NULL
    FROM kinds k JOIN pg_sequence s ON s.seqrelid = k.oid
UNION ALL SELECT
    concat_ws(' ', 'f', f.oid::regprocedure, f.prorettype::regtype, f.prosrc, f.prosecdef, f.provolatile,
              f.proisstrict),
    format('DROP ROUTINE IF EXISTS %s CASCADE', f.oid::regprocedure)
    FROM places p JOIN pg_proc f ON f.pronamespace = p.oid
UNION ALL SELECT
    concat_ws(' ', 'y', y.oid::regtype, y.typtype, y.typnotnull, y.typdefault,
              (SELECT array_agg(e.enumlabel ORDER BY e.enumsortorder) FROM pg_enum e WHERE e.enumtypid = y.oid)),
    format('DROP TYPE IF EXISTS %s CASCADE', y.oid::regtype)
    FROM places p JOIN pg_type y ON y.typnamespace = p.oid AND y.typtype IN ('d', 'e', 'r')
"""


def read_definitions(link: Connection, schema: str) -> Definitions:
    """Return all definitions without those of the journal's schema."""
    found = link.execute(_DEFINITIONS.encode(), (schema, quoted(schema))).fetchall()
    return dict(sorted(found))


def are_added_to(now: Definitions, before: Definitions) -> bool:
    """Return whether nothing was removed or altered since `before`."""
    return before.keys() <= now.keys()


def drop_added(link: Connection, schema: str, before: Definitions) -> None:
    """Drop what was added since `before`, inside a transaction; raise a RollbackError if something else changed."""
    now = read_definitions(link, schema)
    if not are_added_to(now, before):
        raise RollbackError(_impossible(before.keys() - now.keys()))
    for what, statement in now.items():
        if what not in before and statement is not None:
            link.execute(statement.encode(), prepare=False)
    left = read_definitions(link, schema)
    if left.keys() != before.keys():
        raise RollbackError(_impossible(before.keys() ^ left.keys()))


def _impossible(differing: Iterable[str]) -> str:
    names = sorted(each.split(" ", 1)[1][:80] for each in differing)
    return (
        "a schema change cannot be undone, because it altered or removed something: "
        f'{"; ".join(names[:3])}; in a transaction it can be: mode="savepoint"'
    )


NOT_KNOWN = "the schema has changed since that checkpoint in a way that cannot be undone"


@dataclass(eq=False)
class PostgresEpoch:
    """The time between two schema changes: the watched objects and all definitions."""

    watched: WatchedObjects
    fingerprint: tuple[Any, ...] | None
    definitions: Definitions
    before: (
        tuple[PostgresEpoch, int] | None
    )  # the epoch that this one continues, and the token of its last state
    first: State | None = None


@dataclass(frozen=True)
class PostgresStateInfo:
    """Information about a state in addition to its rows."""

    epoch: PostgresEpoch
    sequences: Sequences


State = DeltaNode[tuple[int, str], PostgresStateInfo]


def can_undo(session: ChangeCapture, now: PostgresEpoch | None, epoch: PostgresEpoch) -> bool:
    """Return whether the changes since an epoch only added definitions."""
    while now is not None and now is not epoch:
        now = now.before[0] if now.before is not None else None
    if now is None:
        return False
    return are_added_to(read_definitions(session.link, session.schema), epoch.definitions)


def undo(session: ChangeCapture, choice: TableChoice, epoch: PostgresEpoch) -> None:
    """Drop what the schema change after an epoch added; the rows are in its last state."""
    drop_changes(session, choice, epoch.definitions)
    epoch.watched, epoch.fingerprint = session.watched, session.fingerprint


def drop_changes(session: ChangeCapture, choice: TableChoice, definitions: Definitions) -> None:
    """Drop all definitions that were added, and watch the tables that remain."""

    def drop(last: Delta) -> None:
        if last:
            raise RollbackError("the application writes while a schema change is undone; stop it first")
        drop_added(session.link, session.schema, definitions)

    session.watch(choice, strict=False, alter=drop)
