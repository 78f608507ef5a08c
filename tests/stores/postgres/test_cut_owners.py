"""An owner whose connections are cut lives: it keeps its runs as long as it renews its lease."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex

import psycopg
import pytest

from clew import PostgresStore
from clew.errors import RunOwnedError
from tests.stores.servers import PostgresServer

pytestmark = pytest.mark.posix

VICTIM = "victim"
_CUT = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = %s"
PATIENCE = 120.0


@contextmanager
def cut(dsn: str) -> Iterator[None]:
    """Cut all connections of the other process, again and again."""
    is_over, has_cut = threading.Event(), threading.Event()

    def cut_all() -> None:
        with psycopg.connect(dsn, autocommit=True) as db:
            while not is_over.is_set():
                found = db.execute(_CUT, (VICTIM,)).fetchone()
                if found is not None and found[0]:
                    has_cut.set()

    thread = threading.Thread(target=cut_all)
    thread.start()
    try:
        assert has_cut.wait(PATIENCE)
        yield
    finally:
        is_over.set()
        thread.join()


def test_a_plain_engine_without_a_connection_keeps_its_run(server: PostgresServer, tmp_path: Path) -> None:
    schema = f"t_{token_hex(6)}"
    store = PostgresStore(server.dsn, schema=schema)
    command = [sys.executable, "-m", "tests.stores.postgres.holding"]
    process = subprocess.Popen(
        [*command, f"{server.dsn} application_name={VICTIM}", schema, str(tmp_path)],
        cwd=Path(__file__).parents[3],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        until = time.monotonic() + PATIENCE
        while not (tmp_path / "begun").exists():
            assert time.monotonic() < until
            time.sleep(0.02)
        with cut(server.dsn):
            assert store.expire() == 0
            with pytest.raises(RunOwnedError):
                store.claim("r", "another", lease=3600.0)
            holder = store.owner("r")
            assert holder is not None
            assert holder.holds
        (tmp_path / "enough").touch()
        assert process.communicate(timeout=PATIENCE)[0] == "completed\n"
        assert store.row("r").status == "completed"
    finally:
        process.kill()
        process.communicate()
        store.close()


def test_a_process_that_was_killed_is_dead_at_once(server: PostgresServer, tmp_path: Path) -> None:
    schema = f"t_{token_hex(6)}"
    store = PostgresStore(server.dsn, schema=schema)
    command = [sys.executable, "-m", "tests.stores.postgres.holding", server.dsn, schema, str(tmp_path)]
    process = subprocess.Popen(command, cwd=Path(__file__).parents[3], stdout=subprocess.DEVNULL)
    try:
        until = time.monotonic() + PATIENCE
        while not (tmp_path / "begun").exists():
            assert time.monotonic() < until
            time.sleep(0.02)
        process.kill()  # nobody waits for it yet
        while store.expire() == 0:
            assert time.monotonic() < until
        assert store.claim("r", "another", lease=3600.0)
    finally:
        process.kill()
        process.communicate()
        store.close()
