"""The queue in PostgreSQL: what its statements read, and what they see of others."""

from __future__ import annotations

import threading
from secrets import token_hex

import psycopg

from clew.stores import PostgresStore, QueueEntry, RunRow, TakenRun
from clew.stores.postgres.queue import _take_from
from tests.stores.servers import PostgresServer

FILL = """
    INSERT INTO @.queue (run, queue, structure, priority, due)
    SELECT n, 'default', 's', n % 3, 1e12 FROM generate_series(1, 10000) AS n
"""


def test_entries_that_are_due_later_are_not_read(server: PostgresServer) -> None:
    store = PostgresStore(server.dsn, schema=f"t_{token_hex(6)}")
    for statement in (FILL, "ANALYZE @.queue"):
        store._link.run("", lambda cursor, _, statement=statement: cursor.execute(statement))
    given = {"owner": "me", "host": "h", "pid": 1, "slot": 1, "lease": 1.0, "token": "t", "limit": 8}
    given |= {"queue0": "default", "structure0": "s"}
    statement = f"EXPLAIN {_take_from(1)}"
    plan = store._link.run(
        "", lambda cursor, _: [line for (line,) in cursor.execute(statement, given).fetchall()]
    )
    assert any("Index Cond" in line and "due <=" in line for line in plan), plan
    assert store.take("me", structures=["s"], queues=["default"], limit=8, lease=1.0) == []
    store.close()


def test_a_take_is_planned_once(server: PostgresServer) -> None:
    store = PostgresStore(server.dsn, schema=f"t_{token_hex(6)}", pool_size=1)
    for n in range(12):
        store.create(RunRow(f"r{n}", structure="s"), queue=QueueEntry())
        assert (
            len(store.take("me", structures=["s", "t"], queues=["default", "low"], limit=8, lease=3600.0))
            == 1
        )
    plans = (
        "SELECT generic_plans, custom_plans FROM pg_prepared_statements WHERE statement LIKE '%%expired%%'"
    )
    ((generic, custom),) = store._link.fetch("", plans, ())
    assert generic + custom == 12
    assert custom <= 5  # after which the server decides
    store.close()


def test_a_release_that_waits_for_a_sender_sees_its_message(server: PostgresServer) -> None:
    schema = f"t_{token_hex(6)}"
    store = PostgresStore(server.dsn, schema=schema)
    store.create(RunRow("r", structure="s"), queue=QueueEntry())
    (taken,) = store.take("me", structures=["s"], queues=["default"], limit=1, lease=3600.0)
    release = threading.Thread(
        target=lambda: store.update(
            "r", status="waiting", updated=1.0, error=None, fence=taken.fence, release=True
        )
    )
    with psycopg.connect(server.dsn) as sender, psycopg.connect(server.dsn, autocommit=True) as admin:
        sender.execute(f"SELECT id FROM {schema}.runs FOR NO KEY UPDATE")
        sender.execute(f"INSERT INTO {schema}.inbox SELECT id, 1, 'm', 'signal', '', 0 FROM {schema}.runs")
        release.start()
        waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND %s = ANY(pg_blocking_pids(pid))"
        while admin.execute(waits, (sender.info.backend_pid,)).fetchone() != (1,):
            assert release.is_alive()
        sender.commit()
        release.join()
    assert len(store.take("me", structures=["s"], queues=["default"], limit=1, lease=3600.0)) == 1
    store.close()


def test_a_commit_that_came_while_the_take_waited_is_not_overlooked(server: PostgresServer) -> None:
    """The statement of a take sees data as it was when it began, but rows of runs as they are after it waited."""
    store = PostgresStore(server.dsn, schema=f"t_{token_hex(6)}")
    schema = store._link._schema
    store.create(RunRow("r", structure="s"), queue=QueueEntry())
    (first,) = store.take("me", structures=["s"], queues=["default"], limit=1, lease=0.0)
    assert first.is_new
    found: list[TakenRun] = []

    def take() -> None:
        found.extend(store.take("other", structures=["s"], queues=["default"], limit=1, lease=3600.0))

    with psycopg.connect(server.dsn, autocommit=True) as db:
        with psycopg.connect(server.dsn) as late:  # what `append` does, in two parts
            late.execute(f"SELECT id FROM {schema}.runs WHERE key = 'r' FOR NO KEY UPDATE")
            late.execute(
                f"INSERT INTO {schema}.log (run, n, kind, key, body, digest, crc) "
                f"SELECT id, 0, 'call', 'p', '', '', 0 FROM {schema}.runs WHERE key = 'r'"
            )
            thread = threading.Thread(target=take)
            thread.start()
            while db.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchone() == (0,):
                assert thread.is_alive()
        thread.join()
    assert [(each.row.run_id, each.is_new) for each in found] == [("r", False)]
    store.close()
