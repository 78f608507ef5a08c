"""Changes of the schema: noticed, warned about, and undone if they only added something."""

from __future__ import annotations

import pytest

from clew.errors import ExplorationError, ExplorationWarning, RollbackError
from tests.explore.systems.postgres_databases import Database

TABLE = ["CREATE TABLE t (id serial PRIMARY KEY, v text)", "INSERT INTO t (v) VALUES ('a'), ('b')"]


def test_refreshing_a_materialised_view_is_another_state(database: Database) -> None:
    database.run(*TABLE, "CREATE MATERIALIZED VIEW m AS SELECT count(*) AS n FROM t")
    system = database.system()
    system.checkpoint("before")
    database.run("DELETE FROM t WHERE id = 1")
    stale = system.observe()
    database.run("REFRESH MATERIALIZED VIEW m")
    with pytest.warns(ExplorationWarning, match="REFRESH MATERIALIZED VIEW"):
        fresh = system.observe()
    assert (stale.data["m"], fresh.data["m"]) == ([{"n": 2}], [{"n": 1}])
    assert stale.digest != fresh.digest


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
    system, application = database.system(), database.connect()
    truth, seen = database.truth(), system.observe()
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
    system, application = database.system(), database.connect()
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


def test_what_a_change_alters_is_not_undone(database: Database) -> None:
    database.run(*TABLE)
    system, application = database.system(), database.connect()
    before = system.checkpoint("before")
    application.execute("INSERT INTO t (v) VALUES ('still connected')")
    system.rollback(before)
    application.execute("ALTER TABLE t RENAME COLUMN v TO w")
    with pytest.warns(ExplorationWarning, match=r"only if something was added"):
        after = system.checkpoint("after")
    application.execute("INSERT INTO t (w) VALUES ('still connected')")
    assert not system.is_valid(before)
    assert system.is_valid(after)
    with pytest.raises(RollbackError, match="altered or removed something"):
        system.rollback(before)
    application.execute("DELETE FROM t")
    system.rollback(after)
    assert database.run("SELECT count(*) FROM t") == [(2,)]


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


@pytest.mark.parametrize(
    "change",
    [
        "DROP TABLE t",
        "ALTER TABLE t RENAME TO s",
        "ALTER TABLE t ALTER id TYPE bigint",
        "DROP TABLE t; CREATE TABLE t (other int)",
        "REFRESH MATERIALIZED VIEW m",
        "ALTER TABLE t DISABLE TRIGGER clew_rows; UPDATE t SET v = 'unseen'",
        "GRANT SELECT ON t TO PUBLIC",
    ],
)
def test_a_change_that_cannot_be_undone_is_an_error(database: Database, change: str) -> None:
    database.run(*TABLE, "CREATE MATERIALIZED VIEW m AS SELECT 1 AS k")
    system = database.system()
    before = system.checkpoint("before")
    database.run(change)
    with pytest.raises(RollbackError):
        system.rollback(before)


def test_in_a_transaction_every_change_is_undone(database: Database) -> None:
    database.run(*TABLE)
    system = database.system(mode="savepoint")
    before, seen = system.checkpoint("before"), system.observe()
    system.connection.execute("ALTER TABLE t DROP COLUMN v; CREATE TABLE u (v int)")
    assert system.observe() != seen
    system.rollback(before)
    assert system.observe() == seen
