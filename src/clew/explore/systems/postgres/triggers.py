"""The journal inside the database: triggers that record every inserted and removed row, from any session.

- Each table has its own function, so the columns of an image are fixed. It is SECURITY DEFINER, so the application
  needs no privileges on the journal. It writes text in a fixed format, independent of the application's settings.
- Triggers are ENABLE ALWAYS, so an application in the replica role is recorded, too. The system's own session is
  recognized by a setting.
- TRUNCATE fires no row triggers. A separate trigger records all rows before they are removed.
- A schema change is an entry of table 0. It comes from event triggers. If the role cannot create those, a fingerprint
  of the catalog is compared at every read.
- The journal is unlogged: after a crash of the server no checkpoint is valid anyway.

The journal stores nothing permanently. Each read removes its rows, and the client keeps them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew.errors import SystemSetupError
from clew.explore.systems.postgres.catalog import PostgresTable, WatchedObjects, quoted
from clew.explore.systems.postgres.connection import TEXT_STYLE

if TYPE_CHECKING:
    from clew.explore.systems.postgres.connection import Connection

SCHEMA_CHANGED = 0  # the "table" of an entry for a schema change
UNSEEN = "TRUNCATE in an isolated transaction"  # a change that the journal has only in part
_OURS = "Journal of a Clew exploration; it can be dropped when none runs."
_MIDWAY = "An exploration has left its initial state."
_STYLE = " ".join(f"SET {name} = '{value}'" for name, value in TEXT_STYLE.items())
_DEFINER = f"LANGUAGE plpgsql SECURITY DEFINER {_STYLE}"
_ENABLED = "current_setting('clew.restoring', true) IS DISTINCT FROM 'on'"
_NO_STATE = "'COMMENT', 'REINDEX', 'SECURITY LABEL'"

_OF_TABLES = """
SELECT 'FUNCTION', proname || '()' FROM pg_proc
WHERE pronamespace = to_regnamespace($1) AND proname ~ '^note_[0-9]'
UNION ALL SELECT 'TYPE', typname FROM pg_type WHERE typnamespace = to_regnamespace($1) AND typname ~ '^row_[0-9]'
"""
# It must change with the schema, and must not change with TRUNCATE, VACUUM or temporary tables.
_FINGERPRINT = """
WITH places AS (SELECT oid FROM pg_namespace
                WHERE nspname !~ '^pg_' AND nspname NOT IN ('information_schema', {schema})),
     kinds AS (SELECT c.* FROM pg_class c JOIN places p ON p.oid = c.relnamespace WHERE c.relpersistence <> 't'),
     things(what) AS (
    SELECT concat_ws(' ', 'c', oid, relname, relnamespace, relkind, relnatts, relowner, relrowsecurity, relacl,
                     reloptions, CASE relkind WHEN 'm' THEN relfilenode END) FROM kinds
    UNION ALL SELECT concat_ws(' ', 'a', a.attrelid, a.attnum, a.xmin) FROM kinds k
              JOIN pg_attribute a ON a.attrelid = k.oid AND a.attnum > 0
    UNION ALL SELECT concat_ws(' ', 'd', d.oid, d.xmin) FROM kinds k JOIN pg_attrdef d ON d.adrelid = k.oid
    UNION ALL SELECT concat_ws(' ', 'o', o.oid, o.xmin) FROM places p JOIN pg_constraint o ON o.connamespace = p.oid
    UNION ALL SELECT concat_ws(' ', 't', t.oid, t.tgname, t.tgfoid, t.tgtype, t.tgenabled) FROM kinds k
              JOIN pg_trigger t ON t.tgrelid = k.oid
    UNION ALL SELECT concat_ws(' ', 'r', w.oid, w.xmin) FROM kinds k JOIN pg_rewrite w ON w.ev_class = k.oid
    UNION ALL SELECT concat_ws(' ', 's', s.seqrelid, s.xmin) FROM kinds k JOIN pg_sequence s ON s.seqrelid = k.oid
    UNION ALL SELECT concat_ws(' ', 'f', f.oid, f.xmin) FROM places p JOIN pg_proc f ON f.pronamespace = p.oid
    UNION ALL SELECT concat_ws(' ', 'y', y.oid, y.xmin) FROM places p
              JOIN pg_type y ON y.typnamespace = p.oid AND y.typtype IN ('d', 'e', 'r')
    UNION ALL SELECT concat_ws(' ', 'e', e.oid, e.xmin) FROM pg_enum e)
SELECT sum(hashtextextended(what, 0)), sum(hashtextextended(what, 1)) FROM things
"""


def fingerprint_sql(schema: str) -> str:
    """Return a statement whose result changes with the schema."""
    return _FINGERPRINT.replace("{schema}", "'" + schema.replace("'", "''") + "'")


def journal_name(schema: str) -> str:
    return quoted(schema, "journal")


def drain_sql(schema: str) -> str:
    """Return a statement that removes committed entries: table, removed image, inserted image."""
    return f"DELETE FROM {journal_name(schema)} RETURNING rel, gone, came"


def image_sql(table: PostgresTable, row: str, *, shown: bool = False) -> str:
    """Return the image of a row as SQL; with `shown`, without ignored columns."""
    columns = [column for column in table.columns if column.shown or not shown]
    return "ROW(" + ", ".join(f"{row}.{quoted(column.name)}" for column in columns) + ")::pg_catalog.text"


def image_type(schema: str, table: PostgresTable) -> str:
    """Return the composite type of a table's images."""
    return quoted(schema, f"row_{table.oid}")


def mark_midway(link: Connection, schema: str, is_midway: bool) -> None:
    """Store whether an exploration has left its initial state."""
    link.execute(f"COMMENT ON TABLE {journal_name(schema)} IS '{_MIDWAY if is_midway else ''}'".encode())


def was_left_midway(link: Connection, schema: str) -> bool:
    """Return whether the journal has the mark of an exploration that left its initial state."""
    found = link.execute(
        "SELECT obj_description(to_regclass($1), 'pg_class')", (journal_name(schema),)
    ).fetchone()
    return found == (_MIDWAY,)


def create(link: Connection, schema: str) -> bool:
    """Create an empty journal, and replace one that a killed process left.

    Return whether event triggers report schema changes.
    """
    remove(link, schema)
    found = link.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user").fetchone()
    is_superuser = found == (True,)
    place = quoted(schema)
    statements = [
        f"CREATE SCHEMA {place}",
        f"COMMENT ON SCHEMA {place} IS '{_OURS}'",
        f"CREATE UNLOGGED TABLE {place}.journal (rel oid NOT NULL, gone text, came text)",
    ]
    for statement in statements + (_event_statements(schema) if is_superuser else []):
        link.execute(statement.encode(), prepare=False)
    return is_superuser


def lock(link: Connection, schema: str) -> None:
    """Lock the journal until the transaction ends, so no change happens after the catalog is read."""
    link.execute(f"LOCK TABLE {journal_name(schema)} IN SHARE ROW EXCLUSIVE MODE".encode(), prepare=False)


def watch(link: Connection, schema: str, watched: WatchedObjects) -> None:
    """Create triggers on these tables, remove all others, and empty the journal."""
    place = quoted(schema)
    old = link.execute(_OF_TABLES, (place,)).fetchall()
    statements = [f"DROP {kind} {place}.{name} CASCADE" for kind, name in old]
    statements.append(f"DELETE FROM {journal_name(schema)}")
    for table in watched.tables.values():
        statements += _table_statements(schema, table)
    for statement in statements:
        link.execute(statement.encode(), prepare=False)


def were_disabled(link: Connection, schema: str) -> bool:
    """Return whether triggers were disabled, so that changes of rows were not recorded."""
    found = link.execute(
        "SELECT EXISTS (SELECT FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid "
        "WHERE p.pronamespace = to_regnamespace($1) AND t.tgenabled <> 'A')",
        (quoted(schema),),
    ).fetchone()
    return found == (True,)


def remove(link: Connection, schema: str) -> None:
    """Remove the journal, its functions and triggers; reject a schema that is not a journal."""
    found = link.execute(
        "SELECT obj_description(oid, 'pg_namespace') FROM pg_namespace WHERE nspname = $1", (schema,)
    ).fetchone()
    if found is None:
        return
    if found[0] != _OURS:
        raise SystemSetupError(
            f"schema {schema!r} already exists and is not a journal of Clew; choose another name with schema=..."
        )
    link.execute(f"DROP SCHEMA {quoted(schema)} CASCADE".encode(), prepare=False)


def disable(link: Connection, watched: WatchedObjects) -> None:
    """Disable the triggers; unlike dropping them, this does not wait for readers."""
    for table in watched.tables.values():
        for trigger in ("clew_rows", "clew_truncate"):
            link.execute(f"ALTER TABLE ONLY {table.name} DISABLE TRIGGER {trigger}".encode(), prepare=False)


def _function(name: str, returns: str, body: str) -> str:
    tag = "$body$"
    while tag in body:  # a table name may contain the tag
        tag = f"{tag[:-1]}x$"
    return f"CREATE FUNCTION {name}() RETURNS {returns} {_DEFINER} AS {tag}{body}{tag}"


def _table_statements(schema: str, table: PostgresTable) -> list[str]:
    place, rows = quoted(schema), quoted(schema, f"note_{table.oid}")
    columns = ", ".join(f"{quoted(column.name)} {column.type_sql}" for column in table.columns)
    old, new = image_sql(table, "OLD"), image_sql(table, "NEW")
    every = image_sql(table, "t")
    journal = f"INSERT INTO {place}.journal VALUES ({table.oid},"
    # TRUNCATE also removes rows that such a transaction cannot see and record, so the journal is incomplete.
    unsure = f"INSERT INTO {place}.journal VALUES ({SCHEMA_CHANGED}, NULL, '{UNSEEN}')"
    return [
        f"CREATE TYPE {image_type(schema, table)} AS ({columns})",
        _function(
            rows,
            "trigger",
            f"""
DECLARE gone text; came text;
BEGIN
    IF TG_OP = 'TRUNCATE' THEN
        INSERT INTO {place}.journal SELECT {table.oid}, {every}, NULL FROM ONLY {table.name} t;
        IF current_setting('transaction_isolation') <> 'read committed' THEN
            {unsure};
        END IF;
    ELSIF TG_OP = 'INSERT' THEN
        {journal} NULL, {new});
    ELSIF TG_OP = 'DELETE' THEN
        {journal} {old}, NULL);
    ELSE
        gone := {old};
        came := {new};
        IF gone COLLATE "C" <> came COLLATE "C" THEN
            {journal} gone, came);
        END IF;
    END IF;
    RETURN NULL;
END """,
        ),
        f"CREATE TRIGGER clew_rows AFTER INSERT OR UPDATE OR DELETE ON {table.name} "
        f"FOR EACH ROW WHEN ({_ENABLED}) EXECUTE FUNCTION {rows}()",
        f"CREATE TRIGGER clew_truncate BEFORE TRUNCATE ON {table.name} "
        f"FOR EACH STATEMENT WHEN ({_ENABLED}) EXECUTE FUNCTION {rows}()",
        f"ALTER TABLE ONLY {table.name} ENABLE ALWAYS TRIGGER clew_rows",
        f"ALTER TABLE ONLY {table.name} ENABLE ALWAYS TRIGGER clew_truncate",
    ]


def _event_statements(schema: str) -> list[str]:
    place = quoted(schema)
    note = f"INSERT INTO {place}.journal VALUES ({SCHEMA_CHANGED}, NULL, tg_tag)"
    return [
        _function(
            f"{place}.note_change",
            "event_trigger",
            f"""
BEGIN
    IF tg_tag NOT IN ({_NO_STATE}) AND (tg_tag = 'REFRESH MATERIALIZED VIEW' OR EXISTS (
        SELECT FROM pg_event_trigger_ddl_commands() c WHERE c.schema_name IS DISTINCT FROM 'pg_temp')) THEN
        {note};
    END IF;
END """,
        ),
        _function(
            f"{place}.note_drop",
            "event_trigger",
            f"""
BEGIN
    IF EXISTS (SELECT FROM pg_event_trigger_dropped_objects() d WHERE d.original AND NOT d.is_temporary) THEN
        {note};
    END IF;
END """,
        ),
        f"CREATE EVENT TRIGGER {quoted(schema + '_change')} ON ddl_command_end "
        f"EXECUTE FUNCTION {place}.note_change()",
        f"CREATE EVENT TRIGGER {quoted(schema + '_drop')} ON sql_drop EXECUTE FUNCTION {place}.note_drop()",
    ]
