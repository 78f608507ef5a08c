"""Driver and workers on two hosts: they find each other, TLS is required, and a partition changes nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event, Thread
from time import monotonic

import pytest

from clew import Engine, Graph
from clew.errors import DefinitionError, DriverUnreachableError
from clew.runtime import executors
from tests.runtime.remote import certificates, checks, faults, flow
from tests.runtime.remote.clusters import ROOT, DaskWorkers, call_in_process, ray_head, ray_node
from tests.runtime.remote.hosts import DRIVER, WORKER, Hosts, two_hosts

pytestmark = pytest.mark.slow

# -- the driver: functions that run on its host


def they_find_each_other(kind: str, address: str, path: str) -> None:
    make, folder = getattr(executors, kind), Path(path)
    with pytest.raises(DefinitionError):
        make(address)
    with pytest.raises(DriverUnreachableError):
        make(address, insecure=True, listen="0.0.0.0", advertise="10.99.0.1")
    with make(address, insecure=True) as on:
        assert on.backend._listening.address.host == DRIVER
        assert Graph([flow.pid]).run({"a": 1}, executor=on)["pid"] != os.getpid()
    with make(address, insecure=True, listen="0.0.0.0", advertise=DRIVER) as on:
        checks.every_use_of_the_context_gives_the_chain_of_the_local_run(on, folder)


def links_use_tls(address: str, path: str, cert: str, key: str) -> None:
    from distributed import Client, Security

    security = Security(require_encryption=True, tls_ca_file=cert, tls_client_cert=cert, tls_client_key=key)
    with Client(address, security=security) as client, executors.dask(client) as on:
        found = on.backend._listening.address
        assert (found.host, found.tls) == (DRIVER, "dask")
        checks.every_use_of_the_context_gives_the_chain_of_the_local_run(on, Path(path))


def a_partition_is_survived(kind: str, address: str, path: str, lost_after: float) -> None:
    """Run items that wait for a file; report silence and losses as files."""
    folder, values, done = Path(path), {"n": 2, "folder": path}, Event()
    with getattr(executors, kind)(address, insecure=True, lost_after=lost_after) as on:

        def report() -> None:
            while not done.wait(0.05):
                if any(monotonic() - link.heard > 0.3 * lost_after for link in on.desk._links):
                    (folder / "silent").touch()
                if any(call.grant.losses for call in on.desk.open_calls()):
                    (folder / "lost").touch()

        thread = Thread(target=report)
        thread.start()
        with Engine(
            faults.gated, store=folder / "there.db", executor=on, seed=5, default_node_timeout=200
        ) as there:
            result = there.run(values, run_id="r")
            done.set()
            thread.join()
            assert [each[3] for each in result["done"]] == [0, 0], "no attempt has failed"
            effects, starts = checks.lines(folder / "effects"), checks.lines(folder / "starts")
            with Engine(faults.gated, store=folder / "here.db", seed=5) as here:
                here.run(values, run_id="r")
                assert checks.digests(there, "r") == checks.digests(here, "r")
    assert effects == ["item 0", "item 1"], "each recorded call was made once"
    assert (len(starts) > 2) is (folder / "lost").exists(), "what was not lost is started once"


# -- the hosts


@contextmanager
def dask_on(hosts: Hosts, folder: Path, tls: tuple[Path, Path] | None = None) -> Iterator[str]:
    """Start the scheduler on the driver's host, and two workers on the other one."""
    scheme, options = "tcp", ()
    if tls is not None:
        cert, key = map(str, tls)
        scheme, options = "tls", ("--tls-ca-file", cert, "--tls-cert", cert, "--tls-key", key)
    command = [*hosts.on(DRIVER), sys.executable, "-m", "distributed.cli.dask_scheduler", "--no-dashboard"]
    with (folder / "scheduler.log").open("wb") as log:
        scheduler = subprocess.Popen(
            [*command, "--host", DRIVER, "--port", "8786", *options],
            stdout=log,
            stderr=log,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        address = f"{scheme}://{DRIVER}:8786"
        workers = DaskWorkers(address, 2, folder, options, host=WORKER, prefix=hosts.on(WORKER))
        try:
            log_of_workers = folder / "workers.log"
            faults.until(lambda: log_of_workers.read_text().count("Registered to:") >= 2, 120)
            yield address
        finally:
            workers.close()
            scheduler.kill()
            scheduler.wait()


@contextmanager
def ray_on(hosts: Hosts, folder: Path) -> Iterator[str]:
    """Start a head without CPUs on the driver's host, and a node with two on the other one."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    log = folder / "ray.log"
    with ExitStack() as stack:
        address = stack.enter_context(ray_head(folder, env=env, prefix=hosts.on(DRIVER), host=DRIVER, cpus=0))
        faults.until(lambda: log.read_text().count("Ray runtime started") == 1, 120)
        node = ("--address", address, "--node-ip-address", WORKER, "--num-cpus", "2")
        stack.enter_context(ray_node(folder, *node, env=env, prefix=hosts.on(WORKER)))
        faults.until(lambda: log.read_text().count("Ray runtime started") == 2, 120)
        yield address


CLUSTERS = {"dask": dask_on, "ray": ray_on}


def cut(hosts: Hosts, kind: str, address: str, folder: Path, lost_after: float, sign: str) -> None:
    """Pull the cable while two items run, until the driver gives a sign; then plug it in again."""
    folder.mkdir()
    with ThreadPoolExecutor(1) as threads:
        driver = threads.submit(
            call_in_process,
            *(a_partition_is_survived, kind, address, str(folder), lost_after),
            env=os.environ,
            prefix=hosts.on(DRIVER),
        )
        faults.until(lambda: driver.done() or len(checks.lines(folder / "starts")) == 2, 120)
        hosts.partition(True)
        try:
            faults.until(lambda: driver.done() or (folder / sign).exists(), 120)
        finally:
            hosts.partition(False)
        (folder / "go").touch()
        driver.result()
    assert (folder / sign).exists()


@pytest.mark.parametrize("kind", ["dask", "ray"])
def test_two_hosts(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip({"dask": "distributed"}.get(kind, kind))
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(tmp_path / "token"))
    (tmp_path / "token").write_text(os.urandom(32).hex())
    with two_hosts() as hosts, CLUSTERS[kind](hosts, tmp_path) as address:
        call_in_process(
            they_find_each_other, kind, address, str(tmp_path), env=os.environ, prefix=hosts.on(DRIVER)
        )
        cut(hosts, kind, address, tmp_path / "short", 30.0, "silent")
        cut(hosts, kind, address, tmp_path / "long", 2.0, "lost")


def test_two_hosts_with_tls(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    tls = certificates.write(tmp_path, (DRIVER, WORKER))
    with two_hosts() as hosts, dask_on(hosts, tmp_path, tls) as address:
        call_in_process(
            links_use_tls, address, str(tmp_path), *map(str, tls), env=os.environ, prefix=hosts.on(DRIVER)
        )
