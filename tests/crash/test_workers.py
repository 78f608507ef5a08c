"""Workers that are killed and suspended at random: every run completes once, as with one worker.

A key of a recorded call is on more than one line at most once for each slot of a worker that was declared dead, because
it was killed or did not renew its lease.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from secrets import token_hex

import pytest

from clew import Engine
from tests.crash.fleet import SLOTS, Fleet, check, declared_dead, finished, graph, opened
from tests.stores.servers import PostgresServer

pytestmark = pytest.mark.posix


@pytest.fixture
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield str(tmp_path / "runs.db")
        return
    server: PostgresServer = request.getfixturevalue("server")
    yield f"{server.dsn}|workers_{token_hex(6)}"


@pytest.mark.parametrize(
    "target, runs, workers, times",
    [
        ("sqlite", 100, 2, 4),
        pytest.param("sqlite", 1_000, 4, 60, marks=pytest.mark.slow),
        pytest.param("postgres", 1_000, 4, 60, marks=pytest.mark.slow),
    ],
    indirect=["target"],
)
def test_killed_and_suspended_workers_lose_nothing(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runs: int, workers: int, times: int
) -> None:
    effects, others = tmp_path / "effects", tmp_path / "others"
    effects.mkdir()
    others.mkdir()
    monkeypatch.setenv("CLEW_EFFECTS", str(others))  # of the runs to compare with
    rng = Random(runs)
    with Engine(graph, store=opened(target)) as engine:
        for n in range(runs):
            engine.submit({"n": n}, run_id=f"run {n}")
        fleet = Fleet(target, effects, workers, rng)
        try:
            while not finished(engine):
                if fleet.disturbed < times and (effects / "calls").exists():
                    fleet.disturb()
                fleet.wake()
                time.sleep(rng.uniform(0.05, 0.5))  # the result does not depend on it
            dead = declared_dead(engine)
        finally:
            fleet.close()
        assert fleet.disturbed
        check(engine, runs, effects, rng, repeated=dead * SLOTS)
