"""Clusters on loopback, with bounded memory, without dashboards; each ends with its block."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

ROOT = Path(__file__).resolve().parents[3]

QUICK = {
    "distributed.scheduler.allowed-failures": 10,
    "distributed.comm.timeouts.connect": "60s",
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.target": False,
}


class DaskWorkers:
    """Worker processes that are started again whenever they die.

    Dask's own nanny gives up if a worker dies before the nanny knows that it started, which happens on a busy machine.
    """

    def __init__(
        self,
        scheduler: str,
        count: int,
        folder: Path,
        options: tuple[str, ...] = (),
        *,
        host: str = "127.0.0.1",
        prefix: tuple[str, ...] = (),
    ) -> None:
        command = [*prefix, sys.executable, "-m", "distributed.cli.dask_worker", scheduler, "--no-nanny"]
        limits = ["--nthreads", "1", "--memory-limit", "1GiB", "--death-timeout", "60", "--no-dashboard"]
        self._command = [*command, *limits, "--host", host, "--local-directory", str(folder), *options]
        self._env = {**os.environ, "PYTHONPATH": str(ROOT), **_as_environment(QUICK)}
        self._log = (folder / "workers.log").open("ab")
        self._stopped = Event()
        self.processes = [self._start() for _ in range(count)]
        self._thread = Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self._command, env=self._env, stdout=self._log, stderr=self._log)

    def _watch(self) -> None:
        while not self._stopped.wait(0.1):
            for number, process in enumerate(self.processes):
                if process.poll() is not None:
                    self.processes[number] = self._start()

    def close(self) -> None:
        """End all workers."""
        self._stopped.set()
        self._thread.join()
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()
        self._log.close()


def _as_environment(options: Mapping[str, Any]) -> dict[str, str]:
    return {
        "DASK_" + name.upper().replace(".", "__").replace("-", "_"): str(value)
        for name, value in options.items()
    }


@contextmanager
def dask_cluster(workers: int, *, certificate: tuple[Path, Path] | None = None) -> Iterator[Any]:
    """Start Dask with one thread for each worker process; yield its client. With a certificate, it uses TLS."""
    import dask.config
    from distributed import Client, LocalCluster
    from distributed.security import Security

    security, options = Security(), ()
    if certificate is not None:
        cert, key = map(str, certificate)
        files = {
            f"tls_{role}_{kind}": path
            for role in ("client", "scheduler", "worker")
            for kind, path in (("cert", cert), ("key", key))
        }
        security = Security(require_encryption=True, tls_ca_file=cert, **files)
        options = ("--tls-ca-file", cert, "--tls-cert", cert, "--tls-key", key)
    with (
        tempfile.TemporaryDirectory(prefix="clew-dask-", ignore_cleanup_errors=True) as folder,
        dask.config.set(QUICK),
        LocalCluster(
            n_workers=0,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            local_directory=folder,
            silence_logs=50,
            security=security,
        ) as cluster,
        Client(cluster, set_as_default=False, timeout="60s") as client,
        dask_workers(cluster.scheduler_address, workers, Path(folder), options),
    ):
        if workers:
            client.wait_for_workers(workers, timeout=120)
        yield client


@contextmanager
def dask_workers(scheduler: str, count: int, folder: Path, options: tuple[str, ...] = ()) -> Iterator[None]:
    """Start workers of a scheduler, as processes."""
    started = DaskWorkers(scheduler, count, folder, options)
    try:
        yield
    finally:
        started.close()


@contextmanager
def ray_cluster(workers: int) -> Iterator[Any]:
    """Start Ray with some CPUs; yield the module."""
    import ray

    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        ray.init(
            address="local",
            num_cpus=workers,
            include_dashboard=False,
            object_store_memory=300 << 20,
            _temp_dir=folder,
            log_to_driver=False,
            configure_logging=False,
        )
        try:
            yield ray
        finally:
            ray.shutdown()


@contextmanager
def ray_head(
    folder: Path,
    *,
    env: Mapping[str, str],
    prefix: tuple[str, ...] = (),
    host: str = "",
    client_port: int = 0,
    cpus: int = 2,
) -> Iterator[str]:
    """Start Ray as processes of their own, with Ray Client if a port is given; yield its address."""
    port, where = free_port(), ("--node-ip-address", host) if host else ()
    client = ("--ray-client-server-port", str(client_port)) if client_port else ()
    options = (
        *where,
        *client,
        "--head",
        "--include-dashboard=false",
        "--port",
        str(port),
        "--num-cpus",
        str(cpus),
    )
    with ray_node(folder, *options, env=env, prefix=prefix):
        yield f"{host or '127.0.0.1'}:{port}"


@contextmanager
def ray_node(
    folder: Path, *options: str, env: Mapping[str, str], prefix: tuple[str, ...] = ()
) -> Iterator[None]:
    """Start one machine of a Ray cluster; its files are in a short folder, because the names of sockets are limited."""
    command = [*prefix, str(Path(sys.executable).with_name("ray")), "start", *options, "--block"]
    limits = ["--disable-usage-stats", "--object-store-memory", str(100 << 20)]
    with (
        tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp", ignore_cleanup_errors=True) as files,
        (folder / "ray.log").open("ab") as log,
    ):
        process = subprocess.Popen(
            [*command, *limits, "--temp-dir", files], env=dict(env), stdout=log, stderr=log
        )
        try:
            yield
        finally:
            process.terminate()
            process.wait(60)


def free_port() -> int:
    """Return a port that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def call_in_process(
    function: Callable[..., None], *args: Any, env: Mapping[str, str], prefix: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    """Call a function of a test module in a new process; fail if it raises."""
    text = f"import {function.__module__} as here; here.{function.__name__}(*{args!r})"
    done = subprocess.run(
        [*prefix, sys.executable, "-c", text],
        env={**env, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done
