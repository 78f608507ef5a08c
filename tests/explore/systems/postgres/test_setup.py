"""Getting in and out: rights, names, schemas, and nothing left behind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
import pytest
from psycopg import sql

from clew.errors import ClewError, ExplorationWarning, SystemSetupError
from clew.explore.systems import PostgresSystem
from tests.explore.systems.postgres_databases import Database, check_round_trips

LEFT = """
SELECT (SELECT count(*) FROM pg_trigger WHERE tgname ~ 'clew')
     + (SELECT count(*) FROM pg_namespace WHERE nspname ~ 'clew')
     + (SELECT count(*) FROM pg_event_trigger) + (SELECT count(*) FROM pg_database WHERE datname ~ '^clew_')
"""
ODD_NAMES = [
    'quo"te',
    "per%cent",
    "sem;icolon",
    "space d",
    "🧶 wool",
    "a.b",
    "$body$",
    "$1",
    "SELECT",
    "back\\slash",
    "'",
]


@dataclass
class Role:
    """An ordinary role that owns the schema public, and how it connects."""

    name: str
    dsn: str


@pytest.fixture
def owner(database: Database) -> Iterator[Role]:
    name = f"{database.name}_owner"
    database.run(
        f"CREATE ROLE {name} LOGIN",
        f"GRANT CREATE ON DATABASE {database.name} TO {name}",
        f"ALTER SCHEMA public OWNER TO {name}",
    )
    yield Role(name, database.dsn.replace("user=postgres", f"user={name}"))
    database.run(f"DROP OWNED BY {name} CASCADE", f"DROP ROLE {name}")


def allow(database: Database, role: Role) -> None:
    database.run(f"GRANT SET ON PARAMETER session_replication_role TO {role.name}")


def as_role(role: Role, *statements: str) -> None:
    with psycopg.connect(role.dsn, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def test_closing_leaves_nothing_behind(database: Database) -> None:
    database.run("CREATE TABLE t (v int)", "INSERT INTO t VALUES (1)")
    with PostgresSystem(database.dsn) as system:
        system.checkpoint("x")
        assert database.run(LEFT) != [(0,)]
        database.run("UPDATE t SET v = 2")
    assert database.run(LEFT) == [(0,)]
    assert database.run("SELECT v FROM t") == [(2,)]
    system.close()  # again is no error
    for call in (
        system.observe,
        lambda: system.checkpoint("y"),
        lambda: system.rollback("x"),
    ):
        with pytest.raises(ClewError):
            call()


def test_closing_while_the_application_holds_a_table(database: Database) -> None:
    database.run("CREATE TABLE t (v int)")
    system = database.system(lock_timeout=0.1)
    application = database.connect(autocommit=False)
    application.execute("INSERT INTO t VALUES (1)")
    with pytest.warns(ExplorationWarning, match="cannot remove the journal: a table stayed locked"):
        system.close()
    application.commit()
    with PostgresSystem(database.dsn):  # the next one replaces it
        pass
    assert database.run(LEFT) == [(0,)]


def test_closing_while_somebody_reads_puts_the_triggers_to_sleep(database: Database) -> None:
    database.run("CREATE TABLE t (v int)")
    system = database.system(lock_timeout=0.1)
    reader = database.connect(autocommit=False, application_name="the reader")
    reader.execute("SELECT * FROM t")
    with pytest.warns(
        ExplorationWarning, match=r"cannot remove the journal.*\(the reader, idle in transaction\)"
    ):
        system.close()
    database.run("INSERT INTO t VALUES (1)")
    assert database.run("SELECT * FROM clew_explore.journal") == []


def test_a_schema_of_somebody_elses_is_left_alone(database: Database) -> None:
    database.run("CREATE SCHEMA clew_explore", "CREATE TABLE clew_explore.mine (v int)")
    with pytest.raises(SystemSetupError, match="'clew_explore' already exists"):
        PostgresSystem(database.dsn)
    with PostgresSystem(database.dsn, schema='other "one" 🧶') as system:
        token = system.checkpoint("x")
        database.run("INSERT INTO clew_explore.mine VALUES (1)")
        system.rollback(token)
    assert database.run("SELECT * FROM clew_explore.mine") == []


@pytest.mark.parametrize("dsn", ["this is no address", "host=/nowhere dbname=x", "postgresql://%zz"])
def test_a_database_that_cannot_be_reached(dsn: str) -> None:
    with pytest.raises(SystemSetupError):
        PostgresSystem(dsn)


def test_a_database_that_is_not_there(database: Database) -> None:
    with pytest.raises(SystemSetupError, match="does not exist"):
        PostgresSystem(database.dsn.replace(database.name, "nothing_here"))


def test_a_url_is_an_address_too(database: Database) -> None:
    parts = psycopg.conninfo.conninfo_to_dict(database.dsn)
    url = f"postgresql://{parts['user']}@/{parts['dbname']}?host={parts['host']}"
    with PostgresSystem(url) as system:
        assert system.observe().data == {}


# --- rights


def test_an_owner_without_the_grant_is_told_the_line_to_run(database: Database, owner: Role) -> None:
    as_role(owner, "CREATE TABLE t (v int)")
    with pytest.raises(SystemSetupError) as refused:
        PostgresSystem(owner.dsn)
    line = next(line.strip() for line in str(refused.value).splitlines() if "GRANT" in line)
    assert line == f'GRANT SET ON PARAMETER session_replication_role TO "{owner.name}";'
    database.run(line)
    with PostgresSystem(owner.dsn) as system:
        token = system.checkpoint("x")
        as_role(owner, "INSERT INTO t VALUES (1)")
        system.rollback(token)
        assert database.run("SELECT * FROM t") == []


@pytest.mark.parametrize("knows_the_cluster", [True, False])
def test_an_owner_with_the_grant_goes_on_after_a_kill(
    database: Database, owner: Role, knows_the_cluster: bool
) -> None:
    allow(database, owner)
    if not knows_the_cluster:
        database.run("REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC")
    as_role(
        owner,
        "CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY, v text)",
        "INSERT INTO t (v) VALUES ('a'), ('b')",
    )
    before = database.truth()
    with PostgresSystem(owner.dsn) as first:
        first.observe()
        pieces = list(first.save_baseline(first.checkpoint("initial")))
        as_role(owner, "DELETE FROM t WHERE id = 1", "INSERT INTO t (v) VALUES ('c')")
    with PostgresSystem(owner.dsn) as second:
        second.restore_baseline(pieces)
        assert database.truth() == before
        token = second.checkpoint("initial")
        as_role(owner, "DELETE FROM t")
        second.rollback(token)
        assert database.truth() == before


def test_an_owner_with_the_grant_explores(database: Database, owner: Role) -> None:
    allow(database, owner)
    as_role(
        owner,
        "CREATE TABLE parent (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v text)",
        "CREATE TABLE child (id serial, parent int REFERENCES parent ON DELETE CASCADE)",
        "CREATE FUNCTION shout() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN NEW.v := upper(NEW.v); RETURN NEW; END $$",
        "CREATE TRIGGER shout BEFORE INSERT ON parent FOR EACH ROW EXECUTE FUNCTION shout()",
        "ALTER TABLE parent ENABLE ALWAYS TRIGGER shout",
        "INSERT INTO parent (v) VALUES ('a'), ('b')",
        "INSERT INTO child (parent) VALUES (1), (2)",
    )
    steps = [
        "DELETE FROM parent WHERE id = 1",
        "INSERT INTO parent (v) VALUES ('c')",
        "TRUNCATE parent CASCADE",
    ]
    original, database.dsn = database.dsn, owner.dsn
    try:
        check_round_trips(database, [], steps)
    finally:
        database.dsn = original


def test_without_event_triggers_the_catalog_tells_of_changes(database: Database, owner: Role) -> None:
    allow(database, owner)
    as_role(
        owner, "CREATE TABLE t (id serial PRIMARY KEY, v int)", "CREATE MATERIALIZED VIEW m AS SELECT 1 AS n"
    )
    with PostgresSystem(owner.dsn) as system:
        system.checkpoint("start")
        for harmless in (
            "TRUNCATE t",
            "ANALYZE t",
            "VACUUM FULL t",
            "CREATE TEMP TABLE x (v int)",
            "INSERT INTO t VALUES (1)",
        ):
            as_role(owner, harmless)
            system.observe()
        for change in (
            "ALTER TABLE t ADD COLUMN w int",
            "CREATE TABLE u (v int)",
            "ALTER TABLE t ALTER v TYPE bigint",
            "ALTER TABLE t ALTER v SET DEFAULT 3",
            "CREATE INDEX ON t (v)",
            "REFRESH MATERIALIZED VIEW m",
            "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
            "ALTER TABLE t ADD CHECK (v <> 7)",
            "DROP TABLE u",
            "ALTER TABLE t RENAME v TO x",
        ):
            system.checkpoint("before")
            as_role(owner, change)
            with pytest.warns(ExplorationWarning, match="the schema has changed"):
                system.observe()
        token = system.checkpoint("after")
        as_role(owner, "INSERT INTO t VALUES (50, 51, 52)")
        system.rollback(token)
        assert database.run("SELECT count(*) FROM t") == [(1,)]


def test_tables_of_another_owner_are_named(database: Database, owner: Role) -> None:
    allow(database, owner)
    database.run("CREATE TABLE theirs (v int)", f"GRANT ALL ON theirs TO {owner.name}")
    as_role(owner, "CREATE TABLE mine (v int)")
    with pytest.raises(SystemSetupError, match=r'"public"\."theirs": only the owner'):
        PostgresSystem(owner.dsn)
    with PostgresSystem(owner.dsn, tables=["mine"]) as system:
        assert system.observe().data == {"mine": []}


def test_the_application_needs_no_right_to_the_journal(database: Database) -> None:
    role = f"{database.name}_app"
    database.run(
        "CREATE TABLE t (id int PRIMARY KEY, secret text)",
        f"CREATE ROLE {role} LOGIN",
        f"GRANT INSERT, UPDATE, DELETE, TRUNCATE ON t TO {role}",
        f"GRANT SELECT (id) ON t TO {role}",
        "ALTER TABLE t ENABLE ROW LEVEL SECURITY",
        f"CREATE POLICY small ON t TO {role} USING (id < 10)",
        "INSERT INTO t VALUES (1, 'a'), (50, 'b')",
    )
    try:
        system = database.system()
        token, truth = system.checkpoint("before"), database.truth()
        application = Role(role, database.dsn.replace("user=postgres", f"user={role}"))
        as_role(application, "INSERT INTO t VALUES (2, 'x')", "UPDATE t SET secret = 'y' WHERE id = 1")
        assert len(system.observe().data["t"]) == 3
        system.rollback(token)
        assert database.truth() == truth
        as_role(application, "TRUNCATE t")
        system.rollback(token)
        assert database.truth() == truth
        system.close()
    finally:
        database.run(f"DROP OWNED BY {role}", f"DROP ROLE {role}")


# --- names


@pytest.mark.parametrize("name", [*ODD_NAMES, "long " * 40, "🧶" * 50])
def test_odd_names_of_schemas_tables_columns_and_triggers(database: Database, name: str) -> None:
    identifiers = {
        key: sql.Identifier(prefix + name) for key, prefix in {"n": "", "s": "s ", "k": "k "}.items()
    }
    with psycopg.connect(database.dsn, autocommit=True) as connection:

        def run(statement: str) -> None:
            connection.execute(sql.SQL(statement).format(**identifiers))

        connection.add_notice_handler(lambda _: None)  # that it cuts a name
        for statement in (
            "CREATE SCHEMA {s}",
            "CREATE TYPE {s}.{k} AS ENUM ('a', 'b')",
            "CREATE TABLE {s}.{n} ({n} serial PRIMARY KEY, kind {s}.{k},"
            " double int GENERATED ALWAYS AS ({n} * 2) STORED)",
            "CREATE FUNCTION {s}.{n}() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
            "CREATE TRIGGER {n} BEFORE UPDATE ON {s}.{n} FOR EACH ROW EXECUTE FUNCTION {s}.{n}()",
            "ALTER TABLE {s}.{n} ENABLE ALWAYS TRIGGER {n}",
            "CREATE TABLE {n} ({n} text)",
            "INSERT INTO {s}.{n} (kind) VALUES ('a'), ('b')",
            "INSERT INTO {n} VALUES ('x'), ('x')",
        ):
            run(statement)
        system = database.system(ignore={name: [name]})
        states = [(system.checkpoint(name), database.truth(), system.observe())]
        for statement in (
            "UPDATE {s}.{n} SET kind = 'a'",
            "DELETE FROM {n}",
            "INSERT INTO {s}.{n} (kind) VALUES ('b')",
        ):
            run(statement)
            states.append((system.checkpoint(name), database.truth(), system.observe()))
    for place in (0, 3, 1, 2, 0):
        token, truth, seen = states[place]
        system.rollback(token)
        assert (database.truth(), system.observe()) == (truth, seen)


@pytest.mark.parametrize(
    "written, watched",
    [
        ("t", {"t"}),
        ("public.t", {"t"}),
        ('"t"', {"t"}),
        ('public."t"', {"t"}),
        ("s.t", {"s.t"}),
        ("u", {"s.u"}),
        ("a.b", {'"a.b"'}),
        ('"a.b"', {'"a.b"'}),
        ("x" * 200, {"x" * 63}),
    ],
)
def test_tables_are_named_in_the_usual_ways(database: Database, written: str, watched: set[str]) -> None:
    database.run("CREATE SCHEMA s", "CREATE TABLE t ()", "CREATE TABLE s.t ()", "CREATE TABLE s.u ()")
    database.run('CREATE TABLE "a.b" ()', f"CREATE TABLE {'x' * 63} ()")
    assert database.system(tables=[written]).observe().data.keys() == watched


def test_search_paths_do_not_matter(database: Database) -> None:
    """Neither the database's, nor the application's, nor objects that are called like those of PostgreSQL."""
    database.run(
        "CREATE SCHEMA evil",
        "CREATE TABLE evil.t (id int PRIMARY KEY, v text)",
        "CREATE TABLE t (id int PRIMARY KEY, v text)",
        "CREATE TABLE evil.pg_class (v int)",
        "CREATE FUNCTION evil.current_setting(text, boolean) RETURNS text LANGUAGE sql AS $$ SELECT 'on' $$",
        "CREATE FUNCTION evil.never(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT false'",
        "CREATE OPERATOR evil.= (LEFTARG = text, RIGHTARG = text, PROCEDURE = evil.never)",
        f"ALTER DATABASE {database.name} SET search_path = evil, pg_catalog, public",
        "INSERT INTO evil.t VALUES (1, 'evil')",
        "INSERT INTO public.t VALUES (1, 'public')",
    )
    check_round_trips(
        database,
        [],
        [
            "UPDATE t SET v = 'changed'",
            "DELETE FROM public.t",
            "SET search_path = public",
            "INSERT INTO t VALUES (2, 'x')",
        ],
    )


def test_tables_of_extensions_and_temporary_ones_are_not_watched(database: Database) -> None:
    application = database.connect()
    application.execute("CREATE TEMP TABLE mine (v int)")
    database.run("CREATE TABLE t (v int)", "CREATE UNLOGGED TABLE u (v int)")
    assert database.system().observe().data.keys() == {"t", "u"}


def test_keys_with_operators_and_collations_of_their_own(database: Database) -> None:
    setup = [
        'CREATE TABLE names (name text COLLATE "C" PRIMARY KEY, n int)',
        "CREATE TABLE days (during daterange PRIMARY KEY, codes int[] UNIQUE)",
        "INSERT INTO names VALUES ('a', 1), ('A', 2)",
        "INSERT INTO days VALUES ('[2024-01-01,2024-02-01)', '{1,2}')",
    ]
    check_round_trips(
        database, setup, ["UPDATE names SET n = 3", "DELETE FROM days", "DELETE FROM names WHERE n = 3"]
    )


def test_a_check_that_its_rows_do_not_pass(database: Database) -> None:
    """Rows from before a constraint that was never validated are restored as well."""
    database.run("CREATE TABLE t (id int PRIMARY KEY, v int)", "INSERT INTO t VALUES (1, -1)")
    database.run("ALTER TABLE t ADD CHECK (v > 0) NOT VALID")
    check_round_trips(database, [], ["DELETE FROM t"])
