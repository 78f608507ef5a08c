"""The same deaths on PostgreSQL, fewer of them; and a server that is restarted under a running engine."""

from __future__ import annotations

import threading
from pathlib import Path
from random import Random
from secrets import token_hex
from typing import Any

import psycopg
import pytest

from clew import Engine, PostgresStore
from clew.testing import crash_points
from tests.crash import program
from tests.crash.conftest import Trials
from tests.crash.nursery import LONG, Nursery
from tests.crash.supervisor import Trial
from tests.stores.servers import PostgresServer


def new(trials: Trials, server: PostgresServer, **task: object) -> Trial:
    return trials.new(f"{server.dsn}|crash_{token_hex(6)}", **task)


@pytest.mark.parametrize(
    "place",
    [
        "after-create:1",
        "before-append:1",
        "after-append:14",
        "after-call:5",
        "before-update:1",
    ],
)
def test_killed_at_points(trials: Trials, server: PostgresServer, place: str) -> None:
    trial = new(trials, server)
    assert trial.go(crash=place)["killed"]
    trials.check(trial)


def test_killed_with_snapshots(trials: Trials, server: PostgresServer) -> None:
    trial = new(trials, server, pad=40_000)
    for place in ("before-snapshot:1", "before-snapshot:1", "after-snapshot:1"):
        assert trial.go(crash=place)["killed"], place
    trials.check(trial, pad=40_000)


def test_killed_at_random_instants(trials: Trials, server: PostgresServer) -> None:
    rng = Random(3)
    trial = new(trials, server, workers=4)
    for _ in range(6):
        trial.go(after=rng.uniform(0.02, 0.1))
    assert trial.deaths
    trials.check(trial)


def test_two_processes_resume_one_run(trials: Trials, nursery: Nursery, server: PostgresServer) -> None:
    trial = new(trials, server, options=LONG)
    assert trial.go(crash="after-journal:4")["killed"]
    first = trial.go(stop="after-claim:1")
    assert first["stopped"]
    assert trial.go()["error"] == "RunOwnedError"
    assert nursery.child(do="continue", pid=first["pid"])["status"] == "completed"
    trials.check(trial)


@pytest.mark.parametrize("place", ["before-append:8", "after-call:3", "before-update:1"])
def test_an_owner_that_was_stopped_for_longer_than_its_lease(
    trials: Trials, nursery: Nursery, server: PostgresServer, place: str
) -> None:
    trial = new(trials, server, options=LONG)
    owner = trial.go(stop=place, away=3600.0)
    assert owner["stopped"], owner
    assert trial.go()["error"] == "RunOwnedError"  # it lives, and its lease too
    with psycopg.connect(server.dsn, autocommit=True) as db:
        schema = trial.store.partition("|")[2]
        db.execute(f"UPDATE {schema}.workers SET until = 0")
    assert trial.go(crash="after-claim:1")["killed"]  # only the fence tells
    before, effects = trial.entries(), trial.lines()
    late = nursery.child(do="continue", pid=owner["pid"])
    assert late["error"] in ("RunOwnedError", "OwnerDeadError"), late
    assert (trial.entries(), trial.lines()) == (before, effects)
    trials.check(trial)


AT_POINTS = 60


@pytest.mark.slow
def test_killed_at_every_third_point(trials: Trials, server: PostgresServer) -> None:
    from tests.crash.test_kills import places

    for place in places(trials.unbroken()[2])[::3]:
        trial = new(trials, server)
        trial.go(crash=place)
        trial.go(crash="after-append:3")
        trials.check(trial)
    assert trials.killed_at.total() >= AT_POINTS


@pytest.mark.parametrize("mode", ["fast", "immediate"])
@pytest.mark.parametrize("place", ["before-append", "after-append", "before-call"])
def test_the_server_is_restarted_under_a_running_engine(
    server: PostgresServer,
    trials: Trials,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mode: str,
    place: str,
) -> None:
    expected, effects, _ = trials.unbroken()
    program.set_world(str(tmp_path / "effects"))
    store = PostgresStore(server.dsn, schema=f"crash_{token_hex(6)}")
    engine = Engine(program.GRAPH, store=store, seed=7, max_concurrent_nodes=1)
    restarts: list[threading.Thread] = []
    left, refused, connect = 7, threading.Event(), store._link.pool._connect

    def reconnect() -> psycopg.Connection[Any]:
        try:
            return connect()
        except psycopg.OperationalError:
            refused.set()
            raise

    monkeypatch.setattr(store._link.pool, "_connect", reconnect)

    def start_later() -> None:
        assert refused.wait(60)  # the engine has met a server that is not there
        server.start()

    def on_reach(reached: str) -> None:
        nonlocal left
        left -= reached == place
        if not left and not restarts and reached == place:
            server.stop(mode)
            restarts.append(threading.Thread(target=start_later))
            restarts[0].start()

    crash_points.watch(on_reach)
    try:
        result = engine.run(program.VALUES, run_id="killed")
    finally:
        crash_points.watch(None)
        for restart in restarts:
            restart.join()
    assert restarts
    assert result.status == "completed"
    found = {(e.path, e.n): e.digest.hex() for e in store.entries("killed") if e.kind == "step"}
    assert found == {key: digest for key, digest in expected.items() if key[0] != "the values of"}
    lines = (tmp_path / "effects").read_text().splitlines()
    assert sorted(line.split(" ")[0] for line in lines) == sorted(effects)
    engine.close()
