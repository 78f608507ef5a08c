"""The journal inside the database: triggers that write down every row that comes and goes, whoever changes it.

- One function a table, so that an image is made of fixed columns. It is SECURITY DEFINER (the application needs no
  right to the journal) and writes text in a fixed style, whatever the application's session has set.
- Triggers are ENABLE ALWAYS, so that an application that itself works in the replica role is seen too; the system's
  own session is recognised by a setting.
- TRUNCATE fires no row triggers: its own trigger writes down all rows before they go.
- A change of the schema is a row of table 0. It comes from event triggers; where the role may not make those, from a
  fingerprint of the catalog, which is compared at every look.
- The journal is unlogged: after a crash of the server no checkpoint is valid anyway.

What it does not do: keep anything. Each look takes the rows out, and the client keeps them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew.errors import SystemSetupError
from clew.explore.systems.postgres.catalog import PostgresTable, WatchedObjects, quoted
from clew.explore.systems.postgres.connection import TEXT_STYLE

if TYPE_CHECKING:
    from clew.explore.systems.postgres.connection import Connection

SCHEMA_CHANGED = 0  # the "table" of a row that says so
_OURS = "Journal of a Clew exploration; it can be dropped when none runs."
_STYLE = " ".join(f"SET {name} = '{value}'" for name, value in TEXT_STYLE.items())
_DEFINER = f"LANGUAGE plpgsql SECURITY DEFINER {_STYLE}"
_AWAKE = "current_setting('clew.restoring', true) IS DISTINCT FROM 'on'"
_NO_STATE = "'COMMENT', 'REINDEX', 'SECURITY LABEL'"

_OF_TABLES = """
SELECT 'FUNCTION', proname || '()' FROM pg_proc
WHERE pronamespace = to_regnamespace($1) AND proname ~ '^note_[0-9]'
UNION ALL SELECT 'TYPE', typname FROM pg_type WHERE typnamespace = to_regnamespace($1) AND typname ~ '^row_[0-9]'
"""
# What must change when somebody changes the schema, and must not when they TRUNCATE, VACUUM or use temporary tables.
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
    """The statement whose answer changes with the schema."""
    return _FINGERPRINT.replace("{schema}", "'" + schema.replace("'", "''") + "'")


def journal_name(schema: str) -> str:
    return quoted(schema, "journal")


def drain_sql(schema: str) -> str:
    """Takes out what has been committed: table, the image that went, the image that came."""
    return f"DELETE FROM {journal_name(schema)} RETURNING rel, gone, came"


def image_sql(table: PostgresTable, row: str, *, shown: bool = False) -> str:
    """The image of a row, in SQL; with `shown`, without the columns that observations leave out."""
    columns = [column for column in table.columns if column.shown or not shown]
    return "ROW(" + ", ".join(f"{row}.{quoted(column.name)}" for column in columns) + ")::pg_catalog.text"


def image_type(schema: str, table: PostgresTable) -> str:
    """The type that takes an image apart."""
    return quoted(schema, f"row_{table.oid}")


def create(link: Connection, schema: str) -> bool:
    """Make an empty journal, over whatever a killed process left.

    Returns whether event triggers report changes of the schema.
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


def hold(link: Connection, schema: str) -> None:
    """Let nobody write into the journal until the transaction ends: what the catalog says now is all that happened."""
    link.execute(f"LOCK TABLE {journal_name(schema)} IN SHARE ROW EXCLUSIVE MODE".encode(), prepare=False)


def watch(link: Connection, schema: str, watched: WatchedObjects) -> None:
    """Put triggers on these tables and take them from all others; what the journal holds is forgotten."""
    place = quoted(schema)
    old = link.execute(_OF_TABLES, (place,)).fetchall()
    statements = [f"DROP {kind} {place}.{name} CASCADE" for kind, name in old]
    statements.append(f"DELETE FROM {journal_name(schema)}")
    for table in watched.tables.values():
        statements += _table_statements(schema, table)
    for statement in statements:
        link.execute(statement.encode(), prepare=False)


def remove(link: Connection, schema: str) -> None:
    """Take the journal and, with its functions, all of its triggers out. Somebody else's schema is left alone."""
    found = link.execute(
        "SELECT obj_description(oid, 'pg_namespace') FROM pg_namespace WHERE nspname = $1", (schema,)
    ).fetchone()
    if found is None:
        return
    if found[0] != _OURS:
        raise SystemSetupError(
            f"the schema {schema!r} is there already, and is no journal of Clew; give another name with schema=..."
        )
    link.execute(f"DROP SCHEMA {quoted(schema)} CASCADE".encode(), prepare=False)


def sleep(link: Connection, watched: WatchedObjects) -> None:
    """Let the triggers do nothing more; unlike dropping them, this does not have to wait for readers."""
    for table in watched.tables.values():
        for trigger in ("clew_rows", "clew_truncate"):
            link.execute(f"ALTER TABLE ONLY {table.name} DISABLE TRIGGER {trigger}".encode(), prepare=False)


def _function(name: str, returns: str, body: str) -> str:
    tag = "$body$"
    while tag in body:  # a table may be called anything
        tag = f"{tag[:-1]}x$"
    return f"CREATE FUNCTION {name}() RETURNS {returns} {_DEFINER} AS {tag}{body}{tag}"


def _table_statements(schema: str, table: PostgresTable) -> list[str]:
    place, rows = quoted(schema), quoted(schema, f"note_{table.oid}")
    columns = ", ".join(f"{quoted(column.name)} {column.type_sql}" for column in table.columns)
    old, new = image_sql(table, "OLD"), image_sql(table, "NEW")
    every = image_sql(table, "t")
    journal = f"INSERT INTO {place}.journal VALUES ({table.oid},"
    # Rows that such a transaction does not see are gone too, and are not written down: nothing is certain any more.
    unsure = (
        f"INSERT INTO {place}.journal VALUES ({SCHEMA_CHANGED}, NULL, 'TRUNCATE in an isolated transaction')"
    )
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
        f"FOR EACH ROW WHEN ({_AWAKE}) EXECUTE FUNCTION {rows}()",
        f"CREATE TRIGGER clew_truncate BEFORE TRUNCATE ON {table.name} "
        f"FOR EACH STATEMENT WHEN ({_AWAKE}) EXECUTE FUNCTION {rows}()",
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
