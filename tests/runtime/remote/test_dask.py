"""Every check on a Dask cluster of two workers on loopback."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from clew import Engine, Graph, node
from clew.errors import DefinitionError, DriverUnreachableError
from clew.runtime.executors import dask
from clew.runtime.remote.executor import RemoteExecutor
from tests.runtime.remote import certificates, checks, faults, flow
from tests.runtime.remote.clusters import dask_cluster

pytest.importorskip("distributed", reason="Dask has no wheel for this version of Python")


@pytest.fixture(scope="module")
def kills(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kills")


@pytest.fixture(scope="module")
def client(kills: Path) -> Iterator[Any]:
    os.environ["CLEW_TEST_KILLS"] = str(kills)
    try:
        with dask_cluster(2) as client:
            yield client
    finally:
        del os.environ["CLEW_TEST_KILLS"]


@pytest.fixture(scope="module")
def two(client: Any) -> Iterator[RemoteExecutor]:
    with dask(client) as executor:
        yield executor


@pytest.fixture(autouse=True)
def _all_workers_are_back(client: Any) -> None:
    """Dask takes a while to replace a worker that died."""
    client.wait_for_workers(2, timeout=120)


CHECKS = [
    pytest.param(check, marks=[pytest.mark.slow] if check in checks.LONG else [], id=check.__name__)
    for check in checks.CHECKS
]


@pytest.mark.parametrize("check", CHECKS)
def test_on_dask(check: checks.Check, two: RemoteExecutor, tmp_path: Path) -> None:
    check(two, tmp_path)


def test_functions_that_cannot_be_imported_cross_by_value(two: RemoteExecutor) -> None:
    offset = 5
    result = Graph([node(lambda a: a + offset, name="local")]).run({"a": 1}, executor=two)
    assert result["local"] == 6


def test_workers_that_die_at_every_stage_change_nothing(
    two: RemoteExecutor, kills: Path, tmp_path: Path
) -> None:
    faults.workers_die_at_every_stage(two, kills, tmp_path)


def test_a_killed_driver_is_continued_elsewhere(client: Any, two: RemoteExecutor, tmp_path: Path) -> None:
    driver = f"executors.dask({client.scheduler.address!r})"
    faults.a_killed_driver_is_continued_elsewhere(two, driver, tmp_path, is_cluster=True)


def test_a_worker_behind_a_partition_is_lost_and_its_frames_do_not_count(client: Any, tmp_path: Path) -> None:
    with dask(client, lost_after=6.0) as direct:
        backend: Any = direct.backend
        proxy = faults.Proxy(backend._address[1])
        backend._address = (backend._address[0], proxy.port, *backend._address[2:])
        values = {"n": 2, "folder": str(tmp_path)}
        try:
            with Engine(
                faults.gated, store=tmp_path / "there.db", executor=direct, seed=5, default_node_timeout=300
            ) as there:
                thread = Thread(target=lambda: there.run(values, run_id="r"))
                thread.start()
                faults.until(lambda: len(checks.lines(tmp_path / "starts")) >= 2)
                proxy.freeze()
                faults.until(lambda: all(call.grant.losses for call in direct.desk.open_calls()))
                (tmp_path / "go").touch()
                thread.join(300)
                effects = checks.lines(tmp_path / "effects")
                with Engine(faults.gated, store=tmp_path / "here.db", seed=5) as here:
                    here.run(values, run_id="r")
                    assert checks.digests(there, "r") == checks.digests(here, "r")
        finally:
            proxy.close()
    assert effects == ["item 0", "item 1"]
    assert len(checks.lines(tmp_path / "starts")) >= 4


@pytest.mark.slow
def test_a_cluster_that_restarts_changes_nothing(client: Any, two: RemoteExecutor, tmp_path: Path) -> None:
    values = {"n": 4, "folder": str(tmp_path)}
    with Engine(
        faults.gated, store=tmp_path / "there.db", executor=two, seed=5, default_node_timeout=300
    ) as there:
        thread = Thread(target=lambda: there.run(values, run_id="r"))
        thread.start()
        faults.until(lambda: len(checks.lines(tmp_path / "starts")) == 2)
        client.restart(timeout=60)
        (tmp_path / "go").touch()
        thread.join(300)
        effects = checks.lines(tmp_path / "effects")
        with Engine(faults.gated, store=tmp_path / "here.db", seed=5) as here:
            here.run(values, run_id="r")
            assert checks.digests(there, "r") == checks.digests(here, "r")
    assert effects == [f"item {i}" for i in range(4)]


def test_a_driver_that_workers_cannot_reach_is_an_error(client: Any) -> None:
    with pytest.raises(DriverUnreachableError):
        dask(client, advertise="127.0.0.1:1")
    with dask(client) as moved:  # it was reachable at the start
        backend: Any = moved.backend
        backend._address = (backend._address[0], 1, *backend._address[2:])
        result = Graph([flow.plain]).run({"a": 1}, executor=moved, check=False)
    assert type(result.error) is DriverUnreachableError


def test_off_loopback_tls_is_required(client: Any) -> None:
    with pytest.raises(DefinitionError):
        dask(client, listen="0.0.0.0")
    with dask(client, listen="0.0.0.0", advertise="127.0.0.1", insecure=True) as open_to_all:
        port = open_to_all.backend._listening.address.port
        assert port > 0


@pytest.mark.parametrize("given", [4, None, "127.0.0.1"])
def test_what_is_not_a_cluster_is_refused(given: Any) -> None:
    with pytest.raises((DefinitionError, OSError, ValueError)):
        dask(given if given != "127.0.0.1" else object())


@pytest.mark.slow
def test_with_tls_the_links_use_it(tmp_path: Path) -> None:
    with (
        dask_cluster(1, certificate=certificates.write(tmp_path)) as client,
        dask(client, listen="0.0.0.0", advertise="127.0.0.1") as secure,
    ):
        assert secure.backend._address[3] == "dask"
        checks.every_use_of_the_context_gives_the_chain_of_the_local_run(secure, tmp_path)
