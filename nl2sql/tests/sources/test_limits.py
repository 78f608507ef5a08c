"""A query ends at its limit of time or memory, wherever it spends it, and leaves nothing behind."""

from __future__ import annotations

import copy
import os
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest

from clew_nl2sql.errors import ErrorCode, QueryMemoryError, QueryTimeoutError
from clew_nl2sql.pipeline import Pipeline
from clew_nl2sql.query_worker import serve
from clew_nl2sql.sources import Source, query_processes
from clew_nl2sql.sources.duckdb import DuckDBSource
from clew_nl2sql.sources.postgres import PostgresSource
from clew_nl2sql.sources.sqlite import SQLiteSource
from nl2sql.tests.scripted import Scripted
from nl2sql.tests.sources.contract import query, unchecked

SECONDS = 0.5
SMALL = 100_000_000
ENOUGH = 300.0  # seconds: the limit, the slack, and a busy machine

ROWS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000) SELECT i FROM n"


def nested(times: int, value: str = "name", by: int = 10) -> str:
    """A text that is many times longer after each call."""
    for _ in range(times):
        value = f"replace({value}, 'a', '{'a' * by}')"
    return value


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of all temporary files, with processes that were started in it."""
    query_processes.close_idle()
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    query_processes.close_idle()
    assert list(folder.iterdir()) == []


@pytest.fixture
def in_sqlite(tmp_path: Path) -> Path:
    with sqlite3.connect(tmp_path / "t.db") as db:
        db.executescript(f"CREATE TABLE t (i INT, name TEXT); INSERT INTO t SELECT i, 'aaaa' FROM ({ROWS})")
    db.close()
    return tmp_path / "t.db"


@pytest.fixture
def in_duckdb(tmp_path: Path) -> Path:
    with duckdb.connect(str(tmp_path / "t.duckdb")) as db:
        db.execute("CREATE TABLE t AS SELECT range AS i, 'aaaa' AS name FROM range(3000)")
    return tmp_path / "t.duckdb"


@pytest.fixture
def in_postgres(new_database: Callable[..., str]) -> str:
    return new_database("CREATE TABLE t AS SELECT i, 'aaaa' AS name FROM generate_series(1, 3000) AS i")


CROSS = "SELECT count(*) FROM t a, t b, t c, t d WHERE a.i + b.i + c.i > d.i"
LONG = "'" + "a" * 4_000 + "'"
# One call that compares a pattern of 2 MB with each of 4 million positions.
COMPARE = f"SELECT instr({nested(3, LONG)}, {nested(2, LONG, 20)} || 'b') FROM t"


@pytest.mark.parametrize(
    "sql", [CROSS, COMPARE, f"SELECT sum(length({nested(6)})) FROM t"], ids=("cross join", "instr", "replace")
)
def test_sqlite_ends_in_time(in_sqlite: Path, temporary: Path, sql: str) -> None:
    ends(SQLiteSource(in_sqlite, timeout=SECONDS), sql, QueryTimeoutError)


@pytest.mark.parametrize(
    "sql", [CROSS, f"SELECT sum(length({nested(7)})) FROM t"], ids=("cross join", "replace")
)
def test_duckdb_ends_in_time(in_duckdb: Path, temporary: Path, sql: str) -> None:
    ends(DuckDBSource(in_duckdb, timeout=SECONDS, max_memory=4_000_000_000), sql, QueryTimeoutError)


@pytest.mark.parametrize(
    "sql", [CROSS, f"SELECT sum(length({nested(7)})) FROM t"], ids=("cross join", "replace")
)
def test_postgres_ends_in_time(in_postgres: str, temporary: Path, sql: str) -> None:
    ends(PostgresSource(in_postgres, timeout=SECONDS), sql, QueryTimeoutError)


def test_explain_ends_in_time(in_duckdb: Path, temporary: Path) -> None:
    source = DuckDBSource(in_duckdb, timeout=SECONDS, max_memory=4_000_000_000)
    patient = DuckDBSource(in_duckdb)  # which reads the catalog however busy the machine is
    grown = query(patient, f"SELECT length({nested(8, repr('a' * 10))})")  # computed while it is planned
    with pytest.raises((QueryTimeoutError, QueryMemoryError)):
        source.explain(grown)
    still_works(source)


SORTED = "SELECT a.i, b.i, a.name || b.name || a.name AS x FROM t a, t b ORDER BY x DESC, a.i DESC, b.i"
WIDE = f"SELECT i, {nested(4)} AS x FROM t ORDER BY i"  # 3,000 rows of 40 kB


@pytest.mark.parametrize("sql", [SORTED, WIDE], ids=("sort", "wide rows"))
def test_sqlite_ends_at_its_memory(in_sqlite: Path, temporary: Path, sql: str) -> None:
    ends(SQLiteSource(in_sqlite, timeout=ENOUGH, max_memory=20_000_000), sql, QueryMemoryError)


@pytest.mark.parametrize(
    "sql",
    [SORTED, WIDE, f"SELECT sum(length({nested(8)})) FROM t", f"SELECT string_agg({nested(5)}, '') FROM t"],
    ids=("sort", "wide rows", "replace", "string_agg"),
)
def test_duckdb_ends_at_its_memory(in_duckdb: Path, temporary: Path, sql: str) -> None:
    memory = SMALL if sql != SORTED else 20_000_000
    ends(DuckDBSource(in_duckdb, timeout=ENOUGH, max_memory=memory), sql, QueryMemoryError)


@pytest.mark.parametrize("sql", [SORTED, WIDE], ids=("sort", "wide rows"))
def test_postgres_ends_at_its_memory(in_postgres: str, temporary: Path, sql: str) -> None:
    ends(PostgresSource(in_postgres, timeout=ENOUGH, max_memory=20_000_000), sql, QueryMemoryError)


def test_a_user_who_may_not_limit_the_servers_files_can_still_ask(in_postgres: str, temporary: Path) -> None:
    with psycopg.connect(in_postgres, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS plain")
        connection.execute("CREATE ROLE plain LOGIN")
        connection.execute("GRANT SELECT ON t TO plain")
    source = PostgresSource(in_postgres.replace("postgres@", "plain@"))
    still_works(source)
    with psycopg.connect(in_postgres, autocommit=True) as connection:
        connection.execute("DROP OWNED BY plain; DROP ROLE plain")


def test_a_killed_query_ends_on_the_server_too(in_postgres: str, temporary: Path) -> None:
    ends(PostgresSource(in_postgres, timeout=SECONDS), CROSS, QueryTimeoutError)
    with psycopg.connect(in_postgres, autocommit=True) as connection:
        asked = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%FROM t AS a%' AND pid <> pg_backend_pid()"
        until = time.monotonic() + ENOUGH
        while connection.execute(asked).fetchone() != (0,):
            assert time.monotonic() < until


def test_a_process_is_used_again_and_replaced_after_a_limit(in_sqlite: Path, temporary: Path) -> None:
    source = SQLiteSource(in_sqlite, timeout=SECONDS)
    still_works(source)
    (first,) = query_processes._idle
    still_works(source)
    assert query_processes._idle == [first]
    ends(source, COMPARE, QueryTimeoutError)
    assert first not in query_processes._idle
    assert not first.is_alive()


def test_queries_of_several_threads_do_not_wait_for_each_other(in_sqlite: Path, temporary: Path) -> None:
    slow = SQLiteSource(in_sqlite, timeout=ENOUGH)
    endless = query(slow, COMPARE)

    def ask() -> None:
        with pytest.raises(QueryMemoryError):  # what a process that is gone stands for
            slow.run(endless, 1)

    started = threading.Thread(target=ask, daemon=True)
    started.start()
    while not query_processes._busy:
        assert started.is_alive()
        time.sleep(0.001)
    still_works(slow)
    assert started.is_alive()
    for process in list(query_processes._busy):
        process._process.kill()
    started.join()


def test_a_process_that_is_lost_while_idle_is_replaced(in_sqlite: Path, temporary: Path) -> None:
    source = SQLiteSource(in_sqlite)
    still_works(source)
    (idle,) = query_processes._idle
    idle._process.kill()
    idle._process.wait()
    still_works(source)


def test_a_fork_does_not_share_processes(in_sqlite: Path, temporary: Path) -> None:
    source = SQLiteSource(in_sqlite)
    still_works(source)
    child = os.fork()
    if child == 0:
        os._exit(len(query_processes._idle))
    assert os.waitpid(child, 0)[1] == 0
    still_works(source)


def test_the_pipeline_reports_the_limit(
    in_duckdb: Path, temporary: Path, new_pipeline: Callable[..., Pipeline]
) -> None:
    planner = Scripted({"big": f"SELECT sum(length({nested(8)})) FROM t"})
    pipeline = new_pipeline({"big": f"duckdb:///{in_duckdb}"}, planner=planner, max_memory=SMALL)
    answer = pipeline.ask("How many t are there?")
    assert answer.status == "unanswered"
    assert [error.code for error in answer.errors] == [ErrorCode.EXECUTION_MEMORY]
    assert answer.scans[0].retries == 0


def test_a_result_that_is_too_large_for_both_processes_is_not_sent(in_sqlite: Path, temporary: Path) -> None:
    few = 3000 * 400 // 2 * serve.LARGEST_SHARE
    with pytest.raises(QueryMemoryError):
        run(SQLiteSource(in_sqlite, max_memory=few), f"SELECT {nested(2)} FROM t")


def ends(source: Any, sql: str, kind: type[Exception]) -> None:
    """Assert that a query ends with an error of this kind, and that the source works afterwards."""
    began = time.monotonic()
    with pytest.raises(kind):
        run(source, sql)
    if kind is QueryTimeoutError:
        assert time.monotonic() - began < ENOUGH
    still_works(source)


def run(source: Source, sql: str) -> Any:
    return source.run(unchecked(source, sql), max_rows=50_000)


def still_works(source: Any) -> None:
    """Assert that a source answers, however long a new process takes to start on a busy machine."""
    source = copy.copy(source)
    source._limits = source._limits._replace(seconds=ENOUGH)
    assert source.run(unchecked(source, "SELECT count(*) FROM t"), 1).rows == ((3000,),)
