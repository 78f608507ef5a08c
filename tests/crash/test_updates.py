"""SIGKILL while a step is made by hand: the step is in the log or it is not, and the run goes on either way."""

from __future__ import annotations

from secrets import token_hex

import pytest

from tests.crash.conftest import Trials
from tests.crash.nursery import RUN, opened
from tests.crash.supervisor import Trial
from tests.stores.servers import PostgresServer

STOPS = {"stop_before": ["split"]}
VALUES = {"drafts": "by hand"}
PLACES = [
    f"{point}:{count}"
    for point in ("before-claim", "after-claim", "before-append", "after-append")
    for count in (1,)
] + [f"{point}:{count}" for point in ("before-update", "after-update") for count in (1, 2)]


def by_hand(trial: Trial) -> int:
    store = opened(trial.store)
    try:
        return sum(b"by hand" in bytes(e.body) and e.kind == "step" for e in store.entries(RUN))
    finally:
        store.close()


def ended(trial: Trial) -> dict[tuple[str, int], str]:
    """Resume until the run is completed; its chain."""
    while (answer := trial.go()).get("status") == "paused":
        pass
    assert answer.get("status") == "completed", answer
    return trial.chain()


def updated(trial: Trial, crash: str = "") -> None:
    """Run to the stop and make the step, killed at a place and then again, unless the step is there."""
    assert trial.go()["status"] == "paused"
    if crash:
        assert trial.go(do="update", values=VALUES, crash=crash)["killed"], crash
        if by_hand(trial):
            return
    assert trial.go(do="update", values=VALUES)["status"] == "paused"


def test_killed_while_the_step_is_made(trials: Trials) -> None:
    unbroken = trials.new(stops=STOPS)
    updated(unbroken)
    expected = ended(unbroken)
    for place in PLACES:
        trial = trials.new(stops=STOPS)
        updated(trial, place)
        assert by_hand(trial) == 1
        assert ended(trial) == expected, place


@pytest.mark.parametrize("place", ["after-claim:1", "before-append:1", "after-append:1", "before-update:2"])
def test_killed_on_postgres(trials: Trials, server: PostgresServer, place: str) -> None:
    unbroken = trials.new(stops=STOPS)
    updated(unbroken)
    trial = trials.new(f"{server.dsn}|crash_{token_hex(6)}", stops=STOPS)
    updated(trial, place)
    assert by_hand(trial) == 1
    assert ended(trial) == ended(unbroken)
