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
    """The run ends as the unbroken one did, and was paid once.

    How often the painting was tried is not recorded, and a try that is killed counts: after deaths in it, an earlier
    attempt of that subgraph may succeed, and have other steps inside.
    """
    chain, effects, _ = trials.unbroken(**WIDE)
    trial.finish()

    def compared(chain: dict[tuple[str, int], str]) -> dict[tuple[str, int], str]:
        return {name: digest for name, digest in chain.items() if "painting" not in name[0]}

    assert compared(trial.chain()) == compared(chain)
    assert set(trial.lines()) == set(effects)
    with closing(sqlite3.connect(trial.store)) as db:
        assert db.execute("SELECT count(*) FROM paid").fetchone() == (1,)


def test_the_unbroken_run_does_each_thing_once(trials: Trials) -> None:
    chain, effects, points = trials.unbroken(**WIDE)
    assert set(effects.values()) == {1}
    assert any("@" in path for path, _ in chain)  # steps of a later attempt of the subgraph
    assert "before-claim" in points  # it waited, and was gone on with


def every(trials: Trials, **task: Any) -> list[tuple[int, str]]:
    """Each point with each of its counts, before the question (0) and after it (1)."""
    return [
        (number, place) for number, points in enumerate(trials.stretches(**task)) for place in places(points)
    ]


def killed_at(trials: Trials, stretch: int, place: str, **task: Any) -> Trial:
    """A run that was killed there."""
    trial = trials.new(**task)
    for _ in range(stretch):
        assert trial.go()["status"] == "waiting"
    killed = trial.go(crash=place).get("killed")
    assert killed or task.get("durability", "sync") != "sync", (stretch, place)
    return trial


def test_killed_at_points_of_every_kind(trials: Trials) -> None:
    for stretch, place in every(trials, **WIDE)[1::5]:
        check(trials, killed_at(trials, stretch, place, **WIDE))


def test_killed_again_and_again(trials: Trials) -> None:
    """Also in the second and third attempt of the subgraph, again and again."""
    trial = trials.new(**WIDE)
    for _ in range(200):
        if not trial.go(crash="after-append:2").get("killed"):
            break
    assert trial.deaths > 8
    check(trials, trial)


AT_EVERY_POINT = {"sync": 150, "async": 90, "exit": 40}
AT_RANDOM = 300


@pytest.mark.slow
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_killed_at_every_point(trials: Trials, durability: str) -> None:
    """With a writer thread, what is written together depends on the moment: not every count comes again."""
    task = {**WIDE, "durability": durability}
    for number, (stretch, place) in enumerate(every(trials, **task)):
        trial = killed_at(trials, stretch, place, **task)
        trial.go(crash=f"after-append:{1 + number % 5}")
        check(trials, trial)
    assert trials.killed_at.total() >= AT_EVERY_POINT[durability]


@pytest.mark.slow
def test_killed_at_random_instants(trials: Trials) -> None:
    rng = Random(3)
    while trials.killed_at.total() < AT_RANDOM:
        trial = trials.new(**WIDE)
        for _ in range(rng.randrange(1, 8)):
            trial.go(after=rng.expovariate(1 / 0.02))
        check(trials, trial)
