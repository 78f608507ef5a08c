"""Runs that sleep, wait for a signal and ask, on workers that are killed at any time: each ends once, at its time.

A run here waits in each of its nodes. Signals and answers are sent while workers are killed and suspended. Each wait is
recorded once, and ends neither before its time nor, except for the time that workers need to notice a death, long
after it.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from secrets import token_hex
from typing import Any

import pytest

from clew import Context, Engine, Graph, Worker, node
from clew.errors import RunStateError
from clew.runtime.calls import waiting
from clew.runtime.workers.store_clock import StoreClock
from tests.crash.fleet import LEASE, Fleet, declared_dead, finished, opened
from tests.stores.servers import PostgresServer

NAP = 0.5
SLOTS = 2
AT_ONCE = 2  # calls of one run: those of `nap` and `pay`

pytestmark = pytest.mark.posix


def _effect(key: str, value: Any) -> Any:
    folder = Path(os.environ["CLEW_EFFECTS"])
    with (folder / "calls").open("a") as calls:
        calls.write(f"{key}\n")
    (folder / key.replace("/", "|")).touch()
    return value


@node(output="began")
def begin(n: int, ctx: Context) -> float:
    return ctx.record("begin", _effect, f"{n} begin", ctx.now().timestamp())


@node(output="slept")
def nap(n: int, began: float, ctx: Context) -> float:
    ctx.record("before", _effect, f"{n} before", None)
    ctx.sleep(NAP)
    return ctx.record("after", _effect, f"{n} after", ctx.now().timestamp())


@node(output="paid")
def pay(n: int, began: float, ctx: Context) -> Any:
    return ctx.record("paid", _effect, f"{n} paid", ctx.wait_for("paid"))


@node(output="late")
def remind(n: int, began: float, ctx: Context) -> Any:
    return ctx.interrupt("seen?", timeout=NAP, default="no")


@node(output="approved")
def approve(n: int, paid: int, slept: float, ctx: Context) -> Any:
    return ctx.record("approved", _effect, f"{n} approved", ctx.interrupt("ship it?"))


@node(output="done")
def finish(n: int, paid: int, approved: int, late: str) -> list[Any]:
    return [n, paid, approved, late]


graph = Graph([begin, nap, pay, remind, approve, finish], name="waits")


def main() -> None:
    """Be a worker on the store that is named on the command line."""
    waiting.LONGEST_SLEEP = 0.0  # every wait leaves the worker
    # All use the clock of this machine. A measured difference is wrong if the machine is busy meanwhile.
    StoreClock.measure = lambda clock: None
    Worker(graph, store=opened(sys.argv[1]), slots=SLOTS, lease=LEASE, poll=0.1, tries=1_000).run()


class Clients:
    """Send each run one signal and one answer, as soon as it can get them."""

    def __init__(self, engine: Engine, ids: list[str], rng: Random) -> None:
        self._engine, self._rng = engine, rng
        self._unpaid, self._unanswered = set(ids), set(ids)

    def act(self, *, but: int = 0) -> None:
        """Send some signals and all answers; the last `but` runs get no signal yet, so that not all of them end."""
        unpaid = sorted(self._unpaid)[: len(self._unpaid) - but]
        for run_id in self._rng.sample(unpaid, min(5, len(unpaid))):
            with suppress(RunStateError):  # it was sent before, and the run has ended
                self._engine.signal(run_id, "paid", int(run_id.split()[1]), id="paid")
            if self._rng.random() < 0.8:  # else it is not known to have arrived, and is sent again
                self._unpaid.discard(run_id)
        for row in self._engine.runs(status="waiting"):
            if row.run_id in self._unanswered:
                try:
                    self._engine.handle(row.run_id).answer(2 * int(row.run_id.split()[1]), "approve#0")
                except RunStateError:
                    continue  # it asks something else
                self._unanswered.discard(row.run_id)


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
        ("sqlite", 12, 2, 4),
        ("postgres", 12, 2, 4),
        pytest.param("sqlite", 200, 4, 40, marks=pytest.mark.slow),
        pytest.param("postgres", 200, 4, 40, marks=pytest.mark.slow),
    ],
    indirect=["target"],
)
def test_killed_workers_lose_no_wait(
    target: str, tmp_path: Path, runs: int, workers: int, times: int
) -> None:
    effects = tmp_path / "effects"
    effects.mkdir()
    rng = Random(runs)
    with Engine(graph, store=opened(target)) as engine:
        ids = [engine.submit({"n": n}, run_id=f"run {n}").run_id for n in range(runs)]
        clients = Clients(engine, ids, rng)
        fleet = Fleet(target, effects, workers, rng, module="test_waiting_workers")
        try:
            while not finished(engine) or engine.runs(status="waiting", limit=1):
                if fleet.disturbed < times and (effects / "calls").exists():
                    fleet.disturb()
                fleet.wake()
                clients.act(but=int(fleet.disturbed < times))
                time.sleep(rng.uniform(0.05, 0.3))  # the result does not depend on it
            dead = declared_dead(engine)
        finally:
            fleet.close()
        assert fleet.disturbed == times
        results = [engine.result(run_id) for run_id in ids]
        assert Counter(result.status for result in results) == {"completed": runs}
        assert [result["done"] for result in results] == [[n, n, 2 * n, "no"] for n in range(runs)]
        calls = Counter((effects / "calls").read_text().splitlines())
        assert len(calls) == 5 * runs
        assert sum(calls.values()) - len(calls) <= dead * SLOTS * AT_ONCE
        for result in results:
            log = engine._opener.runs.open(result.run_id).log()
            naps = [wait for wait in log.waits if wait.reason == "sleep"]
            assert len(naps) == 1, "the wait began again"
            assert naps[0].due is not None
            assert naps[0].due >= result["began"] + NAP
            assert result["slept"] >= naps[0].due - 0.01  # the clock of the store
            assert engine.replay(result.run_id).ok
