"""The same walks with every limit of the library at its minimum, so that small graphs reach them.

Source sets become masks at two sources and are not stored at three, plans are cached from the first node on and dropped
after a few, rows are written one at a time. None of this may be observable.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from clew.incremental import freshness, persistence, pull_plan
from tests.campaigns import PARTS
from tests.incremental.test_campaign import walk
from tests.incremental.test_oracle_async import drive

SIZES = list(itertools.product((0, 1, 16), (0, 1, 2, 4096), (0, 4), (3, 2_000_000), (1, 512)))


def shrink(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    few, width, short, many, rows = SIZES[seed % len(SIZES)]
    monkeypatch.setattr(freshness, "_FEW", few)
    monkeypatch.setattr(freshness, "_WIDTH", width)
    monkeypatch.setattr(pull_plan, "_SHORT", short)
    monkeypatch.setattr(pull_plan, "_MANY", many)
    monkeypatch.setattr(persistence, "_MANY", rows)


@pytest.mark.parametrize("seed", range(0, len(SIZES), 5))
def test_a_walk(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch, seed)
    walk(5000 + seed, tmp_path / "graph.db" if seed % 2 else None)


@pytest.mark.parametrize("seed", range(1, len(SIZES), 10))
def test_pulls_beside_each_other(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch, seed)
    drive(5000 + seed, tmp_path / "graph.db" if seed % 2 else None)


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_many_walks(part: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(part * len(SIZES), (part + 1) * len(SIZES)):
        shrink(monkeypatch, seed)
        walk(6000 + seed, tmp_path / f"{seed}.db" if seed % 2 else None, handles=1 + (seed % 4 == 3))
        drive(6000 + seed, tmp_path / f"{seed}-async.db" if seed % 2 else None)
