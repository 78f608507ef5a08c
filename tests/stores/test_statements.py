"""Statements of `ctx.transaction`: executed in the transaction of the entries that they came with, or not at all."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from clew.errors import CommitConflictError, RunOwnedError, StoreError
from clew.stores import LogEntry, MemoryStore, RunRow, SQLiteStore, Statement, Store
from tests.stores.servers import PostgresServer


class Database:
    """A store, and a table of ours in its database."""

    def __init__(self, store: Any, execute: Callable[[str], list[Any]], mark: str) -> None:
        self.store: Store = store
        self.execute = execute
        self.add = f"INSERT INTO ours VALUES ({mark})"
        execute("DROP TABLE IF EXISTS ours")
        execute("CREATE TABLE ours (n integer CHECK (n > 0))")
        store.create(RunRow("r"))
        self.fence = self.store.claim("r", "me", lease=100.0)

    def rows(self) -> list[int]:
        return [n for (n,) in self.execute("SELECT n FROM ours ORDER BY n")]

    def append(self, n: int, *statements: Statement, body: bytes = b"{}", **more: Any) -> None:
        entry = LogEntry("step", "", n, body, body)
        fence = more.pop("fence", self.fence)
        self.store.append("r", [entry], fence, statements=statements, **more)

    def kept(self) -> list[int]:
        return [entry.n for entry in self.store.find("r", "step", "")]


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    if request.param == "sqlite":
        file = tmp_path / "runs.db"
        store = SQLiteStore(file)

        def execute(sql: str) -> list[Any]:
            with closing(sqlite3.connect(file)) as db, db:
                return db.execute(sql).fetchall()

        yield Database(store, execute, "?")
        store.close()
        return
    import psycopg

    server: PostgresServer = request.getfixturevalue("server")
    opened = request.getfixturevalue("open_postgres")()
    with psycopg.connect(server.dsn, autocommit=True) as db:

        def execute_there(sql: str) -> list[Any]:
            cursor = db.execute(sql)
            return cursor.fetchall() if cursor.description else []

        yield Database(opened, execute_there, "%s")
    opened.close()


def test_entries_and_statements_are_kept_together(database: Database) -> None:
    database.append(1, Statement(database.add, (5,)))
    assert (database.kept(), database.rows()) == ([1], [5])


def test_a_statement_may_be_executed_many_times(database: Database) -> None:
    database.append(1, Statement(database.add, [(1,), (2,), (3,)], many=True))
    assert database.rows() == [1, 2, 3]


def test_a_statement_that_is_refused_keeps_everything_out(database: Database) -> None:
    with pytest.raises(StoreError) as caught:
        database.append(1, Statement(database.add, (5,)), Statement(database.add, (-1,)))
    assert str(caught.value).startswith(f"run 'r': the database rejected {database.add!r} (")
    assert str(caught.value).endswith("; nothing of this step was written")
    assert (database.kept(), database.rows()) == ([], [])


def test_the_store_works_on_after_a_refusal(database: Database) -> None:
    with pytest.raises(StoreError):
        database.append(1, Statement(database.add, (-1,)))
    database.append(1, Statement(database.add, (5,)))
    assert (database.kept(), database.rows()) == ([1], [5])


def test_a_stale_owner_executes_nothing(database: Database) -> None:
    database.store.release("r", database.fence)
    database.store.claim("r", "me", lease=100.0)
    with pytest.raises(RunOwnedError):
        database.append(1, Statement(database.add, (5,)))
    assert (database.kept(), database.rows()) == ([], [])


def test_the_same_append_again_executes_nothing(database: Database) -> None:
    for _ in range(2):
        database.append(1, Statement(database.add, (5,)))
    assert database.rows() == [5]


def test_a_conflict_executes_nothing(database: Database) -> None:
    database.append(1)
    entries = [LogEntry("step", "", 2, b"{}", b"2"), LogEntry("step", "", 1, b"[]", b"other")]
    with pytest.raises(CommitConflictError):
        database.store.append("r", entries, database.fence, statements=[Statement(database.add, (5,))])
    assert (database.kept(), database.rows()) == ([1], [])


def test_with_what_is_dropped(database: Database) -> None:
    database.store.append("r", [LogEntry("journal", "a#0", 0, b"{}", b"{}")], database.fence)
    database.append(1, Statement(database.add, (5,)), drop=[("journal", "a#0", 0)])
    assert ([entry.kind for entry in database.store.entries("r")], database.rows()) == (["step"], [5])


def test_a_rehearsal_leaves_nothing(database: Database) -> None:
    database.store.rehearse([Statement(database.add, (5,))])
    assert database.rows() == []


def test_a_rehearsal_raises_what_the_database_raises(database: Database) -> None:
    with pytest.raises(Exception, match=r"(?i)check constraint") as caught:
        database.store.rehearse([Statement(database.add, (5,)), Statement(database.add, (-1,))])
    assert type(caught.value).__module__.partition(".")[0] in ("sqlite3", "psycopg")


def test_after_a_rehearsal_the_store_works_on(database: Database) -> None:
    with pytest.raises(Exception, match=r"(?i)check constraint"):
        database.store.rehearse([Statement(database.add, (-1,))])
    database.append(1, Statement(database.add, (5,)))
    assert database.rows() == [5]


def test_several_statements_in_one_are_refused(database: Database) -> None:
    with pytest.raises(Exception, match=r"(?i)statement|command"):
        database.store.rehearse([Statement("DELETE FROM ours; DELETE FROM ours")])


def test_a_store_in_memory_has_no_database() -> None:
    store = MemoryStore()
    store.create(RunRow("r"))
    with pytest.raises(StoreError, match="a memory store has none"):
        store.append("r", [], 0, statements=[Statement("DELETE FROM ours")])
    with pytest.raises(StoreError, match="a memory store has none"):
        store.rehearse([])


def test_a_server_that_lost_its_answer_has_executed_once(
    server: PostgresServer, open_postgres: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    import psycopg

    with psycopg.connect(server.dsn, autocommit=True) as db:
        cursor = db.cursor()
        store = open_postgres()
        database = Database(
            store,
            lambda sql: cursor.execute(sql).fetchall() if sql.startswith("SELECT") else [cursor.execute(sql)],
            "%s",
        )
        link, run, lost = store._link, store._link.run, []

        def losing(what: str, work: Any) -> Any:
            def twice(cursor: Any, again: bool) -> Any:
                found = work(cursor, again)
                if not lost:
                    lost.append(True)
                    cursor.connection.close()
                    raise psycopg.OperationalError("the connection is lost")
                return found

            return run(what, twice)

        monkeypatch.setattr(link, "run", losing)
        database.append(1, Statement(database.add, (5,)))
        assert (lost, database.rows(), database.kept()) == ([True], [5], [1])
        store.close()
