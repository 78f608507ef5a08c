"""The application works while the explorer does: many writers, open transactions, lost connections."""

from __future__ import annotations

import gc
import os
import random
import signal
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from clew.errors import (
    CheckpointError,
    ExplorationError,
    ExplorationWarning,
    RollbackError,
    SystemSetupError,
)
from clew.explore.systems import PostgresSystem
from tests.explore.systems.postgres_databases import Database
from tests.stores.servers import PostgresServer

PATIENCE = 300  # seconds
BANK = [
    "CREATE TABLE accounts (id int PRIMARY KEY, balance int NOT NULL)",
    "CREATE TABLE moves (id serial PRIMARY KEY, account int REFERENCES accounts, amount int)",
    "CREATE TABLE log (what text)",
    "INSERT INTO accounts SELECT i, 100 FROM generate_series(1, 20) i",
]
WAITING = "SELECT FROM pg_locks WHERE NOT granted AND mode = 'ShareRowExclusiveLock'"


class Writer(threading.Thread):
    """Moves money on a connection of its own until it is told to stop."""

    def __init__(self, database: Database, number: int, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self._database, self._chance, self._stop_event = database, random.Random(number), stop
        self.done = 0
        self.failures: list[Exception] = []

    def run(self) -> None:
        with psycopg.connect(self._database.dsn) as connection:
            while not self._stop_event.is_set():
                try:
                    self._work(connection)
                except (psycopg.errors.DeadlockDetected, psycopg.errors.ForeignKeyViolation):
                    connection.rollback()  # writers meet writers, and a restore removes what one refers to
                except Exception as error:
                    self.failures.append(error)
                    return

    def _work(self, connection: psycopg.Connection[tuple[object, ...]]) -> None:
        source, target = self._chance.sample(range(1, 21), 2)
        connection.execute("UPDATE accounts SET balance = balance - 1 WHERE id = %s", [source])
        connection.execute("UPDATE accounts SET balance = balance + 1 WHERE id = %s", [target])
        connection.execute("INSERT INTO moves (account, amount) VALUES (%s, 1)", [target])
        if self._chance.random() < 0.3:
            connection.execute("DELETE FROM moves WHERE account = %s", [source])
        connection.execute("INSERT INTO log VALUES ('moved')")
        if self._chance.random() < 0.1:
            connection.rollback()
        else:
            connection.commit()
        self.done += 1


@contextmanager
def writing(database: Database, writers: int) -> Iterator[list[Writer]]:
    stop = threading.Event()
    threads = [Writer(database, number, stop) for number in range(writers)]
    for thread in threads:
        thread.start()
    try:
        yield threads
    finally:
        stop.set()
        for thread in threads:
            thread.join(PATIENCE)


def settled(database: Database, system: PostgresSystem) -> tuple[str, dict[str, object]]:
    """A checkpoint and the truth it stands for, while nobody writes."""
    return system.checkpoint("settled"), database.truth()


def test_restores_are_exact_with_six_writers_between_them(database: Database) -> None:
    """A, C, B, A: all rows of all tables are equal each time, whatever was written between."""
    database.run(*BANK)
    system = database.system(lock_timeout=PATIENCE)
    marks = [settled(database, system)]
    for _ in range(2):
        with writing(database, 2) as writers:
            while sum(writer.done for writer in writers) < 20 and not any(w.failures for w in writers):
                system.observe()
        marks.append(settled(database, system))
    (a, b, c) = marks
    for token, truth in (a, c, b, a, b, c, a):
        with writing(database, 6) as writers:
            while sum(writer.done for writer in writers) < 30 and not any(w.failures for w in writers):
                system.rollback(token)  # under fire
                system.checkpoint("under fire")
                system.observe()
        assert [writer.failures for writer in writers] == [[]] * 6
        system.rollback(token)
        assert database.truth() == truth


def test_observations_under_fire_are_of_one_moment(database: Database) -> None:
    """Money is moved, never made: every look sees whole transactions."""
    database.run(*BANK)
    system = database.system()
    with writing(database, 3) as writers:
        for _ in range(60):
            data = system.observe().data
            assert sum(row["balance"] for row in data["accounts"]) == 2000
    assert [writer.failures for writer in writers] == [[]] * 3
    seen = system.observe()
    system.close()
    assert database.system().observe().digest == seen.digest  # what was added up is what is there


def test_a_checkpoint_while_a_transaction_is_open(database: Database) -> None:
    """It holds what is committed; what is not becomes part of a later one."""
    database.run("CREATE TABLE t (v int PRIMARY KEY)")
    system, application = database.system(), database.connect(autocommit=False)
    application.execute("INSERT INTO t VALUES (1)")
    before = system.checkpoint("while it is open")
    assert system.observe().data["t"] == []
    application.commit()
    after = system.checkpoint("after")
    assert system.observe().data["t"] == [{"v": 1}]
    system.rollback(before)
    assert database.run("SELECT * FROM t") == []
    system.rollback(after)
    assert database.run("SELECT * FROM t") == [(1,)]


def test_an_open_writer_holds_a_restore_up_until_it_is_done(database: Database) -> None:
    database.run("CREATE TABLE t (v int PRIMARY KEY)", "CREATE TABLE u (v int)")
    system, application = database.system(lock_timeout=PATIENCE), database.connect(autocommit=False)
    before = system.checkpoint("before")
    application.execute("INSERT INTO t VALUES (1)")
    restoring = threading.Thread(target=system.rollback, args=[before])
    restoring.start()
    while not database.run(WAITING):
        assert restoring.is_alive()
    application.commit()
    restoring.join(PATIENCE)
    assert not restoring.is_alive()
    assert database.run("SELECT * FROM t") == []


@pytest.mark.parametrize("statement", ["INSERT INTO t VALUES (2)", "SELECT * FROM t FOR UPDATE"])
def test_a_writer_that_never_ends_is_named(database: Database, statement: str) -> None:
    database.run("CREATE TABLE t (v int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    system = database.system(lock_timeout=0.3)
    application = database.connect(autocommit=False, application_name="the shop")
    before, truth = system.checkpoint("before"), database.truth()
    database.run("UPDATE t SET v = 5")
    application.execute(statement)
    with pytest.raises(
        RollbackError, match=r"stayed locked for 0.3 seconds by process \d+ \(the shop, idle in tran"
    ):
        system.rollback(before)
    application.execute("SELECT 1")  # it was not harmed
    application.rollback()
    system.rollback(before)  # and the journal neither
    assert database.truth() == truth


def test_restores_never_kill_a_transaction_of_the_application(database: Database) -> None:
    """It holds the second table and wants the first, which the restore has: the restore gives way."""
    database.run("CREATE TABLE a (v int)", "CREATE TABLE b (v int)", "INSERT INTO a VALUES (1)")
    system, application = database.system(lock_timeout=PATIENCE), database.connect(autocommit=False)
    before = system.checkpoint("before")
    application.execute("INSERT INTO b VALUES (1)")
    restoring = threading.Thread(target=system.rollback, args=[before])
    restoring.start()
    while not database.run(WAITING):
        assert restoring.is_alive()
    application.execute("INSERT INTO a VALUES (2)")
    application.commit()
    restoring.join(PATIENCE)
    assert database.run("SELECT * FROM a UNION ALL SELECT * FROM b") == [(1,)]


def test_a_truncate_while_the_tables_are_first_read(database: Database) -> None:
    database.run("CREATE TABLE t (v int)", "INSERT INTO t VALUES (1), (2)")
    system = database.system()
    with writing_truncates(database):
        for _ in range(30):
            system.observe()
            system._observed = None  # so that every table is read again each time
    seen = system.observe()
    system.close()
    assert database.system().observe().digest == seen.digest


@contextmanager
def writing_truncates(database: Database) -> Iterator[None]:
    stop = threading.Event()

    def work() -> None:
        with psycopg.connect(database.dsn, autocommit=True) as connection:
            while not stop.is_set():
                connection.execute("INSERT INTO t VALUES (3), (4)")
                connection.execute("TRUNCATE t")

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(PATIENCE)


def cut(database: Database) -> None:
    """End the system's connection, as an administrator would."""
    with psycopg.connect(database.dsn, dbname="postgres", autocommit=True) as admin:
        admin.execute(
            "SELECT pg_terminate_backend(pid, 120000) FROM pg_stat_activity"
            " WHERE application_name = 'clew explore' AND datname = %s",
            [database.name],
        )


def test_a_lost_connection_ends_all_checkpoints(database: Database) -> None:
    database.run("CREATE TABLE t (v int)")
    system = database.system()
    token = system.checkpoint("before")
    cut(database)
    database.run("INSERT INTO t VALUES (1)")
    with pytest.raises(RollbackError, match=r"connection to PostgreSQL broke.*make a new PostgresSystem"):
        system.rollback(token)
    assert not system.is_valid(token)
    with pytest.raises(RollbackError, match="broke"):
        system.rollback(token)
    with pytest.raises(CheckpointError, match="broke"):
        system.checkpoint("after")
    with pytest.raises(ExplorationError, match="broke"):
        system.observe()
    system.release(token)
    system.close()
    with PostgresSystem(database.dsn) as again:
        assert again.observe().data["t"] == [{"v": 1}]


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_server_that_was_restarted_ends_all_checkpoints(mode: str) -> None:
    server = PostgresServer()
    try:
        server.start()
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute("CREATE TABLE t (v int)")
        system = PostgresSystem(server.dsn)
        token = system.checkpoint("before")
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute("INSERT INTO t VALUES (1)")
        server.stop(mode)
        server.start()
        with pytest.raises(RollbackError, match="broke"):
            system.rollback(token)
        assert not system.is_valid(token)
        system.close()
        with PostgresSystem(server.dsn) as again:
            fresh = again.checkpoint("fresh")
            with psycopg.connect(server.dsn, autocommit=True) as connection:
                connection.execute("DELETE FROM t")
            again.rollback(fresh)
            assert again.observe().data["t"] == [{"v": 1}]
    finally:
        server.remove()


KILLED = """
import sys, time, psycopg
from clew.explore.systems import PostgresSystem
system = PostgresSystem(sys.argv[1])
system.checkpoint("before")
with psycopg.connect(sys.argv[1], autocommit=True) as connection:
    connection.execute("INSERT INTO t VALUES (2)")
print("ready", flush=True)
time.sleep(600)
"""


def test_what_a_killed_process_left_is_replaced(database: Database) -> None:
    database.run("CREATE TABLE t (v int)", "INSERT INTO t VALUES (1)")
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, database.dsn], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE)
    left = "SELECT count(*) FROM pg_trigger WHERE tgname ~ '^clew'"
    assert database.run(left) == [(2,)]
    with PostgresSystem(database.dsn) as system:
        token = system.checkpoint("again")
        database.run("DELETE FROM t")
        system.rollback(token)
        assert system.observe().data["t"] == [{"v": 1}, {"v": 2}]
    assert database.run(left) == [(0,)]


def test_two_systems_on_one_database_are_refused(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    database.system()
    monkeypatch.setattr("clew.explore.systems.postgres.connection._CLAIM_TIMEOUT", 0.0)
    with pytest.raises(SystemSetupError, match="another PostgresSystem uses this database"):
        PostgresSystem(database.dsn)


def test_large_objects_and_advisory_locks_are_warned_about_once(database: Database) -> None:
    database.run("CREATE TABLE t (v int)", "SELECT lo_create(4711)")
    system, application = database.system(), database.connect()
    token = system.checkpoint("before")
    application.execute("SELECT pg_advisory_lock(1)")
    with pytest.warns(ExplorationWarning, match="large objects.*advisory locks"):
        system.rollback(token)
    system.rollback(token)


def test_sequence_caches_are_warned_about(database: Database) -> None:
    database.run("CREATE SEQUENCE numbers CACHE 20")
    with pytest.warns(ExplorationWarning, match="numbers have a CACHE"):
        database.system()


def test_released_states_are_freed(database: Database) -> None:
    database.run("CREATE TABLE t (id serial PRIMARY KEY, v text)")
    system = database.system()
    start = system.checkpoint("start")
    tracemalloc.start()
    try:
        database.run("INSERT INTO t (v) SELECT repeat('x', 2000) FROM generate_series(1, 1000)")
        child = system.checkpoint("child")
        assert tracemalloc.get_traced_memory()[0] > 2_000_000
        system.rollback(start)
        system.release(child)
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < 200_000
    finally:
        tracemalloc.stop()


def test_an_interrupted_restore_ends_the_system(database: Database) -> None:
    """Nobody knows what the server did meanwhile, so nobody goes on as if nothing had been."""
    database.run("CREATE TABLE t (v int)")
    system, application = database.system(lock_timeout=PATIENCE), database.connect(autocommit=False)
    token = system.checkpoint("before")
    application.execute("INSERT INTO t VALUES (1)")

    def interrupt_the_restore() -> None:
        while not database.run(WAITING):
            pass
        os.kill(os.getpid(), signal.SIGALRM)

    previous = signal.signal(signal.SIGALRM, lambda *_: signal.default_int_handler(signal.SIGINT, None))
    interrupting = threading.Thread(target=interrupt_the_restore)
    try:
        interrupting.start()
        with pytest.raises(KeyboardInterrupt):
            system.rollback(token)
        interrupting.join()
    finally:
        signal.signal(signal.SIGALRM, previous)
    assert not system.is_valid(token)
    with pytest.raises(RollbackError, match=r"interrupted \(KeyboardInterrupt\)"):
        system.rollback(token)
    application.commit()
    system.close()
    assert database.run("SELECT count(*) FROM pg_trigger WHERE tgname ~ '^clew'") == [(0,)]


def test_closing_after_a_lost_connection_still_takes_the_triggers_out(database: Database) -> None:
    database.run("CREATE TABLE t (v int)")
    system = database.system()
    system.checkpoint("before")
    cut(database)
    system.close()
    assert database.run("SELECT count(*) FROM pg_trigger WHERE tgname ~ '^clew'") == [(0,)]


def test_a_truncate_that_removes_rows_which_its_transaction_does_not_see(database: Database) -> None:
    """The trigger cannot write those rows down, so nothing brings them back."""
    database.run("CREATE TABLE t (v int)", "INSERT INTO t VALUES (1)")
    system = database.system()
    system.checkpoint("first")
    application = database.connect(autocommit=False)
    application.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    application.execute("SELECT 1")
    database.run("INSERT INTO t VALUES (2)")
    both = system.checkpoint("both")
    application.execute("TRUNCATE t")
    application.commit()
    with pytest.raises(RollbackError):
        system.rollback(both)


def test_changes_of_the_schema_while_the_tables_are_read(database: Database) -> None:
    database.run("CREATE TABLE t (v int)", "CREATE TABLE u (v int)")
    system = database.system()

    def work() -> None:
        with psycopg.connect(database.dsn, autocommit=True) as connection:
            for _ in range(12):
                connection.execute("DROP TABLE IF EXISTS w; CREATE TABLE w (v int); INSERT INTO w VALUES (1)")

    thread = threading.Thread(target=work)
    thread.start()
    while thread.is_alive():
        assert system.observe().data.keys() >= {"t", "u"}
    assert system.observe().data == {"t": [], "u": [], "w": [{"v": 1}]}
    database.run("DELETE FROM w")
    assert system.observe().data["w"] == []
