"""Changes of the schema: noticed, warned about, and undone by clones of the whole database."""

from __future__ import annotations

import psycopg
import pytest

from clew.errors import CheckpointError, ExplorationError, ExplorationWarning, RollbackError
from tests.explore.systems.postgres_databases import Database

TABLE = ["CREATE TABLE t (id serial PRIMARY KEY, v text)", "INSERT INTO t (v) VALUES ('a'), ('b')"]


def clones(database: Database) -> int:
    return int(database.run("SELECT count(*) FROM pg_database WHERE datname ~ '^clew_'")[0][0])


def test_rows_and_shape_come_back_across_a_change(database: Database) -> None:
    database.run(*TABLE)
    system = database.system(clones="auto")
    first, truths = system.checkpoint("first"), {}
    truths[first] = database.truth()
    database.run("INSERT INTO t (v) VALUES ('c')")
    second = system.checkpoint("second")
    truths[second] = database.truth()
    database.run(
        "ALTER TABLE t ADD COLUMN w int DEFAULT 5", "CREATE TABLE u (v int)", "INSERT INTO u VALUES (1)"
    )
    with pytest.warns(ExplorationWarning, match="the schema has changed.*ALTER TABLE, CREATE TABLE"):
        third = system.checkpoint("third")
    truths[third], seen = database.truth(), system.observe()
    database.run("UPDATE t SET w = 6", "DELETE FROM u")
    fourth = system.checkpoint("fourth")
    truths[fourth] = database.truth()
    for token in (second, fourth, first, third, third, second):
        assert system.is_valid(token)
        system.rollback(token)
        assert database.truth() == truths[token]
    system.rollback(third)
    assert system.observe() == seen
    # and the journal works in the copies
    database.run("INSERT INTO u VALUES (9)")
    system.rollback(first)
    database.run("INSERT INTO t (v) VALUES ('x')")
    system.rollback(first)
    assert database.truth() == truths[first]


@pytest.mark.parametrize(
    "change",
    [
        "DROP TABLE t",
        "ALTER TABLE t RENAME TO s",
        "ALTER TABLE t ALTER id TYPE bigint",
        "ALTER TABLE t DROP COLUMN v",
        "DROP TABLE t; CREATE TABLE t (other int)",
        "CREATE INDEX ON t (v)",
        "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "ALTER SEQUENCE t_id_seq RESTART WITH 50",
        "DROP SEQUENCE t_id_seq CASCADE",
        "REFRESH MATERIALIZED VIEW m",
        "REFRESH MATERIALIZED VIEW CONCURRENTLY m",
        "CREATE SCHEMA s CREATE TABLE x (v int)",
        "ALTER TABLE t DISABLE TRIGGER clew_rows; UPDATE t SET v = 'unseen'",
        "GRANT SELECT ON t TO PUBLIC",
    ],
)
def test_changes_are_undone(database: Database, change: str) -> None:
    database.run(*TABLE, "CREATE MATERIALIZED VIEW m AS SELECT 1 AS k, (SELECT count(*) FROM pg_class) AS n")
    database.run("CREATE UNIQUE INDEX ON m (k)", "CREATE TABLE later ()")
    system = database.system(clones="auto")
    before, truth, seen = system.checkpoint("before"), database.truth(), system.observe()
    database.run(change)
    system.rollback(before)  # nobody is connected, so there is nothing to warn about
    assert database.truth() == truth
    assert system.observe() == seen
    assert database.run("SELECT has_table_privilege('pg_monitor', 't', 'SELECT')") == [(False,)]


def test_refreshing_a_materialised_view_is_another_state(database: Database) -> None:
    database.run(*TABLE, "CREATE MATERIALIZED VIEW m AS SELECT count(*) AS n FROM t")
    system = database.system(clones="auto")
    system.checkpoint("before")
    database.run("DELETE FROM t WHERE id = 1")
    stale = system.observe()
    database.run("REFRESH MATERIALIZED VIEW m")
    with pytest.warns(ExplorationWarning, match="REFRESH MATERIALIZED VIEW"):
        fresh = system.observe()
    assert (stale.data["m"], fresh.data["m"]) == ([{"n": 2}], [{"n": 1}])
    assert stale.digest != fresh.digest


def test_cloning_ends_the_applications_connections_and_says_so(database: Database) -> None:
    database.run(*TABLE)
    system = database.system(clones="auto")
    before = system.checkpoint("before")
    application = database.connect()
    application.execute("ALTER TABLE t ADD COLUMN w int")
    with pytest.warns(ExplorationWarning, match=r"ended 1 connection\(s\) of the application"):
        system.checkpoint("after")
    application = database.connect()
    with pytest.warns(ExplorationWarning, match=r"ended 1 connection\(s\)"):
        system.rollback(before)
    assert database.run("SELECT * FROM t LIMIT 1") == [(1, "a")]


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE t ADD COLUMN w int NOT NULL DEFAULT 7",
        "CREATE TABLE later (id serial PRIMARY KEY, t int REFERENCES t); INSERT INTO later (t) VALUES (1)",
        "CREATE INDEX ON t (v); ALTER TABLE t ADD CONSTRAINT short CHECK (length(v) < 100)",
        "CREATE SCHEMA s CREATE TABLE x (v int); CREATE VIEW seen AS SELECT * FROM t",
        "CREATE TYPE mood AS ENUM ('good'); ALTER TABLE t ADD COLUMN m mood",
    ],
)
def test_additions_are_undone_while_the_application_is_connected(database: Database, change: str) -> None:
    database.run(*TABLE)
    system, application = database.system(clones="auto"), database.connect()
    truth, seen = database.truth(), system.observe()
    with pytest.warns(ExplorationWarning, match='clones="always"'):
        before = system.checkpoint("before")
    application.execute("UPDATE t SET v = 'before the change' WHERE id = 1")
    application.execute(change.encode())
    application.execute("INSERT INTO t (v) VALUES ('after the change')")
    with pytest.warns(ExplorationWarning, match="schema has changed"):
        after = system.checkpoint("after")
    application.execute("DELETE FROM t WHERE id > 1")
    assert system.is_valid(before)
    system.rollback(before)
    assert database.truth() == truth
    assert system.observe() == seen
    assert not system.is_valid(after)  # what was added is gone
    application.execute("INSERT INTO t (v) VALUES ('still connected')")
    system.rollback(before)
    assert database.truth() == truth


def test_additions_are_undone_one_after_the_other(database: Database) -> None:
    database.run(*TABLE)
    system, application = database.system(clones="never"), database.connect()
    truth, before = database.truth(), system.checkpoint("before")
    marks = []
    for name in ("a", "b"):
        application.execute(f"ALTER TABLE t ADD COLUMN {name} int".encode())
        application.execute(f"UPDATE t SET {name} = id".encode())
        with pytest.warns(ExplorationWarning, match="schema has changed"):
            marks.append((system.checkpoint(name), database.truth()))
    application.execute("DELETE FROM t WHERE id = 1")
    first, with_a = marks[0]
    system.rollback(first)
    assert database.truth() == with_a
    application.execute("ALTER TABLE t ADD COLUMN c int")  # not read before the rollback
    with pytest.warns(ExplorationWarning, match="schema has changed"):
        system.rollback(before)
    assert database.truth() == truth


def test_an_application_that_is_there_first_keeps_its_connections(database: Database) -> None:
    """Then no clone of the initial state exists, and what a schema change removes is lost."""
    database.run(*TABLE)
    system, application = database.system(clones="auto"), database.connect()
    with pytest.warns(ExplorationWarning, match='clones="always"'):
        before = system.checkpoint("before")
    application.execute("INSERT INTO t (v) VALUES ('still connected')")
    system.rollback(before)
    application.execute("ALTER TABLE t RENAME COLUMN v TO w")
    with pytest.warns(ExplorationWarning, match=r"only if something was added"):
        after = system.checkpoint("after")
    application.execute("INSERT INTO t (w) VALUES ('still connected')")
    assert not system.is_valid(before)
    assert system.is_valid(after)
    with pytest.raises(RollbackError, match='clones="always"'):
        system.rollback(before)
    application.execute("DELETE FROM t")
    system.rollback(after)
    assert database.run("SELECT count(*) FROM t") == [(2,)]


def test_always_clones_at_the_first_checkpoint(database: Database) -> None:
    database.run(*TABLE)
    system = database.system(clones="always")
    application = database.connect()
    with pytest.warns(ExplorationWarning, match=r"ended 1 connection\(s\)"):
        before = system.checkpoint("before")
    with pytest.raises(psycopg.OperationalError):
        application.execute("SELECT 1")
    database.run("DROP TABLE t")
    system.rollback(before)
    assert database.run("SELECT count(*) FROM t") == [(2,)]


def test_never_makes_no_copy(database: Database) -> None:
    database.run(*TABLE)
    system = database.system()
    before = system.checkpoint("before")
    database.run("ALTER TABLE t DROP COLUMN v")
    with pytest.warns(ExplorationWarning, match="only if something was added"):
        system.checkpoint("after")
    assert clones(database) == 0
    with pytest.raises(RollbackError):
        system.rollback(before)


def test_clones_go_with_the_last_token_of_their_time_and_with_the_system(database: Database) -> None:
    database.run(*TABLE)
    system = database.system(clones="auto")
    before, also = system.checkpoint("before"), system.checkpoint("also")
    database.run("ALTER TABLE t ADD COLUMN w int")
    with pytest.warns(ExplorationWarning):
        system.checkpoint("after")
    assert clones(database) == 2
    system.release(before)
    assert clones(database) == 2
    system.release(also)
    assert clones(database) == 1
    system.close()
    assert clones(database) == 0


def test_temporary_tables_and_housekeeping_are_no_change(database: Database) -> None:
    database.run(*TABLE)
    system, application = database.system(), database.connect()
    before = system.checkpoint("before")
    for statement in (
        "CREATE TEMP TABLE scratch (v int)",
        "CREATE INDEX ON scratch (v)",
        "DROP TABLE scratch",
        "CREATE TABLE IF NOT EXISTS t (other int)",
        "DROP TABLE IF EXISTS nothing",
        "ANALYZE",
        "VACUUM t",
        "VACUUM FULL t",
        "REINDEX TABLE t",
        "COMMENT ON TABLE t IS 'x'",
        "TRUNCATE t",
    ):
        application.execute(statement)
    system.rollback(before)
    assert database.run("SELECT count(*) FROM t") == [(2,)]


def test_owner_rights_and_settings_of_the_database_stay(database: Database, server: object) -> None:
    database.run(*TABLE)
    role = f"{database.name}_role"
    database.run(
        f"CREATE ROLE {role}",
        f"ALTER DATABASE {database.name} OWNER TO {role}",
        f"REVOKE TEMP ON DATABASE {database.name} FROM PUBLIC",
        f"GRANT CREATE ON DATABASE {database.name} TO pg_monitor WITH GRANT OPTION",
        f'ALTER DATABASE {database.name} SET search_path = "$user", public, "Odd One"',
        f"ALTER DATABASE {database.name} SET work_mem = '5MB'",
        f"ALTER ROLE {role} IN DATABASE {database.name} SET statement_timeout = '9s'",
        f"ALTER DATABASE {database.name} CONNECTION LIMIT 33",
    )
    about = (
        "SELECT pg_get_userbyid(datdba), datconnlimit,"
        " (SELECT array_agg(a::text ORDER BY a::text) FROM unnest(datacl) a),"
        " (SELECT array_agg(s.setrole::regrole || c ORDER BY s.setrole, c)"
        "  FROM pg_db_role_setting s, unnest(s.setconfig) c WHERE s.setdatabase = d.oid)"
        " FROM pg_database d WHERE datname = current_database()"
    )
    expected = database.run(about)
    system = database.system(clones="auto")
    before = system.checkpoint("before")
    database.run("DROP TABLE t")
    system.rollback(before)
    assert database.run(about) == expected
    system.close()
    database.run(
        f"ALTER DATABASE {database.name} OWNER TO postgres", f"DROP OWNED BY {role}", f"DROP ROLE {role}"
    )


def test_a_change_that_could_not_be_followed_at_once_is_not_forgotten(database: Database) -> None:
    database.run(*TABLE)
    system, application = database.system(lock_timeout=0.2), database.connect(autocommit=False)
    system.observe()
    database.run("CREATE TABLE u (v int)")
    application.execute("INSERT INTO t (v) VALUES ('open')")
    for _ in range(2):
        with pytest.raises(ExplorationError, match="stayed locked"):
            system.observe()
    application.rollback()
    assert system.observe().data["u"] == []
    database.run("INSERT INTO u VALUES (1)")
    assert system.observe().data["u"] == [{"v": 1}]


def test_a_restore_that_failed_over_a_change_can_be_tried_again(database: Database) -> None:
    database.run(*TABLE)
    system = database.system(clones="auto")
    before, truth = system.checkpoint("before"), database.truth()
    database.run("ALTER TABLE t ADD COLUMN w int")
    clones_of = system._clones
    working, clones_of.replace_with = clones_of.replace_with, refuse
    with pytest.raises(RollbackError, match="refused"):
        system.rollback(before)
    with pytest.warns(ExplorationWarning, match="the schema has changed"):
        assert system.observe().data["t"][0] == {"id": 1, "v": "a", "w": None}
    clones_of.replace_with = working
    system.rollback(before)
    assert database.truth() == truth


def refuse(clone: str) -> None:
    raise psycopg.OperationalError(f"refused: {clone}")


def test_a_clone_that_fails_leaves_a_checkpoint_without_one(database: Database) -> None:
    database.run(*TABLE)
    system = database.system(clones="auto")
    system._clones.make = lambda: refuse("disk full")
    with pytest.warns(ExplorationWarning, match=r"cannot clone the database \(refused: disk full\)"):
        token = system.checkpoint("before")
    database.run("DELETE FROM t")
    system.rollback(token)
    assert database.run("SELECT count(*) FROM t") == [(2,)]


def test_a_clone_that_fails_and_was_asked_for(database: Database) -> None:
    database.run(*TABLE)
    system = database.system(clones="always")
    system._clones.make = lambda: refuse("disk full")
    with pytest.raises(CheckpointError, match="refused: disk full"):
        system.checkpoint("before")
    assert system.observe().data["t"]
