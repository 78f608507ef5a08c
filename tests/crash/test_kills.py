"""SIGKILL at every commit point and between them, and at random instants: resumed, the run ends as the unbroken one."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from clew import Engine
from clew.testing import crash_points
from tests.crash import program
from tests.crash.conftest import Trials
from tests.crash.nursery import RUN, opened

LARGE = 40_000  # bytes that each call answers: enough for snapshots


def places(points: list[str]) -> list[str]:
    """Each point with each of its counts, in the order in which the run comes to them."""
    seen: Counter[str] = Counter()
    found = []
    for point in points:
        seen[point] += 1
        found.append(f"{point}:{seen[point]}")
    return found


IN_RECOVERY = {"before-claim", "after-claim"}  # a new run is its maker's from the beginning


def test_the_run_comes_to_every_point(trials: Trials) -> None:
    _, effects, points = trials.unbroken(pad=LARGE)
    assert set(points) | IN_RECOVERY == set(crash_points.POINTS)
    assert set(effects.values()) == {1}


@pytest.mark.parametrize("pad", [0, LARGE])
def test_killed_at_points_of_every_kind(trials: Trials, pad: int) -> None:
    chosen = places(trials.unbroken(pad=pad)[2])[pad and 3 :: 7]
    kinds = {place.split(":")[0] for place in chosen}
    chosen += [
        f"{point}:1"
        for point in crash_points.POINTS
        if point not in kinds | IN_RECOVERY and (pad or "snap" not in point)
    ]
    for place in chosen:
        trial = trials.new(pad=pad)
        assert trial.go(crash=place).get("killed"), place
        trials.check(trial, pad=pad)


def test_killed_again_and_again_on_the_way(trials: Trials) -> None:
    """The second append of each life is its last: every life gets one further, or finds out what is there."""
    trial = trials.new(pad=LARGE)
    while trial.go(crash="after-append:2").get("killed"):
        assert trial.deaths < 200
    assert trial.deaths > 10
    trials.check(trial, pad=LARGE)


@pytest.mark.parametrize(
    "place", ["before-claim:1", "after-claim:1", "before-update:1", "after-update:1", "before-append:1"]
)
def test_killed_in_recovery_again_and_again(trials: Trials, place: str) -> None:
    """It gets no further, but loses nothing either."""
    trial = trials.new()
    assert trial.go(crash="after-journal:9")["killed"]
    before = trial.lines()
    for _ in range(3):
        assert trial.go(crash=place)["killed"]
    assert sum(trial.lines().values()) <= sum(before.values()) + 3 * (place == "before-append:1")
    trials.check(trial)


def test_killed_at_random_instants(trials: Trials) -> None:
    rng = Random(1)
    for workers in (1, 4):
        trial = trials.new(workers=workers)
        for _ in range(8):
            trial.go(after=rng.uniform(0.002, 0.04))
        assert trial.deaths
        trials.check(trial)


def test_killed_right_after_it_was_accepted(trials: Trials) -> None:
    trial = trials.new()
    assert trial.go(crash="after-create:1")["killed"]
    store = opened(trial.store)
    (row,) = Engine(program.GRAPH, store=store).runs()
    assert (row.run_id, row.status) == (RUN, "running")
    store.close()
    trials.check(trial)


def test_killed_before_it_was_accepted_there_is_nothing(trials: Trials) -> None:
    trial = trials.new()
    assert trial.go(crash="before-create:1")["killed"]
    store = opened(trial.store)
    assert store.rows() == []
    store.close()
    trials.check(trial)


# -- campaigns: each says how many processes it kills at least, and `tests/crash/test_promises.py` adds them up

AT_EVERY_POINT = 480
AT_RANDOM = 400


@pytest.mark.slow
@pytest.mark.parametrize("pad", [0, LARGE])
@pytest.mark.parametrize("workers", [1, 4])
def test_killed_at_every_point(trials: Trials, pad: int, workers: int) -> None:
    """And in the recovery from that, and then at every point of the life after that one, sparsely."""
    every = places(trials.unbroken(pad=pad)[2])
    for number, place in enumerate(every):
        trial = trials.new(pad=pad, workers=workers)
        killed = trial.go(crash=place).get("killed")
        assert killed or workers > 1, place  # beside others, things are written together more often
        for again in (("before-claim:1", "after-claim:1")[number % 2], *every[number % 11 :: 11][:4]):
            trial.go(crash=again)
        trials.check(trial, pad=pad)
    points = {point for point in crash_points.POINTS if pad or "snapshot" not in point}
    assert set(trials.killed_at) == points
    assert trials.killed_at.total() >= AT_EVERY_POINT


@pytest.mark.slow
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("workers", [1, 4])
def test_killed_at_random_instants_again_and_again(trials: Trials, durability: str, workers: int) -> None:
    rng = Random(workers)
    # only with these two together a run is created without waiting for the disk
    synchronous = "full" if durability == "async" else "normal"
    while trials.killed_at.total() < AT_RANDOM:
        trial = trials.new(workers=workers, durability=durability, synchronous=synchronous)
        for _ in range(rng.randrange(1, 12)):
            trial.go(after=rng.expovariate(1 / 0.015))
        trials.check(trial)
