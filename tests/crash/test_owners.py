"""Two processes and one run: one wins, and one that was away for too long comes back to find that out."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from tests.crash.conftest import Trials
from tests.crash.nursery import LONG, Nursery


def test_two_processes_resume_one_run(trials: Trials, nursery: Nursery) -> None:
    trial = trials.new(options=LONG)
    assert trial.go(crash="after-journal:4")["killed"]
    first = trial.go(stop="after-claim:1")
    assert first["stopped"]
    second = trial.go()
    assert second["error"] == "RunOwnedError"
    assert nursery.child(do="continue", pid=first["pid"])["status"] == "completed"
    trials.check(trial)


def test_two_processes_resume_one_run_at_the_same_time(trials: Trials, nursery: Nursery) -> None:
    lost = 0
    with Nursery() as other:
        for number in range(120):
            if lost and number >= 12:  # on a busy machine one may be over before the other begins
                break
            trial = trials.new()
            assert trial.go(crash=f"after-append:{1 + number % 12}")["killed"]
            task = {"do": "resume", "store": trial.store, "effects": str(trial.effects)}
            nursery.begin(**task)
            other.begin(**task)
            answers = [nursery.end(), other.end()]
            assert all(a.get("status") == "completed" or a["error"] == "RunOwnedError" for a in answers), (
                answers
            )
            assert any(a.get("status") == "completed" for a in answers)
            lost += any(a["error"] == "RunOwnedError" for a in answers)
            trials.check(trial)
    assert lost


def lapse(store: str) -> None:
    """The lease of whoever owns a run in a file is over."""
    with closing(sqlite3.connect(store)) as db:
        db.execute("UPDATE workers SET until = 0.0")
        db.commit()


@pytest.mark.parametrize("place", ["before-append:8", "after-append:8", "after-call:3", "before-update:1"])
@pytest.mark.parametrize("durability", ["sync", "async"])
def test_an_owner_that_was_stopped_for_longer_than_its_lease(
    trials: Trials, nursery: Nursery, place: str, durability: str
) -> None:
    trial = trials.new(durability=durability, options=LONG)
    owner = trial.go(stop=place)
    assert owner["stopped"], owner
    assert trial.go()["error"] == "RunOwnedError"  # it lives, and its lease too
    lapse(trial.store)
    assert trial.go()["status"] == "completed"
    before = trial.chain()
    late = nursery.child(do="continue", pid=owner["pid"])
    assert late["error"] in ("RunOwnedError", "OwnerDeadError"), late
    assert trial.chain() == before == trials.unbroken()[0]


@pytest.mark.parametrize("place", ["before-append:8", "after-call:3", "after-append:6", "before-update:1"])
def test_a_stale_commit_is_refused_where_nothing_else_is_in_its_way(
    trials: Trials, nursery: Nursery, place: str
) -> None:
    """The successor has done nothing yet but take over: only the fence tells."""
    trial = trials.new()
    owner = trial.go(stop=place, away=3600.0)
    assert owner["stopped"], owner
    lapse(trial.store)
    assert trial.go(crash="after-claim:1")["killed"]
    before, effects = trial.entries(), trial.lines()
    late = nursery.child(do="continue", pid=owner["pid"])
    assert late["error"] in ("RunOwnedError", "OwnerDeadError"), late
    assert trial.entries() == before
    assert trial.lines() == effects  # after-append:6 stands before a call, which is not made
    trials.check(trial)
