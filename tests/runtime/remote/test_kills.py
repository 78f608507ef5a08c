"""Campaigns of random kills on every kind of cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.runtime import executors
from tests.campaigns import PARTS
from tests.runtime.remote import kills
from tests.runtime.remote.clusters import dask_cluster, ray_cluster

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("part", PARTS)]


def test_on_processes(part: int, tmp_path: Path) -> None:
    for seed in range(part * 2, part * 2 + 2):
        folder = tmp_path / str(seed)
        folder.mkdir()
        with executors.processes(3, lost_workers=20) as three:
            kills.campaign(three, folder, seed, n=100, kills=8)


def test_on_dask(part: int, tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="Dask has no wheel for this version of Python")
    with dask_cluster(3) as client, executors.dask(client, lost_workers=20) as three:
        for seed in range(part * 2, part * 2 + 2):
            folder = tmp_path / str(seed)
            folder.mkdir()
            kills.campaign(three, folder, seed, n=100, kills=6)


@pytest.mark.filterwarnings("default")  # Ray leaves files and sockets to the garbage collector
def test_on_ray(part: int, tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="Ray has no wheel for this version of Python")
    with ray_cluster(2), executors.ray(lost_workers=20) as two:
        kills.campaign(two, tmp_path, part, n=60, kills=4)
