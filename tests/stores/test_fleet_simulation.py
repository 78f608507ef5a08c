"""Lost machines lose no run and commit no step twice: the simulation of `docs/scale.md`, with few machines."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.fleet_simulation import LEASE, POLL, STEPS, Plan, simulate
from tests.campaigns import PARTS


def check(plan: Plan, folder: Path) -> None:
    report = simulate(plan, folder)
    assert report.submitted > 0
    assert report.machines_lost >= plan.machines // 3
    assert report.disturbed
    assert (report.completed, report.wrong) == (report.submitted, 0)
    assert report.commits.total() == STEPS * report.submitted < report.steps_begun
    assert report.quantile(1.0, disturbed=True) > LEASE / 2  # somebody has waited for the end of a lease


def test_lost_machines_lose_no_run(tmp_path: Path) -> None:
    check(Plan(9, slots=4, minutes=2.0, lifetime=300.0, seed=3), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_many_lost_machines_lose_no_run(tmp_path: Path, part: int) -> None:
    for seed in range(10 * part, 10 * part + 10):
        folder = tmp_path / str(seed)
        folder.mkdir()
        check(Plan(30, minutes=3.0, lifetime=300.0, cuts=10, seed=seed), folder)


def test_without_faults_no_step_is_executed_in_vain(tmp_path: Path) -> None:
    report = simulate(Plan(2, minutes=1.0, lifetime=1e9, cuts=0), tmp_path)
    assert report.completed == report.submitted
    assert report.steps_begun == STEPS * report.submitted
    assert report.quantile(0.0, disturbed=False) < 10 * POLL
