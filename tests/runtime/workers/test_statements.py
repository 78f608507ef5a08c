"""What a queued run and a resumed run cost: the statements that the store executes for them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest

from clew import Engine, PostgresStore, SQLiteStore, Worker
from clew.stores import Store
from tests.cli.command import until
from tests.runtime.workers.dying import GRAPH
from tests.stores.servers import PostgresServer

RUNS = 40
MOST = 7  # for a queued run of three steps, and for a killed one that is resumed in its second step
USED = ("create", "take", "append", "update")
METHODS = (
    *USED,
    "claim",
    "release",
    "row",
    "entries",
    "within",
    "find",
    "last",
    "owner",
    "blob",
    "rows",
    "enqueue",
)


@contextmanager
def counted(store: Any, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...]) -> Iterator[dict[str, int]]:
    """Count the calls of methods of a store."""
    counts = dict.fromkeys(names, 0)

    def counting(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            counts[name] += 1
            return method(*args, **options)

        return call

    with monkeypatch.context() as patched:
        for name in names:
            patched.setattr(store, name, counting(name, getattr(store, name)))
        yield counts


def execute_runs(store: Store) -> None:
    engine = Engine(GRAPH, store=store)
    for n in range(RUNS):
        engine.submit({"a": n})
    Worker(GRAPH, store=store, slots=4).run(until_idle=True)


def test_a_queued_run_uses_the_store_seven_times_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SQLiteStore(tmp_path / "runs.db")
    with counted(store, monkeypatch, METHODS) as counts:
        execute_runs(store)
    assert [row.status for row in store.rows()] == ["completed"] * RUNS
    assert (counts["create"], counts["append"], counts["update"]) == (RUNS, 3 * RUNS, RUNS)
    assert [name for name in METHODS[len(USED) :] if counts[name]] == []
    assert sum(counts.values()) <= MOST * RUNS
    store.close()


@contextmanager
def noted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Note the statements that are sent to PostgreSQL."""
    import psycopg

    statements: list[str] = []
    execute = psycopg.Cursor.execute

    def noting(self: Any, query: Any, *args: Any, **options: Any) -> Any:
        statements.append(query if isinstance(query, str) else str(query))
        return execute(self, query, *args, **options)

    with monkeypatch.context() as patched:
        patched.setattr(psycopg.Cursor, "execute", noting)
        yield statements


def test_a_queued_run_costs_seven_statements_at_most_in_postgres(
    open_postgres: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_postgres()
    execute_runs(store)  # everything is prepared and known
    with noted(monkeypatch) as statements:
        execute_runs(store)
    assert [row.status for row in store.rows()] == ["completed"] * 2 * RUNS
    assert 5 * RUNS <= len(statements) <= MOST * RUNS
    store.close()


def test_resuming_a_killed_run_costs_seven_statements_at_most_in_postgres(
    server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = f"t_{token_hex(6)}"
    command = [sys.executable, "-m", "tests.runtime.workers.dying", server.dsn, schema, "r"]
    died = subprocess.run(command, cwd=Path(__file__).parents[3], check=False)
    assert died.returncode == 9
    store = PostgresStore(server.dsn, schema=schema)
    try:
        assert (store.row("r").status, len(store.entries("r"))) == ("running", 1)
        until(lambda: store.expire() > 0)  # finding out that an owner is dead is not a part of resuming a run
        with noted(monkeypatch) as statements:
            assert Engine(GRAPH, store=store).resume("r")["d"] == 3
        assert 5 <= len(statements) <= MOST, statements
    finally:
        store.close()
