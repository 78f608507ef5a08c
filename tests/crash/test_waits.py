"""Killed in a retry's wait, or inside a subgraph: attempts, delays and inner steps survive."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew import SQLiteStore
from tests.crash.conftest import Trials
from tests.crash.nursery import RUN, Nursery


def attempts(effects: Path, name: str) -> dict[str, float]:
    lines = [line.split(" ") for line in effects.read_text().splitlines() if line.startswith(name)]
    assert len({key for key, _ in lines}) == len(lines), f"an attempt was made twice: {lines}"
    return {key: float(at) for key, at in lines}


def killed_in_the_wait(nursery: Nursery, folder: Path, graph: str) -> tuple[dict[str, str], Path]:
    """A run that was killed when it had written that its first attempt failed: the store, and its effects."""
    for count in range(1, 20):
        effects = folder / f"effects-{count}"
        task = {"store": str(folder / f"runs-{count}.db"), "effects": str(effects), "graph": graph}
        assert nursery.child(do="run", crash=f"after-append:{count}", **task)["killed"]
        store = SQLiteStore(task["store"])
        found = [entry.kind for entry in store.entries(RUN)]
        store.close()
        if "retry" in found:
            return task, effects
    raise AssertionError("no attempt failed")


@pytest.mark.parametrize("graph, name", [("waiting", "flaky"), ("around", "then")])
def test_killed_in_a_wait(nursery: Nursery, tmp_path: Path, graph: str, name: str) -> None:
    """See ``tests/runtime/drivers/test_retries.py`` for the length of the rest of a wait."""
    task, effects = killed_in_the_wait(nursery, tmp_path, graph)
    assert list(attempts(effects, name)) == [f"{name}-0"]
    assert nursery.child(do="resume", crash="after-update:1", **task)["killed"]  # still waiting
    assert list(attempts(effects, name)) == [f"{name}-0"]
    assert nursery.child(do="resume", **task)["status"] == "completed"
    made = attempts(effects, name)
    assert list(made) == [f"{name}-{n}" for n in range(3)]
    first, second, third = made.values()
    assert min(second - first, third - second) >= 0.6  # never too early
    assert [line.split(" ")[0] for line in effects.read_text().splitlines()].count("first") <= 1


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
