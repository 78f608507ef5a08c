"""The tables of a `PostgresStore`, and their migrations.

- `steps` holds the steps of the runs themselves, which are most of the data, under a small key. `log` holds all other
  entries. `origins` holds the initial state of a run, apart from the row, which every change of status rewrites.
- `workers` holds the owners of runs, with one lease for each; `queue` the entries of queued runs;
  `inbox` the messages to runs; `attributes` the attributes by which they are found.
- An index of PostgreSQL accepts keys of about 2,700 bytes. So the index of a long id or path contains its beginning and
  its digest (`key_of`), and another column contains all of it.
- Migrations run under an advisory lock, so one process creates the tables when several open a new schema.
- A schema of a newer version of this library, or of a format before `OLDEST`, is rejected.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

from clew.errors import StoreError
from clew.stores.messages import check_version

if TYPE_CHECKING:
    import psycopg

OLDEST = 10
"""The oldest supported format."""

MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE @.runs (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, key text COLLATE "C" NOT NULL UNIQUE, run_id text NOT NULL,
        fence bigint NOT NULL DEFAULT 0, owner text NOT NULL DEFAULT '',
        status text NOT NULL, created double precision NOT NULL, updated double precision NOT NULL,
        graph text NOT NULL, seed text NOT NULL, parent text, parent_step bigint, structure text NOT NULL,
        target text NOT NULL, error bytea, census text, child_of text, place text NOT NULL DEFAULT '',
        token text NOT NULL DEFAULT '', attributes text NOT NULL DEFAULT '{}', last_queue text NOT NULL DEFAULT ''
    ) WITH (fillfactor = 50);
    CREATE INDEX runs_by_status ON @.runs (status, created, id);
    CREATE INDEX runs_by_created ON @.runs (created, id);
    CREATE INDEX runs_by_graph ON @.runs (left(graph, 200), created, id);
    CREATE INDEX runs_by_parent ON @.runs USING hash (parent);
    CREATE INDEX runs_by_child_of ON @.runs USING hash (child_of) WHERE child_of IS NOT NULL;
    CREATE INDEX runs_by_owner ON @.runs USING hash (owner) WHERE owner <> '';
    CREATE TABLE @.origins (
        run bigint PRIMARY KEY, start bytea, codes text NOT NULL, start_digest text NOT NULL,
        description text NOT NULL, crc bigint NOT NULL
    );
    CREATE TABLE @.steps (
        run bigint NOT NULL, n bigint NOT NULL, body bytea NOT NULL, digest bytea NOT NULL, crc integer NOT NULL,
        PRIMARY KEY (run, n)
    );
    CREATE TABLE @.log (
        run bigint NOT NULL, n bigint NOT NULL, kind text COLLATE "C" NOT NULL, key text COLLATE "C" NOT NULL,
        path text, body bytea NOT NULL, digest bytea NOT NULL, crc integer NOT NULL,
        PRIMARY KEY (run, kind, key, n)
    );
    CREATE TABLE @.blobs (digest text COLLATE "C" PRIMARY KEY, body bytea NOT NULL);
    CREATE TABLE @.uses (run bigint NOT NULL, digest text COLLATE "C" NOT NULL, PRIMARY KEY (run, digest));
    CREATE INDEX uses_by_digest ON @.uses (digest);
    CREATE TABLE @.threads (key text COLLATE "C" PRIMARY KEY, name text NOT NULL, head text NOT NULL);
    CREATE INDEX threads_by_head ON @.threads USING hash (head);
    CREATE TABLE @.workers (
        owner text COLLATE "C" PRIMARY KEY, label text NOT NULL, host text NOT NULL, pid integer NOT NULL,
        started double precision NOT NULL, slot integer NOT NULL, server double precision NOT NULL,
        until double precision NOT NULL, dead boolean NOT NULL, info text NOT NULL
    ) WITH (fillfactor = 50);
    CREATE TABLE @.queue (
        run bigint PRIMARY KEY, queue text COLLATE "C" NOT NULL, structure text NOT NULL, priority integer NOT NULL,
        due double precision NOT NULL, taken boolean NOT NULL DEFAULT false, tries integer NOT NULL DEFAULT 0,
        mark text NOT NULL DEFAULT ''
    );
    CREATE TABLE @.inbox (
        run bigint NOT NULL, n bigint NOT NULL, id text NOT NULL, kind text NOT NULL, body bytea, crc integer NOT NULL,
        PRIMARY KEY (run, n)
    );
    CREATE UNIQUE INDEX inbox_by_id ON @.inbox (run, id);
    CREATE TABLE @.attributes (
        name text COLLATE "C" NOT NULL, value text COLLATE "C" NOT NULL, created double precision NOT NULL,
        run bigint NOT NULL, PRIMARY KEY (name, value, created, run)
    );
    CREATE INDEX attributes_by_run ON @.attributes (run);
    CREATE INDEX queue_by_due ON @.queue (queue, structure, priority, due) WHERE NOT taken;
    """,
)
"""One script for each version of the schema, from `OLDEST`. Opening a store migrates it."""


def _newest() -> int:
    return OLDEST + len(MIGRATIONS) - 1


_MIGRATES = 0x436C6578  # class of the advisory locks for migrations
_SHORT = 1000  # bytes


def key_of(text: str) -> str:
    """Return the index key of an id or a path: itself, or for a long text its beginning and its digest."""
    if len(text) <= _SHORT // 4:
        return text
    data = text.encode(errors="surrogatepass")  # PostgreSQL rejects it and names it
    if len(data) <= _SHORT:
        return text
    # Longer than any text that is its own key, so the two kinds never collide.
    return data[: _SHORT - 60].decode(errors="ignore") + sha256(data).hexdigest()


def migrate(db: psycopg.Connection[Any], schema: str, name: str) -> None:
    """Create or migrate the tables of a schema."""
    from psycopg.sql import SQL, Identifier

    if _version(db, name) == _newest():
        return
    with db.transaction():
        db.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", (_MIGRATES, schema))
        db.execute(SQL("CREATE SCHEMA IF NOT EXISTS {}").format(Identifier(schema)))
        version = _version(db, name)  # again: another process may have been faster
        if not version:
            if db.execute("SELECT 1 FROM pg_tables WHERE schemaname = %s LIMIT 1", (schema,)).fetchone():
                raise StoreError(f"{name} has tables of another program; give Clew a separate schema")
            db.execute("CREATE TABLE @.version (version integer NOT NULL)")
            db.execute("INSERT INTO @.version VALUES (0)")
        for script in MIGRATIONS[max(version - OLDEST + 1, 0) :]:
            db.execute(script)
        db.execute("UPDATE @.version SET version = %s", (_newest(),))


def _version(db: psycopg.Connection[Any], name: str) -> int:
    if db.execute("SELECT to_regclass('@.version')").fetchone() == (None,):
        return 0
    found = db.execute("SELECT version FROM @.version").fetchone()
    version = int(found[0]) if found else 0
    check_version(version, OLDEST, _newest(), name)
    return version
