"""Savepoint mode: one connection, one transaction, last in, first out."""

from __future__ import annotations

import psycopg
import pytest

from clew.errors import ExplorationError, RollbackError, SystemSetupError, UnknownCheckpointError
from clew.explore.model.system import System
from clew.explore.systems import PostgresSystem
from tests.explore.systems.postgres_databases import Database

TABLE = [
    "CREATE TABLE t (id serial PRIMARY KEY, v text, at timestamptz DEFAULT now())",
    "INSERT INTO t (v) VALUES ('a')",
]


def savepoints(database: Database, **options: object) -> PostgresSystem:
    return database.system(mode="savepoint", ignore={"t": ["at"]}, **options)


def test_it_restores_the_last_checkpoints_first(database: Database) -> None:
    database.run(*TABLE)
    system = savepoints(database)
    assert isinstance(system, System)
    assert system.ordering == "lifo"
    seen, tokens = [system.observe()], [system.checkpoint("0")]
    for number in (1, 2, 3):
        system.connection.execute("INSERT INTO t (v) VALUES (%s)", [f"step {number}"])
        seen.append(system.observe())
        tokens.append(system.checkpoint(str(number)))
    assert seen[2].data["t"] == [{"id": 1, "v": "a"}, {"id": 2, "v": "step 1"}, {"id": 3, "v": "step 2"}]
    for place in (3, 3, 2, 1, 0, 0):
        assert system.is_valid(tokens[place])
        system.rollback(tokens[place])
        assert system.observe() == seen[place]
    assert not any(system.is_valid(token) for token in tokens[1:])
    with pytest.raises(UnknownCheckpointError, match="Checkpoint not found"):
        system.rollback(tokens[2])
    assert database.run("SELECT count(*) FROM t") == [(1,)]  # nothing was ever committed


@pytest.mark.parametrize("autocommit", [True, False])
def test_a_connection_of_the_tests_own(database: Database, autocommit: bool) -> None:
    database.run(*TABLE)
    mine = database.connect(autocommit=autocommit, row_factory=psycopg.rows.dict_row)
    with PostgresSystem(mine, mode="savepoint") as system:
        token, before = system.checkpoint("x"), system.observe()
        mine.execute("DELETE FROM t")
        assert system.observe().data["t"] == []
        system.rollback(token)
        assert system.observe() == before
    assert not mine.closed
    assert mine.execute("SELECT count(*) AS n FROM t").fetchone() == {"n": 1}


def test_sequences_go_back(database: Database) -> None:
    database.run(*TABLE)
    system = savepoints(database)
    token = system.checkpoint("x")
    for _ in range(2):
        made = system.connection.execute("INSERT INTO t (v) VALUES ('b') RETURNING id").fetchone()
        assert made == (2,)
        system.rollback(token)


def test_the_schema_goes_back(database: Database) -> None:
    database.run(*TABLE)
    system = savepoints(database)
    token, before = system.checkpoint("x"), system.observe()
    system.connection.execute("ALTER TABLE t ADD COLUMN w int")
    system.connection.execute("CREATE TABLE u (v int)")
    assert system.observe().data.keys() == {"t", "u"}
    system.rollback(token)
    assert system.observe() == before


def test_a_failed_statement_does_not_break_looking(database: Database) -> None:
    database.run(*TABLE)
    system = savepoints(database)
    system.checkpoint("x")
    before = system.observe()
    system.connection.execute("INSERT INTO t (v) VALUES ('lost with the failure')")
    with pytest.raises(psycopg.errors.UndefinedTable):
        system.connection.execute("SELECT * FROM nothing")
    assert system.observe().data == before.data


def test_a_failed_statement_before_any_checkpoint(database: Database) -> None:
    database.run(*TABLE)
    system = savepoints(database)
    with pytest.raises(psycopg.errors.UndefinedTable):
        system.connection.execute("SELECT * FROM nothing")
    assert len(system.observe().data["t"]) == 1


def test_looking_does_not_change_the_sessions_settings(database: Database) -> None:
    database.run(*TABLE)
    system = savepoints(database)
    show = "SELECT current_setting('search_path'), current_setting('timezone'), current_setting('datestyle')"
    system.connection.execute("SET datestyle = 'SQL, DMY'")
    before = system.connection.execute(show).fetchone()
    system.observe()
    system.checkpoint("x")
    assert system.connection.execute(show).fetchone() == before


@pytest.mark.parametrize("ending", ["commit", "rollback"])
def test_an_application_that_ends_the_transaction_ends_the_checkpoints(
    database: Database, ending: str
) -> None:
    database.run(*TABLE)
    system = savepoints(database)
    token = system.checkpoint("x")
    getattr(system.connection, ending)()
    with pytest.raises(RollbackError, match="ended the transaction"):
        system.rollback(token)
    assert not system.is_valid(token)
    assert len(system.observe().data["t"]) == 1


def test_releasing_in_any_order_keeps_the_others(database: Database) -> None:
    database.run(*TABLE)
    system = savepoints(database)
    tokens, seen = [], []
    for number in range(4):
        tokens.append(system.checkpoint(str(number)))
        seen.append(system.observe())
        system.connection.execute("INSERT INTO t (v) VALUES ('x')")
    system.release(tokens[1])
    system.release(tokens[3])
    system.release(tokens[3])
    assert [system.is_valid(token) for token in tokens] == [True, False, True, False]
    for place in (2, 0):
        system.rollback(tokens[place])
        assert system.observe() == seen[place]


def test_a_lost_connection(database: Database) -> None:
    database.run(*TABLE)
    system = savepoints(database)
    token = system.checkpoint("x")
    system.connection.close()
    assert not system.is_valid(token)
    with pytest.raises(RollbackError):
        system.rollback(token)
    with pytest.raises(ExplorationError):
        system.observe()


def test_a_connection_is_for_savepoints_only(database: Database) -> None:
    with pytest.raises(SystemSetupError, match='mode="savepoint"'):
        PostgresSystem(database.connect())
    with pytest.raises(AttributeError, match="savepoint mode"):
        _ = database.system().connection
