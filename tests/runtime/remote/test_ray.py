"""Every check on a Ray cluster with two CPUs. One test, because a cluster takes long to start and much memory."""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest

from clew import Graph
from clew.errors import DefinitionError, DriverUnreachableError, NodeError
from clew.runtime.executors import ray
from tests.runtime.remote import checks, faults, flow
from tests.runtime.remote.clusters import ray_cluster

pytest.importorskip("ray", reason="Ray has no wheel for this version of Python")


@pytest.mark.filterwarnings("default")  # Ray leaves files and sockets to the garbage collector
@pytest.mark.parametrize(
    "wanted", [checks.CORE, pytest.param(checks.CHECKS, marks=pytest.mark.slow)], ids=["core", "all"]
)
def test_on_ray(wanted: list[checks.Check], tmp_path: Path) -> None:
    failed = {}
    with ray_cluster(2), ray() as two:
        for check in wanted:
            folder = tmp_path / check.__name__
            folder.mkdir()
            try:
                check(two, folder)
            except Exception:
                failed[check.__name__] = traceback.format_exc()
    assert not failed, "\n".join(f"{name}: {text}" for name, text in failed.items())


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_faults_on_ray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kills, stages, driver = tmp_path / "kills", tmp_path / "stages", tmp_path / "driver"
    for folder in (kills, stages, driver):
        folder.mkdir()
    monkeypatch.setenv("CLEW_TEST_KILLS", str(kills))
    with ray_cluster(2) as module:
        with ray() as two:
            faults.workers_die_at_every_stage(two, kills, stages)
            ended = Graph([flow.ends_its_worker]).run({"folder": str(tmp_path)}, executor=two)
            assert ended["ended"] == 0, "a worker that Ray ends is lost; its attempt has not failed"
            with pytest.raises(SystemExit):  # what a node raises is its own
                Graph([flow.leaves]).run({"a": 3}, executor=two)
            address = module.get_runtime_context().gcs_address
            faults.a_killed_driver_is_continued_elsewhere(
                two, f"executors.ray({address!r})", driver, is_cluster=False
            )
        with pytest.raises(DriverUnreachableError):
            ray(advertise="127.0.0.1:1")
        with pytest.raises(DefinitionError):
            ray(listen="0.0.0.0")
        with ray() as left_open:
            module.shutdown()
            result = Graph([flow.plain]).run({"a": 1}, executor=left_open, check=False)
        assert (type(result.error), module.is_initialized()) == (NodeError, False), "no new cluster starts"
