"""Run the body of a task in a worker process. Clusters call `work`; a process of `executors.processes` is `serve`.

The body is read before its start is requested, so imports and large inputs cost the node no time. A body that cannot be
read fails after the grant, as the node would.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from queue import SimpleQueue
from threading import Lock
from typing import Any

from clew.error_text import line_of
from clew.errors import CodeMismatchError, NodeError
from clew.runtime.process.crash_points import reach
from clew.runtime.remote.frames import End, Grant, How, Ready
from clew.runtime.remote.host import WorkerHost
from clew.runtime.remote.links import Address, WorkerLink, connect
from clew.runtime.remote.pickling import (
    CodeDiffersError,
    Dumps,
    loads,
    pack_raised,
    plain_dumps,
    with_traceback,
)
from clew.runtime.remote.station import Station
from clew.runtime.remote.tasks import Body, decode_task

Lending = Callable[[], AbstractContextManager[Any]]

_stations: dict[Address, Station] = {}
_connecting = Lock()


def station_at(address: Address, tls: Any, lost_after: float) -> Station:
    """Return this process's link to a driver; raise OSError if the driver cannot be reached."""
    with _connecting:
        station = _stations.get(address)
        if station is None or station.is_closed:
            for known in [known for known, other in _stations.items() if other.is_closed]:
                del _stations[known]
            station = _stations[address] = Station(connect(address, tls), lost_after=lost_after)
        return station


def work(
    station: Station,
    token: str,
    task: bytes,
    blobs: Sequence[Any],
    dumps: Dumps = plain_dumps,
    lending: Lending = nullcontext,
    is_killed: Callable[[BaseException], bool] = lambda error: False,
) -> None:
    """Read a task, ask for its start, run its body, and send its end.

    An exception by which the cluster ends this process (`is_killed`) is not an end of the body: the worker is lost.
    """
    body: Body | None = None
    unreadable: BaseException | None = None
    try:
        body = Body(decode_task(task), blobs)
    except Exception as error:
        unreadable = _unreadable(error)
    del task, blobs
    reach("before-grant")
    grant, data = station.begin(token)
    if not isinstance(grant, Grant):
        return  # another worker has this task, or it is over
    reach("after-grant")
    how, data = _ended(station, token, body, data, unreadable, dumps, lending, is_killed)
    reach("before-end")
    station.send(End(token, how, b"" if body is None else body.around.reports()), data)
    reach("after-end")


def _ended(
    station: Station,
    token: str,
    body: Body | None,
    given: bytes,
    unreadable: BaseException | None,
    dumps: Dumps,
    lending: Lending,
    is_killed: Callable[[BaseException], bool],
) -> tuple[How, bytes]:
    """Run a body; return how it ended."""
    if body is None:
        assert unreadable is not None
        return pack_raised(unreadable, dumps)
    host = WorkerHost(station, token, body, loads(given) if given else ({}, ()), dumps, lending)
    try:
        station.enter(token, host)
        try:
            value = host.run()
        finally:
            station.leave(token)
    except BaseException as error:
        if is_killed(error):
            station.close()
            raise
        return pack_raised(with_traceback(error), dumps)
    try:
        return "value", dumps(value)
    except Exception as error:
        failure = NodeError(
            f"node {host.item.node.name!r} at {host.item.path}: its result cannot be pickled: {line_of(error)}; "
            f'return plain data, or keep the node in the driver with on="driver"'
        )
        return pack_raised(failure, dumps)


def _unreadable(error: Exception) -> BaseException:
    where = f"the worker {socket.gethostname()} (process {os.getpid()})"
    if isinstance(error, CodeDiffersError):
        return CodeMismatchError(
            f"{where} has other code than the driver: {error}; install the same version there and restart its workers"
        )
    if isinstance(error, (ImportError, AttributeError)):  # of a function or a class that a task needs
        lacking = CodeMismatchError(
            f"{where} lacks code that this node needs: {line_of(error)}; install the module there, or send it with the "
            f"cluster's own means: runtime_env= of ray.init, or client.upload_file of Dask"
        )
        lacking.__cause__ = error
        return with_traceback(lacking)
    return with_traceback(error)


def serve(sock: socket.socket) -> None:
    """Run tasks in a process of `executors.processes`, one after the other, until the driver is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the driver
    tasks: SimpleQueue[tuple[str, bytes]] = SimpleQueue()

    def end() -> None:
        os._exit(0)  # also in the middle of a body: nothing waits for it

    station = Station(WorkerLink(sock), lambda token, data: tasks.put((token, data)), end)
    while True:
        station.send(Ready())
        token, data = tasks.get()
        task, files = loads(data)
        work(station, token, task, [_File(path).read() for path in files])
        del task, data, files


class _File:
    """A large input of this machine."""

    def __init__(self, path: str) -> None:
        self._path = path

    def read(self) -> bytes:
        with open(self._path, "rb") as file:
            return file.read()
