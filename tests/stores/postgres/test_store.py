"""What is PostgreSQL's own: the connection, the schema, a server that goes away. The rest is in test_conformance."""

from __future__ import annotations

import gc
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from types import SimpleNamespace

import psycopg
import pytest

from clew.errors import (
    CommitConflictError,
    RunOwnedError,
    StoreCorruptError,
    StoreError,
    StoreUnavailableError,
    StoreVersionError,
)
from clew.stores import LogEntry, PostgresStore, RunRow, Statement
from clew.stores.postgres import connection as postgres_link
from clew.stores.postgres import migrations
from clew.stores.postgres.pool import Loan
from clew.stores.postgres.workers import LIVES
from tests.stores.processes import step
from tests.stores.servers import PostgresServer

LEASE = 3600.0  # seconds; no test takes that long
PATIENCE = 300.0


@pytest.fixture
def schema() -> str:
    return f"t_{token_hex(6)}"


@pytest.fixture
def store(server: PostgresServer, schema: str) -> Iterator[PostgresStore]:
    store = PostgresStore(server.dsn, schema=schema)
    yield store
    store.close()


@pytest.fixture
def admin(server: PostgresServer) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        yield connection


def _owned(store: PostgresStore, run_id: str = "r") -> int:
    store.create(RunRow(run_id))
    return store.claim(run_id, "me", lease=LEASE)


def _cut(store: PostgresStore, admin: psycopg.Connection[tuple[object, ...]]) -> None:
    """End the store's sessions, and return when they are gone."""
    for session in store._link.pool.sessions:
        if not session.db.closed:
            pid = session.db.info.backend_pid
            assert admin.execute("SELECT pg_terminate_backend(%s, 120000)", (pid,)).fetchone() == (True,)


def _only(store: PostgresStore) -> psycopg.Connection[tuple[object, ...]]:
    """The connection of a store that did one thing at a time."""
    (session,) = store._link.pool.sessions
    return session.db


class TestOpening:
    def test_a_server_that_is_not_there(self) -> None:
        with pytest.raises(StoreUnavailableError, match="opening the store: PostgreSQL at /nowhere"):
            PostgresStore("host=/nowhere dbname=x", patience=0.1)

    @pytest.mark.parametrize("in_address", [False, True])
    def test_a_server_that_says_nothing_is_waited_for_as_long_as_patience_lasts(
        self, in_address: bool
    ) -> None:
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            silent.listen()
            dsn = f"host=127.0.0.1 port={silent.getsockname()[1]} user=x dbname=x"
            began = time.monotonic()
            address = f"{dsn} connect_timeout=1200" if in_address else dsn
            with pytest.raises(StoreUnavailableError):
                PostgresStore(address, patience=1.0, connect_timeout=1200.0)
            assert time.monotonic() - began < PATIENCE  # the driver's least is 2

    def test_an_address_that_is_none(self) -> None:
        with pytest.raises(StoreError, match="invalid URL"):
            PostgresStore("host=a =b")

    def test_passwords_are_not_shown(self, server: PostgresServer, schema: str) -> None:
        store = PostgresStore(f"{server.dsn} password=hush", schema=schema)
        assert "hush" not in repr(store)
        assert schema in repr(store)
        store.close()

    def test_a_schema_needs_a_name(self, server: PostgresServer) -> None:
        with pytest.raises(StoreError, match="schema"):
            PostgresStore(server.dsn, schema="")

    def test_a_schema_may_have_any_name(self, server: PostgresServer, schema: str) -> None:
        store = PostgresStore(server.dsn, schema=f'{schema} "Ünïcode"; --')
        _owned(store)
        store.close()

    def test_two_schemas_are_two_stores(
        self, server: PostgresServer, store: PostgresStore, schema: str
    ) -> None:
        other = PostgresStore(server.dsn, schema=f"{schema}_other")
        _owned(store)
        assert other.rows() == []
        other.close()

    def test_a_schema_of_another_program_is_refused(
        self, server: PostgresServer, schema: str, admin: psycopg.Connection[tuple[object, ...]]
    ) -> None:
        admin.execute(f"CREATE SCHEMA {schema}; CREATE TABLE {schema}.theirs (x int)")
        with pytest.raises(StoreError, match="another program"):
            PostgresStore(server.dsn, schema=schema)

    def test_a_newer_schema_is_refused(
        self,
        server: PostgresServer,
        store: PostgresStore,
        schema: str,
        admin: psycopg.Connection[tuple[object, ...]],
    ) -> None:
        admin.execute(f"UPDATE {schema}.version SET version = 99")
        with pytest.raises(StoreVersionError, match="format 99"):
            PostgresStore(server.dsn, schema=schema)

    def test_an_older_schema_is_brought_up_to_date(
        self, server: PostgresServer, store: PostgresStore, schema: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store.append("r", [step(1)], _owned(store))
        later = (*migrations.MIGRATIONS, "CREATE TABLE @.extra (x int); CREATE INDEX extra_x ON @.extra (x)")
        monkeypatch.setattr(migrations, "MIGRATIONS", later)
        new = PostgresStore(server.dsn, schema=schema)
        assert new._link.fetch("", "SELECT count(*) FROM @.extra") == [(0,)]
        assert list(new.entries("r")) == [step(1)]
        new.close()

    def test_an_older_format_is_refused_by_its_number(
        self, server: PostgresServer, schema: str, admin: psycopg.Connection[tuple[object, ...]]
    ) -> None:
        admin.execute(f"CREATE SCHEMA {schema}; SET search_path TO {schema}")
        admin.execute("CREATE TABLE version (version integer NOT NULL); INSERT INTO version VALUES (2)")
        with pytest.raises(StoreVersionError, match="format 2"):
            PostgresStore(server.dsn, schema=schema)

    def test_threads_open_a_new_schema_at_once(self, server: PostgresServer, schema: str) -> None:
        stores, start = list[PostgresStore](), threading.Barrier(4)

        def open_store() -> None:
            start.wait()
            stores.append(PostgresStore(server.dsn, schema=schema))

        threads = [threading.Thread(target=open_store) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(stores) == 4
        for store in stores:
            store.close()

    def test_without_psycopg_it_says_what_to_install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(postgres_link, "psycopg", None)
        with pytest.raises(StoreError, match=r"pip install 'clew\[postgres\]'"):
            PostgresStore("host=/nowhere")

    def test_a_store_that_nobody_closed_lets_go(
        self, server: PostgresServer, store: PostgresStore, schema: str
    ) -> None:
        _owned(PostgresStore(server.dsn, schema=schema))
        gc.collect()
        store.claim("r", "other", lease=LEASE)


class TestCutConnection:
    def test_every_verb_connects_again(
        self, store: PostgresStore, admin: psycopg.Connection[tuple[object, ...]]
    ) -> None:
        content = b"content"
        digest = sha256(content).hexdigest()
        _cut(store, admin)
        store.create(RunRow("r"), {digest: content})
        _cut(store, admin)
        fence = store.claim("r", "me", lease=LEASE)
        _cut(store, admin)
        store.append("r", [step(1)], fence)
        _cut(store, admin)
        store.append("r", [step(2), step(3)], fence, drop=[("journal", "p", 0)])
        _cut(store, admin)
        assert [entry.n for entry in store.entries("r")] == [1, 2, 3]
        _cut(store, admin)
        store.renew("me", lease=LEASE)
        _cut(store, admin)
        store.update("r", status="completed", updated=1.0, error=None, fence=fence)
        _cut(store, admin)
        assert store.blob(digest) == content
        _cut(store, admin)
        assert [row.status for row in store.rows()] == ["completed"]
        _cut(store, admin)
        store.release("r", fence)
        _cut(store, admin)
        store.delete("r")
        assert store.rows() == []

    def test_refusals_stay_refusals(
        self, store: PostgresStore, admin: psycopg.Connection[tuple[object, ...]]
    ) -> None:
        fence = _owned(store)
        store.append("r", [step(1)], fence)
        _cut(store, admin)
        with pytest.raises(CommitConflictError):
            store.append("r", [step(1, b"other")], fence)
        store.release("r", fence)
        store.claim("r", "me", lease=LEASE)
        _cut(store, admin)
        with pytest.raises(RunOwnedError):
            store.append("r", [step(2)], fence)

    def test_its_owner_is_alive_until_it_is_closed(
        self,
        server: PostgresServer,
        store: PostgresStore,
        schema: str,
        admin: psycopg.Connection[tuple[object, ...]],
    ) -> None:
        fence = _owned(store)
        _cut(store, admin)
        store.append("r", [step(1)], fence)
        other = PostgresStore(server.dsn, schema=schema)
        with pytest.raises(RunOwnedError):
            other.claim("r", "other", lease=LEASE)
        _cut(store, admin)
        with pytest.raises(RunOwnedError):
            other.claim("r", "other", lease=LEASE)
        store.append("r", [step(2)], fence)
        store.close()
        assert other.claim("r", "other", lease=LEASE) > fence
        other.close()

    @pytest.mark.parametrize("verb", ["create", "delete", "append", "append two", "claim"])
    def test_what_was_done_before_the_cut_is_not_done_twice(
        self, store: PostgresStore, admin: psycopg.Connection[tuple[object, ...]], verb: str
    ) -> None:
        """The server commits, and the connection breaks before the answer arrives."""
        fence = _owned(store)
        link, run = store._link, store._link.run

        def lossy(what, work):
            def done_and_cut(cursor, again):
                answer = work(cursor, again)
                if not again:
                    _cut(store, admin)
                    cursor.execute("SELECT 1")
                return answer

            return run(what, done_and_cut)

        link.run = lossy
        content = b"large"
        if verb == "create":
            store.create(RunRow("new", seed=5, codes={"n": "x"}), {sha256(content).hexdigest(): content})
        elif verb == "delete":
            store.delete("r")
        elif verb == "append":
            store.append("r", [step(1)], fence)
        elif verb == "append two":
            store.append("r", [step(1), LogEntry("call", "p", 0, b"", b"")], fence, drop=[("x", "", 0)])
        else:
            store.release("r", fence)
            fence = store.claim("r", "me", lease=LEASE)
            store.append("r", [step(1)], fence)
        link.run = run
        assert [row.run_id for row in store.rows()] == {"create": ["r", "new"], "delete": []}.get(verb, ["r"])
        if verb in ("append", "append two", "claim"):
            assert [entry.n for entry in store.find("r", "step", "")] == [1]


class TestServer:
    """A server of its own, because it is stopped."""

    @pytest.fixture
    def own(self, server: PostgresServer) -> Iterator[PostgresServer]:
        own = PostgresServer()
        own.start()
        yield own
        own.remove()

    @pytest.mark.parametrize("mode", ["fast", "immediate"])
    def test_a_restart_loses_nothing(self, own: PostgresServer, mode: str) -> None:
        store, other = PostgresStore(own.dsn, patience=PATIENCE), PostgresStore(own.dsn, patience=PATIENCE)
        fence = _owned(store)
        store.append("r", [step(1)], fence)
        own.stop(mode)
        own.start()
        # Before it has noticed: its lock is gone with the server, and proves nothing.
        with pytest.raises(RunOwnedError):
            other.claim("r", "other", lease=LEASE)
        store.append("r", [step(2)], fence)
        store.append("r", [step(3), step(4)], fence)
        assert [entry.n for entry in store.entries("r")] == [1, 2, 3, 4]
        store.renew("me", lease=LEASE)
        with pytest.raises(RunOwnedError):
            other.claim("r", "other", lease=LEASE)
        store.close()
        other.claim("r", "other", lease=LEASE)
        other.close()

    def test_it_waits_for_a_server_that_comes_back(self, own: PostgresServer) -> None:
        store = PostgresStore(own.dsn, patience=PATIENCE)
        fence = _owned(store)
        own.stop()
        start = threading.Thread(target=own.start)
        start.start()
        store.append("r", [step(1)], fence)
        start.join()
        assert list(store.entries("r")) == [step(1)]
        store.close()

    def test_opening_waits_for_a_server_that_starts(self, own: PostgresServer) -> None:
        """As a service does that is started together with its database."""
        own.stop()
        start = threading.Thread(target=own.start)
        start.start()
        store = PostgresStore(own.dsn, patience=PATIENCE)
        start.join()
        assert store.rows() == []
        store.close()

    @pytest.mark.parametrize("mode", ["fast", "immediate"])
    def test_opening_waits_while_a_server_restarts(self, own: PostgresServer, mode: str) -> None:
        PostgresStore(own.dsn, patience=PATIENCE).close()
        opened, failed, enough = 0, list[BaseException](), threading.Event()

        def open_again_and_again() -> None:
            nonlocal opened
            try:
                while not enough.is_set():
                    PostgresStore(own.dsn, patience=PATIENCE).close()
                    opened += 1
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=open_again_and_again)
        thread.start()
        for _ in range(2):
            own.stop(mode)
            own.start()
            reached = opened
            while opened < reached + 2 and not failed:
                pass
        enough.set()
        thread.join()
        assert not failed

    def test_opening_gives_up_when_its_patience_is_over(self, own: PostgresServer) -> None:
        own.stop()
        began = time.monotonic()
        with pytest.raises(StoreUnavailableError, match="opening the store"):
            PostgresStore(own.dsn, patience=0.5)
        assert 0.5 <= time.monotonic() - began < PATIENCE

    def test_a_call_waits_for_its_whole_patience_and_those_after_it_do_not_wait_again(
        self, own: PostgresServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store = PostgresStore(own.dsn, patience=60.0)
        fence = _owned(store)
        slept = list[float]()

        def now() -> float:
            return time.monotonic() + sum(slept)

        monkeypatch.setattr(postgres_link, "time", SimpleNamespace(monotonic=now, sleep=slept.append))
        own.stop()
        began = now()
        with pytest.raises(StoreUnavailableError):
            store.append("r", [step(1)], fence)
        assert now() - began >= 60.0
        pauses = len(slept)
        with pytest.raises(StoreUnavailableError):
            store.release("r", fence)
        assert len(slept) == pauses
        own.start()
        store.release("r", fence)
        own.stop()
        with pytest.raises(StoreUnavailableError):  # another outage
            store.rows()
        assert len(slept) > pauses
        store.close()

    def test_what_waiting_does_not_change_is_not_waited_for(self, own: PostgresServer) -> None:
        for wrong in ("dbname=nowhere", "user=nobody_here"):
            with pytest.raises(StoreUnavailableError, match="does not exist"):
                PostgresStore(f"{own.dsn} {wrong}", patience=3600.0)

    def test_a_restart_in_the_middle_of_many(self, own: PostgresServer) -> None:
        """All connections of the pool break at once, and each comes back."""
        store = PostgresStore(own.dsn, pool_size=4, patience=PATIENCE)
        other = PostgresStore(own.dsn, patience=PATIENCE)
        fence = _owned(store)
        many, steps = 8, 60
        stop, errors = threading.Event(), list[BaseException]()

        def write(number: int) -> None:
            try:
                for n in range(steps):
                    store.append("r", [LogEntry("call", f"p{number}", n, b"x", b"x")], fence)
                    if n == steps // 3:
                        stop.set()
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=write, args=(number,)) for number in range(many)]
        for thread in threads:
            thread.start()
        stop.wait()
        own.stop("immediate")
        own.start()
        for thread in threads:
            thread.join()
        assert not errors
        assert len(store.entries("r")) == many * steps
        store.renew("me", lease=LEASE)
        with pytest.raises(RunOwnedError):
            other.claim("r", "other", lease=LEASE)
        store.close()
        other.close()

    def test_a_server_that_stays_away(self, own: PostgresServer) -> None:
        store = PostgresStore(own.dsn, patience=0.1)
        fence = _owned(store)
        own.stop()
        with pytest.raises(
            StoreUnavailableError, match=r"run 'r': PostgreSQL at .* is unavailable .*nothing is lost"
        ):
            store.append("r", [step(1)], fence)
        own.start()
        store.append("r", [step(1)], fence)
        assert list(store.entries("r")) == [step(1)]
        store.close()


class TestPool:
    def test_a_store_that_does_one_thing_at_a_time_has_one_connection(self, store: PostgresStore) -> None:
        fence = _owned(store)
        for n in range(20):
            store.append("r", [step(n)], fence)
        assert len(store._link.pool.sessions) == 1

    def test_it_has_no_more_connections_than_it_may(self, server: PostgresServer, schema: str) -> None:
        store = PostgresStore(server.dsn, schema=schema, pool_size=3)
        fence = _owned(store)
        errors: list[BaseException] = []
        most, start = 0, threading.Barrier(12)

        def use(number: int) -> None:
            nonlocal most
            try:
                start.wait()
                for n in range(20):
                    store.append("r", [LogEntry("call", f"p{number}", n, b"x", b"x")], fence)
                    most = max(most, len(store._link.pool.sessions))
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=use, args=(number,)) for number in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not errors
        assert most == 3
        assert len(store.entries("r")) == 12 * 20
        store.close()
        assert store._link.pool.sessions == set()

    def test_work_goes_on_beside_work_that_waits(
        self, store: PostgresStore, admin: psycopg.Connection[tuple[object, ...]]
    ) -> None:
        """With one connection the second append would wait for the first."""
        fence, other = _owned(store), _owned(store, "other")
        key = secrets.randbits(31)
        admin.execute("SELECT pg_advisory_lock(%s)", (key,))
        held = Statement("SELECT pg_advisory_xact_lock(%s)", (key,))
        waiting = threading.Thread(target=lambda: store.append("r", [step(1)], fence, statements=[held]))
        waiting.start()
        store.append("other", [step(1)], other)
        assert waiting.is_alive()
        admin.execute("SELECT pg_advisory_unlock(%s)", (key,))
        waiting.join()

    def test_one_cut_connection_does_not_take_the_runs(
        self,
        server: PostgresServer,
        store: PostgresStore,
        schema: str,
        admin: psycopg.Connection[tuple[object, ...]],
    ) -> None:
        _owned(store)
        loans = [Loan(), Loan()]
        with_two = [store._link.pool.take(loan) for loan in loans]
        for loan in loans:
            store._link.pool.give(loan)
        first = with_two[0]
        assert first is not None
        admin.execute("SELECT pg_terminate_backend(%s, 120000)", (first.db.info.backend_pid,))
        other = PostgresStore(server.dsn, schema=schema)
        with pytest.raises(RunOwnedError):
            other.claim("r", "other", lease=LEASE)
        other.close()

    def test_a_connection_in_the_middle_of_something_is_not_used_again(self, store: PostgresStore) -> None:
        before = _only(store)

        def interrupted(cursor: psycopg.Cursor[tuple[object, ...]], _: bool) -> None:
            cursor.execute("BEGIN")
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            store._link.run("", interrupted)
        assert before.closed
        assert store.rows() == []

    @pytest.mark.parametrize("size", [0, -1, True, 1.5, "8"])
    def test_a_size_that_is_none(self, server: PostgresServer, size: object) -> None:
        with pytest.raises(StoreError, match="pool_size"):
            PostgresStore(server.dsn, pool_size=size)

    def test_a_server_with_few_places_is_shared(self, server: PostgresServer, schema: str) -> None:
        """A connection that is refused for want of a place is waited for."""
        name = f"few_{token_hex(4)}"
        with psycopg.connect(server.dsn, autocommit=True) as admin:
            admin.execute(f"CREATE ROLE {name} LOGIN CONNECTION LIMIT 2")
            admin.execute(f"GRANT CREATE ON DATABASE postgres TO {name}")
        store = PostgresStore(f"{server.dsn} user={name}", schema=schema)
        fence = _owned(store)
        errors: list[BaseException] = []

        def use(number: int) -> None:
            try:
                for n in range(10):
                    store.append("r", [LogEntry("call", f"p{number}", n, b"x", b"x")], fence)
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=use, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not errors
        assert len(store.entries("r")) == 60
        store.close()


def test_a_server_that_only_reads(store: PostgresStore) -> None:
    fence = _owned(store)
    _only(store).execute("SET default_transaction_read_only = on")
    with pytest.raises(StoreUnavailableError, match="read-only"):
        store.append("r", [step(1)], fence)
    _only(store).execute("SET default_transaction_read_only = off")
    store.append("r", [step(1)], fence)


def test_a_claim_waits_for_an_append_that_is_under_way(
    server: PostgresServer, store: PostgresStore, schema: str, admin: psycopg.Connection[tuple[object, ...]]
) -> None:
    """Otherwise an entry could appear behind the back of the new owner."""
    fence = _owned(store)
    store.renew("me", lease=0.0)
    other = PostgresStore(server.dsn, schema=schema)
    key = secrets.randbits(31)
    admin.execute("SELECT pg_advisory_lock(%s)", (key,))
    held = Statement("SELECT pg_advisory_xact_lock(%s)", (key,))  # until the admin releases it
    append = threading.Thread(target=lambda: store.append("r", [step(1)], fence, statements=[held]))
    claimed: list[int] = []
    claim = threading.Thread(target=lambda: claimed.append(other.claim("r", "other", lease=LEASE)))
    waits = "SELECT count(*) FROM pg_stat_activity WHERE pid = %s AND wait_event_type = 'Lock'"
    for thread, waiting in ((append, store), (claim, other)):
        thread.start()
        while admin.execute(waits, (_only(waiting).info.backend_pid,)).fetchone() != (1,):
            assert not claimed
    admin.execute("SELECT pg_advisory_unlock(%s)", (key,))
    append.join()
    claim.join()
    assert claimed
    assert list(other.entries("r")) == [step(1)]
    with pytest.raises(RunOwnedError):
        store.append("r", [step(2)], fence)
    other.close()


def test_a_server_that_has_not_noticed_the_end_of_an_owner_is_waited_for(
    server: PostgresServer,
    store: PostgresStore,
    schema: str,
    admin: psycopg.Connection[tuple[object, ...]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A busy one may take longer to end its session than a living owner is given to prove that it lives."""
    monkeypatch.setattr(postgres_link, "_GRACE", "600s")
    _owned(store)
    lock = (LIVES, store._link.slot)
    admin.execute("SELECT pg_advisory_lock_shared(%s, %s)", lock)  # as the session of the owner has it
    store.close()
    other = PostgresStore(server.dsn, schema=schema)
    claimed: list[int] = []
    claim = threading.Thread(target=lambda: claimed.append(other.claim("r", "other", lease=LEASE)))
    claim.start()
    claim.join(1.0)
    assert claim.is_alive()
    admin.execute("SELECT pg_advisory_unlock_shared(%s, %s)", lock)
    claim.join()
    assert claimed
    other.close()


def test_a_damaged_content_is_found_and_named(
    store: PostgresStore, schema: str, admin: psycopg.Connection[tuple[object, ...]]
) -> None:
    digest = sha256(b"content").hexdigest()
    store.create(RunRow("r"), {digest: b"content"})
    admin.execute(f"UPDATE {schema}.blobs SET body = 'contend'")
    with pytest.raises(StoreCorruptError, match=f"{digest[:12]}… is damaged"):
        store.blob(digest)
    assert [line for line in store.check() if digest[:12] in line]


def test_an_append_is_one_round_trip(store: PostgresStore, tmp_path: Path) -> None:
    fence = _owned(store)
    store.append("r", [step(1)], fence)
    store.append("r", [step(2), step(3)], fence)
    connection = _only(store).pgconn

    def round_trips(append: Callable[[], None]) -> int:
        with (tmp_path / "trace").open("w+b") as trace:
            connection.trace(trace.fileno())
            append()
            connection.untrace()
            return (tmp_path / "trace").read_bytes().count(b"Sync")

    assert round_trips(lambda: store.append("r", [step(4)], fence)) == 1
    call = LogEntry("call", "p", 0, b"", b"")
    content = {sha256(b"x").hexdigest(): b"x"}
    many = [step(n) for n in range(5, 105)]
    store.append("r", [call], fence)
    assert (
        round_trips(lambda: store.append("r", many, fence, drop=[call.name], blobs=content)) <= 2
    )  # one to prepare
    assert round_trips(lambda: store.append("r", many, fence, drop=[call.name], blobs=content)) == 1
    assert len(store.entries("r")) == 104


def test_the_key_of_a_long_text_is_its_own() -> None:
    key_of = migrations.key_of
    for short in ("", "a", "é" * 250, "x" * 1000, "🧵" * 250):
        assert key_of(short) == short
    longs = ["x" * 1001, "x" * 1002, "🧵" * 251, "a" + "🧵" * 400, "aa" + "🧵" * 400, "aaa" + "🧵" * 400]
    keys = [key_of(long) for long in longs]
    assert len(set(keys)) == len(longs)
    assert all(1000 < len(key.encode()) < 1100 for key in keys)


DAMAGE = {
    "a step": ("steps", "body", "n = 2", "run 'hurt': step 2 is damaged: checksum mismatch"),
    "a step's digest": ("steps", "digest", "n = 2", "run 'hurt': step 2 is damaged"),
    "another entry": ("log", "body", "n = 1", "run 'hurt': call a#0 1 is damaged: checksum mismatch"),
    "another entry's digest": ("log", "digest", "n = 1", "run 'hurt': call a#0 1 is damaged"),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_a_flipped_bit_in_an_entry_is_found_and_named(
    store: PostgresStore, schema: str, admin: psycopg.Connection[tuple[object, ...]], what: str
) -> None:
    table, column, which, told = DAMAGE[what]
    for run_id in ("sound", "hurt"):
        fence = _owned(store, run_id)
        for n in range(1, 4):
            store.append(run_id, [step(n, b"a body")], fence)  # each by itself, and the calls together
        store.append(run_id, [LogEntry("call", "a#0", n, b"a call", b"digest") for n in range(3)], fence)
    before = list(store.entries("sound"))
    done = admin.execute(
        f"UPDATE {schema}.{table} SET {column} = set_bit({column}, 9, 1 - get_bit({column}, 9)) "
        f"WHERE run = 2 AND {which}"
    )
    assert done.rowcount == 1
    with pytest.raises(StoreCorruptError, match=told):
        store.entries("hurt")
    assert list(store.entries("sound")) == before
    assert [line for line in store.check() if told in line]
    assert not [line for line in store.check() if "hurt" not in line]


ROWS = {
    "its start": "UPDATE {}.origins SET start = set_byte(start, 0, 1) WHERE run = 2",
    "a digest of its code": "UPDATE {}.origins SET codes = replace(codes, 'x', 'y') WHERE run = 2",
    "its seed": "UPDATE {}.runs SET seed = '8' WHERE id = 2",
    "its parent": "UPDATE {}.runs SET parent = 'sound' WHERE id = 2",
    "no start": "DELETE FROM {}.origins WHERE run = 2",
    "its census": "UPDATE {}.runs SET census = '{{' WHERE id = 2",
}


@pytest.mark.parametrize("what", ROWS)
def test_a_damaged_row_is_named_and_the_others_are_listed(
    store: PostgresStore, schema: str, admin: psycopg.Connection[tuple[object, ...]], what: str
) -> None:
    for run_id in ("sound", "hurt"):
        store.create(RunRow(run_id, "graph", b"start", 7, codes={"node": "x"}))
    assert admin.execute(ROWS[what].format(schema)).rowcount == 1
    rows = store.rows()
    assert [row.run_id for row in rows] == ["sound", "hurt"]
    assert (rows[0].damage, store.row("sound").seed) == ("", 7)
    with pytest.raises(StoreCorruptError, match="run 'hurt': its row is damaged"):
        store.row("hurt")
