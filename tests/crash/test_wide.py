"""The second program is killed too: async nodes, calls at once, a map, a transaction, a question, a retry."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from random import Random
from typing import Any

import pytest

from tests.crash.conftest import Trials
from tests.crash.supervisor import Trial
from tests.crash.test_kills import places

WIDE: dict[str, Any] = {"graph": "wide", "at_once": 3}


def check(trials: Trials, trial: Trial) -> None:
    """The run ends as the unbroken one did, and was paid once."""
    chain, effects, _ = trials.unbroken(**WIDE)
    trial.finish()
    assert {name: digest for name, digest in trial.chain().items() if "@" not in name[0]} == {
        name: digest for name, digest in chain.items() if "@" not in name[0]
    }
    assert set(trial.lines()) == set(effects)
    with closing(sqlite3.connect(trial.store)) as db:
        assert db.execute("SELECT count(*) FROM paid").fetchone() == (1,)


def test_the_unbroken_run_does_each_thing_once(trials: Trials) -> None:
    chain, effects, points = trials.unbroken(**WIDE)
    assert set(effects.values()) == {1}
    assert any("@" in path for path, _ in chain)  # steps of a later attempt of the subgraph
    assert "before-claim" in points  # it waited, and was gone on with


def test_killed_at_points_of_every_kind(trials: Trials) -> None:
    for place in places(trials.unbroken(**WIDE)[2])[1::5]:
        trial = trials.new(**WIDE)
        trial.go(crash=place)
        check(trials, trial)


def test_killed_again_and_again(trials: Trials) -> None:
    """Also in the second and third attempt of the subgraph, again and again."""
    trial = trials.new(**WIDE)
    for _ in range(200):
        if not trial.go(crash="after-append:2").get("killed"):
            break
    assert trial.deaths > 8
    check(trials, trial)


@pytest.mark.slow
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_killed_at_every_point(trials: Trials, durability: str) -> None:
    for number, place in enumerate(places(trials.unbroken(**WIDE)[2])):
        trial = trials.new(**WIDE, durability=durability)
        trial.go(crash=place)
        trial.go(crash=f"after-append:{1 + number % 5}")
        check(trials, trial)


@pytest.mark.slow
def test_killed_at_random_instants(trials: Trials) -> None:
    rng, deaths = Random(3), 0
    while deaths < 300:
        trial = trials.new(**WIDE)
        for _ in range(rng.randrange(1, 8)):
            trial.go(after=rng.expovariate(1 / 0.02))
        deaths += trial.deaths
        check(trials, trial)
