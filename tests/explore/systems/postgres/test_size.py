"""Half a million rows: what is done costs what changed, not what is there."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.explore.systems.postgres_databases import Database

TABLES, ROWS = 5, 100_000
RESTORE_MS, CHECKPOINT_MS = 5.0, 0.5


def milliseconds(work: Callable[..., Any], *arguments: Any) -> float:
    started = time.perf_counter()
    work(*arguments)
    return (time.perf_counter() - started) * 1e3


@pytest.mark.slow
def test_half_a_million_rows_at_the_bar(database: Database) -> None:
    for number in range(TABLES):
        database.run(
            f"CREATE TABLE t{number} (id serial PRIMARY KEY, name text, amount numeric, at timestamptz DEFAULT now())",
            f"INSERT INTO t{number} (name, amount) SELECT 'n' || i, i * 1.5 FROM generate_series(1, {ROWS}) i",
        )
    database.run("VACUUM ANALYZE")
    system, application = database.system(), database.connect()
    start = system.checkpoint("start")
    states = []
    for state in range(3):
        system.rollback(start)
        for number in range(TABLES):
            application.execute(f"UPDATE t{number} SET amount = {state} WHERE id = {state + 7}".encode())
            application.execute(f"INSERT INTO t{number} (name) VALUES ('new {state}')".encode())
        states.append((system.checkpoint("state"), database.truth(), system.observe().digest))
    restores, checkpoints, looks = [], [], []
    for turn in range(60):
        token, _, digest = states[(0, 2, 1)[turn % 3]]
        application.execute("UPDATE t0 SET amount = -1 WHERE id = 99999")
        restores.append(milliseconds(system.rollback, token))
        assert system.observe().digest == digest
        checkpoints.append(milliseconds(system.checkpoint, "same"))
        looks.append(milliseconds(system.observe))
    for token, truth, _ in (states[0], states[2], states[1], states[0]):
        system.rollback(token)
        assert database.truth() == truth
    # The best third: this machine is shared, and what it can do is what counts.
    best = {
        name: statistics.median(sorted(each)[:20])
        for name, each in {"restore": restores, "checkpoint": checkpoints, "observe": looks}.items()
    }
    assert best["restore"] < RESTORE_MS, best
    assert best["checkpoint"] < CHECKPOINT_MS, best
    assert best["observe"] < 1.0, best
