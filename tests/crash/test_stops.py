"""SIGKILL in runs with stops: the run still pauses at each stop, and ends as the unbroken one."""

from __future__ import annotations

from collections import Counter
from itertools import cycle
from secrets import token_hex

import pytest

from tests.crash.conftest import Trials
from tests.crash.nursery import RUN, opened
from tests.crash.supervisor import Trial
from tests.stores.servers import PostgresServer

STOPS = {"stop_before": ["split", "inside/write_up"], "stop_after": ["judge", "inside/polish"]}


def place(trial: Trial) -> tuple[int, int] | None:
    """Where the run is paused: the steps of the run, and those inside its subgraph; None if it is not paused."""
    store = opened(trial.store)
    try:
        if store.row(RUN).status != "paused":
            return None
        steps = Counter(bool(entry.path) for entry in store.entries(RUN) if entry.kind == "step")
        return steps[False], steps[True]
    finally:
        store.close()


def finish(trial: Trial) -> list[tuple[int, int]]:
    """Resume until the run is completed; where it paused on the way."""
    found = [at for at in [place(trial)] if at is not None] if trial._is_there() else []
    while (answer := trial.go()).get("status") == "paused":
        at = place(trial)
        assert at is not None
        found.append(at)
        assert len(found) < 20
    assert answer.get("status") == "completed", answer
    return found


@pytest.fixture
def expected(trials: Trials) -> list[tuple[int, int]]:
    """Where a run that nobody kills pauses."""
    return finish(trials.new(stops=STOPS))


def test_an_unbroken_run_pauses_at_each_stop(trials: Trials, expected: list[tuple[int, int]]) -> None:
    trial = trials.new(stops=STOPS)
    finish(trial)
    assert trial.chain() == trials.unbroken()[0]
    assert [inside for _, inside in expected if inside] == [1, 3]
    assert len(expected) == 7


@pytest.mark.parametrize(
    "point", ["before-append", "after-append", "before-update", "after-update", "after-claim", "after-create"]
)
def test_killed_on_the_way_to_and_from_each_stop(
    trials: Trials, expected: list[tuple[int, int]], point: str
) -> None:
    """Every other stretch is killed at its n-th point."""
    for count in (1, 2, 3, 5):
        trial, found, status = trials.new(stops=STOPS), [], ""
        for crash in cycle((f"{point}:{count}", None)):
            status = trial.go(**{"crash": crash} if crash else {}).get("status", "killed")
            at = place(trial) if trial._is_there() else None
            if at is not None and at not in found:
                found.append(at)
            if status == "completed":
                break
        assert found == expected, (point, count)
        assert trial.chain() == trials.unbroken()[0]


@pytest.mark.parametrize("at", ["after-create:1", "before-append:1", "after-append:1", "before-update:1"])
def test_killed_on_postgres(
    trials: Trials, server: PostgresServer, expected: list[tuple[int, int]], at: str
) -> None:
    trial = trials.new(f"{server.dsn}|crash_{token_hex(6)}", stops=STOPS)
    assert trial.go(crash=at)["killed"]
    assert finish(trial) == expected
    assert trial.chain() == trials.unbroken()[0]
