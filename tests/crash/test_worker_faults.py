"""Workers whose server crashes, whose connections are cut, whose clocks are wrong, or that are behind PgBouncer.

No process is killed in the first three cases and no lease ends, so every recorded call is made exactly once. The clock
that decides is that of the server: a run is not taken before it is due, and a living worker is not declared dead.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from secrets import token_hex

import psycopg
import pytest

from clew import Engine
from tests.crash.fleet import LEASE, POOLER, SLOTS, Fleet, check, declared_dead, finished, graph, opened
from tests.stores.bouncers import pgbouncer
from tests.stores.servers import PostgresServer

pytestmark = pytest.mark.posix

HOUR = 3600.0
LONG = 600.0  # a lease that no number of restarts in a row lasts for
QUICK = (60, 2, 3)  # runs, workers, faults
FULL = (1_000, 4, 40)
SIZES = [QUICK, pytest.param(FULL, marks=pytest.mark.slow)]
CUT = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE application_name = 'clew' AND pid <> pg_backend_pid() ORDER BY random() LIMIT %s
"""


class Runs:
    """Submitted runs, and where their effects are."""

    def __init__(self, engine: Engine, count: int, target: str, folder: Path) -> None:
        self.engine, self.count, self.target, self.effects = engine, count, target, folder
        self.rng = Random(count)

    def survive(self, fleet: Fleet, times: int, fault: Callable[[], None], *, may_die: bool = False) -> None:
        """Cause faults at random moments until all runs have ended, and check the runs."""
        try:
            done = 0
            while not finished(self.engine):
                if done < times and (self.effects / "calls").exists():
                    fault()
                    done += 1
                fleet.wake()
                time.sleep(self.rng.uniform(0.05, 0.5))  # the result does not depend on it
            dead = declared_dead(self.engine)
        finally:
            fleet.close()
        assert done
        check(self.engine, self.count, self.effects, self.rng, repeated=dead * SLOTS if may_die else 0)


@pytest.fixture
def submitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Runs]]:
    """Submits runs."""
    effects, others = tmp_path / "effects", tmp_path / "others"
    effects.mkdir()
    others.mkdir()
    monkeypatch.setenv("CLEW_EFFECTS", str(others))  # of the runs to compare with
    engines: list[Engine] = []

    def submit(address: str, count: int, *rest: str, at: float | None = None) -> Runs:
        target = "|".join([address, f"faults_{token_hex(6)}", *rest])
        engines.append(Engine(graph, store=opened(target)))
        for n in range(count):
            engines[-1].submit({"n": n}, run_id=f"run {n}", at=at)
        return Runs(engines[-1], count, target, effects)

    yield submit
    for engine in engines:
        engine.close()


@contextmanager
def own_server() -> Iterator[PostgresServer]:
    server = PostgresServer(fsync=True)
    try:
        server.start()
        yield server
    finally:
        server.remove()


@pytest.mark.parametrize("size", SIZES)
def test_a_server_that_crashes(
    server: PostgresServer, submitted: Callable[..., Runs], size: tuple[int, int, int]
) -> None:
    count, workers, times = size
    with own_server() as own:
        runs = submitted(own.dsn, count)

        def crash() -> None:
            own.stop("immediate")
            own.start()

        runs.survive(Fleet(runs.target, runs.effects, workers, runs.rng, lease=LONG), times, crash)
        runs.engine.close()


@pytest.mark.parametrize("size", SIZES)
def test_cut_connections(
    server: PostgresServer, submitted: Callable[..., Runs], size: tuple[int, int, int]
) -> None:
    count, workers, times = size
    runs = submitted(server.dsn, count)
    with psycopg.connect(server.dsn, autocommit=True) as db:

        def cut() -> None:
            db.execute(CUT, (runs.rng.choice((1, 4, 100)),))

        runs.survive(Fleet(runs.target, runs.effects, workers, runs.rng, lease=LONG), 4 * times, cut)


@pytest.mark.parametrize("size", SIZES)
def test_clocks_that_are_an_hour_off(
    server: PostgresServer, submitted: Callable[..., Runs], size: tuple[int, int, int]
) -> None:
    count, workers, _ = size
    due = time.time() + 3.0
    runs = submitted(server.dsn, count, at=due)
    fleet = Fleet(runs.target, runs.effects, workers, runs.rng, lease=LONG, offsets=(HOUR, -HOUR))
    dead: set[str] = set()

    def look() -> None:
        dead.update(each.owner for each in runs.engine.store.workers() if not each.is_alive)

    runs.survive(fleet, 1_000_000, look)
    assert not dead
    times = [each.stat().st_mtime for each in runs.effects.iterdir() if each.name != "calls"]
    assert due - 0.05 <= min(times)


@pytest.mark.parametrize("size", SIZES)
def test_workers_behind_pgbouncer(
    server: PostgresServer, submitted: Callable[..., Runs], size: tuple[int, int, int]
) -> None:
    count, workers, times = size
    with pgbouncer(server) as address:
        runs = submitted(address, count, POOLER)
        fleet = Fleet(runs.target, runs.effects, workers, runs.rng, lease=LEASE)
        runs.survive(fleet, times, fleet.disturb, may_die=True)
        runs.engine.close()
