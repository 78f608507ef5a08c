"""The watched objects: tables down to the leaves of partitions, their columns, keys and sequences, from the catalog.

- Generated columns are left out, because PostgreSQL computes them.
- Rows are found by the columns of an index without NULLs: the primary key, a unique index, or any other. Without such
  an index a row is found by its whole image, which reads the whole table.
- Temporary and foreign tables belong to a session or another server, and are not watched. Materialized views are
  observed, but not restored, because they cannot have triggers.
- Table names are matched as in PostgreSQL: cut at 63 bytes, with or without a schema, plain or quoted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clew.errors import SystemSetupError
from clew.explore.systems.tables import TableChoice, is_like, warn_about_unused

_NAME_BYTES = 63

_COLUMNS = """
SELECT c.oid, n.nspname, c.relname, c.relkind, c.relispopulated, pg_has_role(c.relowner, 'USAGE'),
       a.attnum, a.attname, format_type(a.atttypid, a.atttypmod), a.atttypid, a.attgenerated <> '',
       CASE WHEN a.attcollation <> t.typcollation
            THEN quote_ident(cn.nspname) || '.' || quote_ident(co.collname) END
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_collation co ON co.oid = a.attcollation
LEFT JOIN pg_namespace cn ON cn.oid = co.collnamespace
WHERE c.relkind IN ('r', 'm') AND c.relpersistence <> 't'
  AND n.nspname !~ '^pg_' AND n.nspname NOT IN ('information_schema', $1)
  AND NOT EXISTS (SELECT FROM pg_depend d
                  WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')
ORDER BY n.nspname, c.relname, a.attnum
"""

_KEYS = """
SELECT i.indrelid, i.indexrelid, i.indisunique, a.attname, quote_ident(n.nspname) || '.' || o.oprname
FROM pg_index i
JOIN pg_class x ON x.oid = i.indexrelid
JOIN pg_am am ON am.oid = x.relam AND am.amname = 'btree'
CROSS JOIN LATERAL generate_series(0, i.indnkeyatts - 1) place
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[place]
JOIN pg_opclass oc ON oc.oid = i.indclass[place]
JOIN pg_amop ao ON ao.amopfamily = oc.opcfamily AND ao.amopstrategy = 3
     AND ao.amoplefttype = oc.opcintype AND ao.amoprighttype = oc.opcintype
JOIN pg_operator o ON o.oid = ao.amopopr
JOIN pg_namespace n ON n.oid = o.oprnamespace
WHERE i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL AND i.indrelid = ANY($1)
  AND NOT EXISTS (SELECT FROM pg_attribute b WHERE b.attrelid = i.indrelid AND b.attnum = ANY(i.indkey)
                  AND (NOT b.attnotnull OR b.attgenerated <> ''))
ORDER BY i.indisprimary DESC, i.indisunique DESC, i.indexrelid, place
"""

_ANCESTORS = """
WITH RECURSIVE up(leaf, parent) AS (
    SELECT inhrelid, inhparent FROM pg_inherits
    UNION SELECT up.leaf, i.inhparent FROM up JOIN pg_inherits i ON i.inhrelid = up.parent)
SELECT up.leaf, n.nspname, c.relname FROM up
JOIN pg_class c ON c.oid = up.parent JOIN pg_namespace n ON n.oid = c.relnamespace
"""

# Objects that block a restore even in the replica role: triggers and rules that always fire, and checks that were never
# validated, which older rows need not satisfy.
_BLOCKING = """
SELECT tgrelid, 'TRIGGER', tgname, '' FROM pg_trigger WHERE tgenabled = 'A' AND NOT tgisinternal AND tgrelid = ANY($1)
    AND tgfoid NOT IN (SELECT oid FROM pg_proc WHERE pronamespace = to_regnamespace($2))
UNION ALL SELECT ev_class, 'RULE', rulename, '' FROM pg_rewrite WHERE ev_enabled = 'A' AND ev_class = ANY($1)
UNION ALL SELECT conrelid, 'CONSTRAINT', conname, pg_get_constraintdef(oid) FROM pg_constraint
    WHERE contype = 'c' AND NOT convalidated AND coninhcount = 0 AND conrelid = ANY($1)
"""

# A sequence belongs to the tables that own it, and to those whose defaults use it.
_SEQUENCES = """
SELECT c.oid, n.nspname, c.relname, s.seqcache > 1, array_remove(array_agg(d.refobjid) || array_agg(f.adrelid), NULL)
FROM pg_sequence s
JOIN pg_class c ON c.oid = s.seqrelid AND c.relpersistence <> 't'
JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = c.oid
     AND d.refclassid = 'pg_class'::regclass AND d.deptype IN ('a', 'i')
LEFT JOIN pg_depend e ON e.classid = 'pg_attrdef'::regclass
     AND e.refclassid = 'pg_class'::regclass AND e.refobjid = c.oid
LEFT JOIN pg_attrdef f ON f.oid = e.objid
WHERE n.nspname !~ '^pg_' AND n.nspname NOT IN ('information_schema', $1)
GROUP BY 1, 2, 3, 4 ORDER BY 2, 3
"""


def quoted(*names: str) -> str:
    """Return a quoted identifier, qualified if there are several names."""
    return ".".join('"' + name.replace('"', '""') + '"' for name in names)


@dataclass(frozen=True)
class PostgresColumn:
    """A column that a row image holds."""

    name: str
    type_sql: str
    type_oid: int
    shown: bool


@dataclass(frozen=True)
class Key:
    """The columns that find a row, each with its equality operator."""

    columns: tuple[tuple[str, str], ...]
    unique: bool


@dataclass(frozen=True)
class PostgresTable:
    """A watched table, a leaf of a partitioned one, or a materialised view."""

    oid: int
    name: str  # quoted, with its schema
    label: str  # in observations
    columns: tuple[PostgresColumn, ...]
    key: Key | None
    aside: tuple[str, ...]  # statements that disable what blocks a restore
    back: tuple[str, ...]  # statements that enable it again
    is_view: bool = False
    shown: bool = True  # in observations


@dataclass(frozen=True)
class WatchedSequence:
    """A sequence that is part of a checkpoint."""

    oid: int
    name: str
    label: str
    cached: bool


@dataclass(frozen=True)
class WatchedObjects:
    """Everything that is watched, by oid."""

    tables: Mapping[int, PostgresTable]
    views: tuple[PostgresTable, ...]
    sequences: Mapping[int, WatchedSequence]


def load_watched(cursor: Any, schema: str, choice: TableChoice, *, strict: bool = True) -> WatchedObjects:
    """Read the catalog. If `strict`, a missing table is an error, and a missing column gets a warning."""
    rows = cursor.execute(_COLUMNS, (schema,)).fetchall()
    bases = dict(cursor.execute("SELECT oid, typbasetype FROM pg_type WHERE typtype = 'd'").fetchall())
    ancestors: dict[int, list[tuple[str, str]]] = {}
    for leaf, *parent in cursor.execute(_ANCESTORS).fetchall():
        ancestors.setdefault(leaf, []).append((parent[0], parent[1]))
    found: dict[int, list[tuple[Any, ...]]] = {}
    for row in rows:
        found.setdefault(row[0], []).append(row)
    names = {oid: [(each[0][1], each[0][2]), *ancestors.get(oid, [])] for oid, each in found.items()}
    chosen = _named("tables", names, choice.tables, "does not exist; the database has", strict)
    watched = {oid: names[oid] for oid in chosen}
    shown = _named("observe", watched, choice.observe, "is not rolled back; only these are", strict)
    foreign = [quoted(*names[oid][0]) for oid in chosen if not found[oid][0][5]]
    if foreign:
        raise SystemSetupError(
            f"{', '.join(foreign)}: only the owner or a superuser can lock a table and create triggers on it; "
            "connect as the owner, or select other tables with tables=[...]"
        )
    hidden = _hidden(watched, found, choice.ignore, strict)
    keys = _keys(cursor, chosen)
    blocking = _blocking(cursor, chosen, schema)
    made = [
        _table(oid, found[oid], oid in shown, hidden.get(oid, set()), bases, keys, blocking) for oid in chosen
    ]
    return WatchedObjects(
        {table.oid: table for table in made if not table.is_view},
        tuple(table for table in made if table.is_view and found[table.oid][0][4]),
        _sequences(cursor, schema, None if choice.tables is None else set(chosen)),
    )


def _label(schema: str, name: str) -> str:
    plain = quoted(name) if "." in name else name  # otherwise it could mean a table of another schema
    return plain if schema == "public" else f"{schema}.{plain}"


def _table(
    oid: int,
    rows: list[tuple[Any, ...]],
    shown: bool,
    hidden: set[str],
    bases: Mapping[int, int],
    keys: Mapping[int, Key],
    blocking: Mapping[int, list[tuple[str, str]]],
) -> PostgresTable:
    _, schema, name, kind, *_ = rows[0]
    columns = []
    for _, _, _, _, _, _, number, column, type_sql, type_oid, generated, collation in rows:
        if number is None or generated:
            continue
        while type_oid in bases:
            type_oid = bases[type_oid]
        type_sql = type_sql if collation is None else f"{type_sql} COLLATE {collation}"
        columns.append(PostgresColumn(column, type_sql, type_oid, column not in hidden))
    alter, pairs = f"ALTER TABLE ONLY {quoted(schema, name)}", blocking.get(oid, [])
    return PostgresTable(
        oid,
        quoted(schema, name),
        _label(schema, name),
        tuple(columns),
        keys.get(oid),
        tuple(f"{alter} {aside}" for aside, _ in pairs),
        tuple(f"{alter} {back}" for _, back in pairs),
        kind == "m",
        shown,
    )


def _as_typed(schema: str, name: str) -> set[str]:
    """Return all spellings of a table name."""
    short = {name, quoted(name)}
    return short | {f"{place}.{each}" for place in (schema, quoted(schema)) for each in short}


def _cut(name: str) -> str:
    """Return a name as PostgreSQL stores it."""
    return name.encode()[:_NAME_BYTES].decode(errors="ignore")


def _matching(names: Mapping[int, list[tuple[str, str]]], wanted: str) -> list[int]:
    """Return the tables that a name or a pattern stands for: a table, or all children of a partitioned one."""
    typed = {wanted, _cut(wanted), ".".join(_cut(part) for part in wanted.split("."))}
    own = [oid for oid, ways in names.items() if typed & _as_typed(*ways[0])]
    below = [oid for oid, ways in names.items() if any(typed & _as_typed(*way) for way in ways[1:])]
    public = [oid for oid in own if names[oid][0][0] == "public"]
    if not own and not below:
        return [
            oid
            for oid, ways in names.items()
            if any(is_like(each, wanted) for way in ways for each in (way[1], ".".join(way)))
        ]
    return (public if len(own) > 1 and public else own) + below


def _named(
    option: str,
    names: Mapping[int, list[tuple[str, str]]],
    tables: Sequence[str] | None,
    problem: str,
    strict: bool,
) -> list[int]:
    """Return the tables that an option names, or all; if `strict`, raise an error for one that is not there."""
    if tables is None:
        return list(names)
    found: dict[int, None] = {}
    for wanted in tables:
        matching = _matching(names, wanted)
        if not matching and strict:
            there = ", ".join(sorted(_label(*ways[0]) for ways in names.values())) or "none"
            raise SystemSetupError(f"{option}: table {wanted!r} {problem}: {there}")
        found |= dict.fromkeys(matching)
    return list(found)


def _hidden(
    watched: Mapping[int, list[tuple[str, str]]],
    found: Mapping[int, list[tuple[Any, ...]]],
    ignore: Iterable[tuple[str, str]],
    strict: bool,
) -> dict[int, set[str]]:
    hidden: dict[int, set[str]] = {}
    unused = []
    for wanted, column in ignore:
        matching = {
            oid: [row[7] for row in found[oid] if row[7] is not None and is_like(row[7], _cut(column))]
            for oid in _matching(watched, wanted)
        }
        for oid, columns in matching.items():
            hidden.setdefault(oid, set()).update(columns)
        if not any(matching.values()):
            unused.append((wanted, column))
    if strict:
        warn_about_unused(unused)
    return hidden


def _keys(cursor: Any, chosen: Sequence[int]) -> dict[int, Key]:
    """Return the best index of each table: rows are sorted by index, best first, and column."""
    best: dict[int, int] = {}
    keys: dict[int, Key] = {}
    for oid, index, unique, column, operator in cursor.execute(_KEYS, (list(chosen),)).fetchall():
        if best.setdefault(oid, index) == index:
            before = keys[oid].columns if oid in keys else ()
            keys[oid] = Key((*before, (column, operator)), unique)
    return keys


def _blocking(cursor: Any, chosen: Sequence[int], schema: str) -> dict[int, list[tuple[str, str]]]:
    """Return, for each table, the actions that disable and enable what blocks a restore (without ALTER TABLE)."""
    found: dict[int, list[tuple[str, str]]] = {}
    rows = cursor.execute(_BLOCKING, (list(chosen), quoted(schema))).fetchall()
    for oid, kind, name, definition in rows:
        what = f"{kind} {quoted(name)}"
        if definition:
            pair = (f"DROP {what}", f"ADD {what} {definition}")
        else:
            pair = (f"DISABLE {what}", f"ENABLE ALWAYS {what}")
        found.setdefault(oid, []).append(pair)
    return found


def _sequences(cursor: Any, schema: str, chosen: set[int] | None) -> dict[int, WatchedSequence]:
    rows = cursor.execute(_SEQUENCES, (schema,)).fetchall()
    return {
        oid: WatchedSequence(oid, quoted(place, name), _label(place, name), cached)
        for oid, place, name, cached, users in rows
        if chosen is None or chosen & set(users)
    }
