"""Killed in a retry's wait, or inside a subgraph: attempts, delays and inner steps survive."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.crash.conftest import Trials
from tests.crash.nursery import Nursery


def attempts(effects: Path, name: str) -> dict[str, float]:
    lines = [line.split(" ") for line in effects.read_text().splitlines() if line.startswith(name)]
    assert len({key for key, _ in lines}) == len(lines), f"an attempt was made twice: {lines}"
    return {key: float(at) for key, at in lines}


@pytest.mark.parametrize("graph, name", [("waiting", "flaky"), ("around", "then")])
def test_killed_in_a_wait(nursery: Nursery, tmp_path: Path, graph: str, name: str) -> None:
    effects = tmp_path / "effects"
    task = {"store": str(tmp_path / "runs.db"), "effects": str(effects), "graph": graph}
    assert nursery.child(do="run", after=0.25, **task)["killed"]
    assert list(attempts(effects, name)) == [f"{name}-0"]
    time.sleep(0.1)
    assert nursery.child(do="resume", after=0.1, **task)["killed"]  # still waiting
    assert list(attempts(effects, name)) == [f"{name}-0"]
    assert nursery.child(do="resume", **task)["status"] == "completed"
    made = attempts(effects, name)
    assert list(made) == [f"{name}-{n}" for n in range(3)]
    first, second, third = made.values()
    assert 0.6 <= second - first < 1.1  # the rest of the delay, not all of it again
    assert 0.6 <= third - second < 1.1
    assert [line.split(" ")[0] for line in effects.read_text().splitlines()].count("first") <= 1


def test_killed_after_the_wait_is_over(nursery: Nursery, tmp_path: Path) -> None:
    effects = tmp_path / "effects"
    task = {"store": str(tmp_path / "runs.db"), "effects": str(effects), "graph": "waiting"}
    assert nursery.child(do="run", after=0.25, **task)["killed"]
    time.sleep(0.7)
    began = time.time()
    assert nursery.child(do="resume", **task)["status"] == "completed"
    assert attempts(effects, "flaky")["flaky-1"] - began < 0.5


def test_inner_steps_are_not_repeated(trials: Trials) -> None:
    """Killed at each append inside the subgraph: what is done there stays done, its drawn numbers too."""
    for count in range(1, 30):
        trial = trials.new()
        trial.go(crash=f"after-append:{20 + count}")
        calls = sum(trial.lines().values())
        trial.go(crash="after-journal:1")  # one more call, none again
        assert sum(trial.lines().values()) <= calls + 1
        trials.check(trial)
        assert set(trial.lines().values()) == {1}


def test_a_snapshot_that_was_due_is_made_by_the_next_life(trials: Trials) -> None:
    """However short the lives are, reading a run does not get longer and longer."""
    trial = trials.new(pad=40_000)
    for _ in range(3):
        assert trial.go(crash="before-snapshot:1")["killed"]
    assert trial.go(crash="after-snapshot:1")["killed"]
    trials.check(trial, pad=40_000)
