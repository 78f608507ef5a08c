"""Executors for ``Engine(executor=...)`` that run nodes in other processes; ``clew.runtime.remote`` says how.

Every node, sync or async, runs in another process and can use its context there. A node with ``@node(on="driver")``
runs in this process. If a worker is lost, the same attempt starts on another one, at most `lost_workers` times. Close
an executor, or use it in a ``with`` block. This does not end a cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clew.runtime.remote.executor import RemoteExecutor, check_limits
from clew.runtime.remote.listening import ListenOptions
from clew.runtime.remote.processes import ProcessBackend

__all__ = ["RemoteExecutor", "dask", "processes", "ray"]


def processes(workers: int | None = None, *, lost_workers: int = 3) -> RemoteExecutor:
    """Return an executor with `workers` processes of this machine, by default one for each core."""
    return RemoteExecutor(ProcessBackend(workers), lost_workers=lost_workers, lost_after=30.0)


def dask(
    client: Any,
    *,
    listen: str | None = None,
    advertise: str | None = None,
    insecure: bool = False,
    lost_workers: int = 3,
    lost_after: float = 30.0,
) -> RemoteExecutor:
    """Return an executor on Dask: a `distributed.Client`, or the address of a scheduler.

    Workers connect to the driver at `listen`, or at `advertise` if that differs ("host" or "host:port"). A worker that
    is silent for `lost_after` seconds is lost.
    """
    from clew.runtime.remote.dask import DaskBackend

    check_limits(lost_workers, lost_after)
    backend = DaskBackend(client, ListenOptions(listen, advertise, insecure), lost_after)
    return RemoteExecutor(backend, lost_workers=lost_workers, lost_after=lost_after)


def ray(
    address: str | None = None,
    *,
    options: Mapping[str, Any] | None = None,
    listen: str | None = None,
    advertise: str | None = None,
    insecure: bool = False,
    lost_workers: int = 3,
    lost_after: float = 30.0,
) -> RemoteExecutor:
    """Return an executor on Ray: on the cluster that `ray.init` has connected to, or at `address`.

    `options` are those of Ray for each task, such as ``{"num_cpus": 2, "resources": {...}}``. The others are those of
    `dask`.
    """
    from clew.runtime.remote.ray import RayBackend

    check_limits(lost_workers, lost_after)
    place = ListenOptions(listen, advertise, insecure)
    backend = RayBackend(address, options or {}, place, lost_after)
    return RemoteExecutor(backend, lost_workers=lost_workers, lost_after=lost_after)
