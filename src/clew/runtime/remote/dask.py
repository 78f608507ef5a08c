"""Nodes on Dask: one task for each attempt. Dask may start a task again; because of the grants, that does no harm.

- Large inputs are scattered. Dask moves them to the worker of a task before the task starts.
- A body that waits for a child leaves the thread pool of its worker, so that the nodes of the child find a thread.
- A thread cannot be killed. A cancelled body gets `Leaving` when it next executes Python code.
"""

from __future__ import annotations

import socket
from asyncio import to_thread
from collections.abc import Sequence
from threading import Thread, local
from typing import Any

from clew.errors import DefinitionError
from clew.runtime.remote.attempts import Attempt
from clew.runtime.remote.desk import Desk
from clew.runtime.remote.executor import Done
from clew.runtime.remote.links import Address
from clew.runtime.remote.listening import (
    PROBE_TIME,
    PROBED,
    Listening,
    ListenOptions,
    check_probes,
    is_loopback,
    probe,
    unreachable,
)
from clew.runtime.remote.pickling import cluster_dumps
from clew.runtime.remote.worker import station_at, work


class DriverNotFoundError(Exception):
    """A worker cannot connect to the driver."""


class DaskBackend:
    """A Dask cluster."""

    is_cluster = True

    def __init__(self, client: Any, options: ListenOptions, lost_after: float) -> None:
        try:
            import cloudpickle
            import distributed
        except ImportError as error:
            raise DefinitionError(f"executors.dask needs the extra clew[dask]: {error}") from None
        self._owns_client = isinstance(client, str)
        if self._owns_client:
            client = distributed.Client(client, set_as_default=False)
        if not isinstance(client, distributed.Client) or client.asynchronous:
            raise DefinitionError(
                f"executors.dask expects a distributed.Client that is not asynchronous, or the address of a scheduler, "
                f"got {client!r}"
            )
        self.dumps = cluster_dumps(cloudpickle.Pickler)
        self._client = client
        self._options = options
        self._lost_after = lost_after
        self._reaches_workers = True

    def open(self, desk: Desk) -> None:
        """Listen for workers."""
        try:
            self._listen(desk)
        except BaseException:
            if self._owns_client:
                self._client.close()
            raise
        desk.watch()

    def _listen(self, desk: Desk) -> None:
        context = self._client.security.get_listen_args("client")["ssl_context"]
        self._listening = Listening(
            desk, self._options, default=self._interface(), tls=None if context is None else ("dask", context)
        )
        address = self._listening.address
        self._address = (address.host, address.port, address.key, address.tls)
        if self._listening.needs_probe:
            try:
                check_probes(self._probes())
            except BaseException:
                self._listening.close()
                raise

    def _probes(self) -> list[str]:
        """Let one worker of each machine connect; return what they say in time."""
        from distributed.comm.addressing import get_address_host

        workers = self._client.scheduler_info(n_workers=-1)["workers"]
        chosen = list({get_address_host(address): address for address in workers}.values())[:PROBED]
        found: dict[str, Any] = {}

        def ask() -> None:
            found.update(self._client.run(run_probe, self._address, workers=chosen, on_error="return"))

        thread = Thread(target=ask, name="clew-probe", daemon=True)
        thread.start()
        thread.join(PROBE_TIME)
        return [each for each in dict(found).values() if isinstance(each, str)]

    def _interface(self) -> str:
        """Return the address of this machine in the cluster."""
        from distributed.comm.addressing import get_address_host
        from distributed.utils import get_ip

        scheduler: Any = self._client.scheduler
        workers = self._client.scheduler_info(n_workers=-1)["workers"]
        hosts = {get_address_host(address) for address in (*workers, scheduler.address)}
        if all(is_loopback(host) for host in hosts):
            return "127.0.0.1"
        mine: str = get_ip(get_address_host(scheduler.address))
        return "127.0.0.1" if hosts == {mine} else mine

    def submit(self, token: str, task: bytes, handles: Sequence[Any], attempt: Attempt, done: Done) -> Any:
        future = self._client.submit(
            run_task,
            *(self._address, token, task, self._lost_after, *handles),
            key=f"clew-{token}",
            pure=False,
        )
        future.add_done_callback(lambda ended: done(*_end_of(ended)))
        return future

    def ended(self, handle: Any) -> None:
        """Do nothing: Dask reports the end of each task by itself."""

    def cancel(self, handle: Any, *, is_running: bool) -> None:
        """Let Dask drop the task; its link has reported the end to a running body."""
        handle.release()

    def has_workers(self) -> bool:
        """Return whether the scheduler knows a worker."""
        return bool(self._client.scheduler_info(n_workers=1)["workers"])

    def close(self, *, wait: bool) -> None:
        """Stop listening; the cluster is not ended."""
        self._listening.close()
        if self._owns_client:
            self._client.close()

    def put(self, blob: bytes) -> Any:
        """Scatter an input: to a worker directly, or by way of the scheduler if workers cannot be reached."""
        if self._reaches_workers:
            try:
                return self._client.scatter(blob, hash=False, direct=True)
            except OSError:
                self._reaches_workers = False
        return self._client.scatter(blob, hash=False)

    def drop(self, handle: Any) -> None:
        """Release an input."""
        handle.release()

    def is_lost(self, handle: Any) -> bool:
        """Return whether Dask has lost an input."""
        return bool(handle.status != "finished")


def _end_of(future: Any) -> tuple[Any, str]:
    """Return what Dask says about a task that has ended."""
    from distributed.scheduler import KilledWorker, NoWorkerError

    status = future.status
    if status == "finished":
        return "over", ""
    if status != "error":  # its data is gone, or the scheduler has restarted
        return "lost-input", f"Dask has {status} its task"
    error = future.exception()
    if isinstance(error, DriverNotFoundError):
        return "unreachable", str(error)
    if isinstance(error, (KilledWorker, NoWorkerError)):
        return "lost", str(error)
    if type(error).__name__ in ("FutureCancelledError", "CancelledError"):
        return "lost-input", str(error)
    return "broken", f"{type(error).__name__}: {error}"


_children = local()


class _Seceded:
    """While a body waits for children, its thread does not count."""

    def __enter__(self) -> None:
        from distributed import secede

        _children.count = getattr(_children, "count", 0) + 1
        if _children.count == 1:
            secede()

    def __exit__(self, *error: object) -> None:
        from distributed import rejoin

        _children.count -= 1
        if not _children.count:
            rejoin()


def _tls_of(worker: Any, driver: Address) -> Any:
    return worker.security.get_connection_args("worker")["ssl_context"] if driver.tls else None


async def run_probe(address: tuple[Any, ...], dask_worker: Any = None) -> str:
    """Connect to the driver from a worker; return an error text, or an empty one."""
    driver = Address(*address)
    return await to_thread(probe, driver, _tls_of(dask_worker, driver))


def run_task(address: tuple[Any, ...], token: str, task: bytes, lost_after: float, *blobs: Any) -> None:
    """Run a task on a worker."""
    import cloudpickle
    from distributed import get_worker

    driver = Address(*address)
    try:
        station = station_at(driver, _tls_of(get_worker(), driver), lost_after)
    except (OSError, EOFError, socket.gaierror) as error:
        raise DriverNotFoundError(unreachable(driver, error)) from None
    work(station, token, task, blobs, cluster_dumps(cloudpickle.Pickler), _Seceded)
