"""Nodes on Ray: one task for each attempt, without Ray's own retries.

- Large inputs are in the object store. Ray passes them to the worker of a task before the task starts.
- The nodes of a child need no CPU, because the body that waits for the child holds one; otherwise they could wait for
  each other. `max_concurrent_nodes` limits how many run.
- Cancelling a running task ends its worker process.
- Frames report how bodies end, so Ray's status matters only for tasks that never began. It is polled for all tasks
  together, a few times a second, because a callback for each task would cost more than the rest of it.
- A driver that is connected by Ray Client (``ray://``) is used like any other, if workers can connect to it.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping, Sequence
from threading import Condition, Event, Thread
from typing import Any

import msgspec

from clew.errors import DefinitionError, DriverUnreachableError, NodeError
from clew.held_interrupts import start_thread
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
    probe,
    source_address,
    unreachable,
)
from clew.runtime.remote.pickling import cluster_dumps
from clew.runtime.remote.worker import station_at, work


class RayBackend:
    """A Ray cluster."""

    is_cluster = True

    def __init__(
        self, address: str | None, options: Mapping[str, Any], place: ListenOptions, lost_after: float
    ) -> None:
        try:
            import ray
        except ImportError as error:
            raise DefinitionError(f"executors.ray needs the extra clew[ray]: {error}") from None
        if not ray.is_initialized():
            try:
                ray.init(address=address or os.environ.get("RAY_ADDRESS") or "auto", log_to_driver=False)
            except ConnectionError as error:
                raise DefinitionError(
                    f"no Ray cluster: {error}; call ray.init() first, or give the address of a cluster"
                ) from None
            except ImportError as error:
                raise DefinitionError(
                    f"this address needs more of Ray: {error}; install ray[client]"
                ) from None
        self._ray: Any = ray
        self.dumps = cluster_dumps(ray.cloudpickle.Pickler)
        task, own = ray.remote(run_task), {"num_cpus": 1, **options, "max_retries": 0}
        self._task: Any = task.options(**own)
        self._inner_task: Any = task.options(**{**own, "num_cpus": 0})
        self._runtime_env = options.get("runtime_env")
        self._place = place
        self._lost_after = lost_after
        self._changed = Condition()
        self._open: dict[Any, Done] = {}  # the tasks that have not ended
        self._closed = False
        self._stopped = Event()

    def open(self, desk: Desk) -> None:
        """Listen for workers."""
        place = self._place
        context = _tls_context(ssl.PROTOCOL_TLS_SERVER)
        self._listening = Listening(
            desk,
            place,
            default=place.listen if place.listen and place.advertise else self._interface(),
            tls=None if context is None else ("ray", context),
        )
        self._address = self._listening.address
        if self._listening.needs_probe or _is_ray_client():  # two networks may use the same addresses
            try:
                self._check_reachable()
            except BaseException:
                self._listening.close()
                raise
        desk.watch()
        start_thread(Thread(target=self._watch, name="clew-ray", daemon=True))

    def _interface(self) -> str:
        """Return the address of this machine in the cluster."""
        hosts = {node["NodeManagerAddress"] for node in self._ray.nodes() if node["Alive"]}
        if not _is_ray_client():
            mine = self._ray.util.get_node_ip_address()
        else:  # Ray does not know this machine
            try:
                mine = source_address(min(hosts))
            except OSError as error:
                raise DriverUnreachableError(
                    f"the driver is connected by ray://, and has no route to {min(hosts)}: {error}; run it inside the "
                    f"cluster, or give listen= and advertise= with an address that workers reach"
                ) from None
        return "127.0.0.1" if hosts <= {mine} else mine

    def _check_reachable(self) -> None:
        """Let a worker of each machine that runs tasks connect; raise DriverUnreachableError if one cannot."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        nodes = [node for node in self._ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
        packed = msgspec.msgpack.encode(self._address)
        task = self._ray.remote(run_probe)
        own = {"num_cpus": 0, "max_retries": 0, "runtime_env": self._runtime_env}
        places = [NodeAffinitySchedulingStrategy(node["NodeID"], soft=False) for node in nodes[:PROBED]]
        refs = [task.options(**own, scheduling_strategy=place).remote(packed) for place in places]
        done, waiting = self._ray.wait(refs, num_returns=len(refs), timeout=PROBE_TIME) if refs else ([], [])
        for ref in waiting:
            self._ray.cancel(ref, force=True)
        ends = [self._end_of(ref) for ref in done]
        check_probes(text for how, text in ends if how == "unreachable")

    def submit(self, token: str, task: bytes, handles: Sequence[Any], attempt: Attempt, done: Done) -> Any:
        if not self._ray.is_initialized():  # Ray would start a new cluster
            raise NodeError(f"{attempt.place}: Ray was shut down; call ray.init() and create a new executor")
        remote = (self._inner_task if attempt.is_inner else self._task).remote
        ref = remote(_encode((self._address, token, task, self._lost_after)), *handles)
        with self._changed:
            self._open[ref] = done
            if len(self._open) == 1:
                self._changed.notify()
        return ref

    def ended(self, handle: Any) -> None:
        """Stop asking Ray about a task whose end its frame has reported."""
        with self._changed:
            self._open.pop(handle, None)

    def _watch(self) -> None:
        """Report the tasks that Ray says have ended."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._open or self._closed)
                if self._closed:
                    return
            self._stopped.wait(_POLL)
            with self._changed:
                refs = list(self._open)
            if not self._ray.is_initialized():
                self._report(refs, ("lost", "Ray was shut down"))
                continue
            try:
                ready = (
                    self._ray.wait(refs, num_returns=len(refs), timeout=0, fetch_local=False)[0]
                    if refs
                    else []
                )
            except Exception as error:  # Ray is being shut down
                self._report(refs, ("lost", f"Ray is gone: {error}"))
            else:
                for ref in ready:
                    self._report([ref], self._end_of(ref))

    def _report(self, refs: Sequence[Any], end: tuple[Any, str]) -> None:
        for ref in refs:
            with self._changed:
                done = self._open.pop(ref, None)
            if done is not None:
                done(*end)

    def _end_of(self, ref: Any) -> tuple[Any, str]:
        """Return what Ray says about a task that has ended."""
        from ray import exceptions

        try:
            text = self._ray.get(ref)
        except (exceptions.ObjectLostError, exceptions.ObjectFetchTimedOutError) as error:
            return "lost-input", str(error)
        except exceptions.RayTaskError as error:
            cause = getattr(error, "cause", None)
            if isinstance(cause, exceptions.ObjectLostError):
                return "lost-input", str(cause)
            return "broken", str(error)
        except Exception as error:
            return "lost", f"{type(error).__name__}: {error}"
        return ("unreachable", text) if text else ("over", "")

    def cancel(self, handle: Any, *, is_running: bool) -> None:
        """Drop a task that waits, or end the worker of one that runs."""
        self._ray.cancel(handle, force=True)

    def has_workers(self) -> bool:
        """Return whether the cluster has a machine that runs tasks."""
        return any(node["Alive"] and node["Resources"].get("CPU") for node in self._ray.nodes())

    def close(self, *, wait: bool) -> None:
        """Stop listening; the cluster is not ended."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._stopped.set()
        self._listening.close()

    def put(self, blob: bytes) -> Any:
        """Put an input into the object store."""
        return self._ray.put(blob)

    def drop(self, handle: Any) -> None:
        """Do nothing: Ray drops objects without references."""

    def is_lost(self, handle: Any) -> bool:
        """Return False: Ray says so when a task needs the input."""
        return False


_POLL = 0.1  # seconds
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(
    tuple[Address, str, bytes, float]
).decode  # one argument: each costs Ray time


def _is_ray_client() -> bool:
    from ray.util.client import ray as client

    return bool(client.is_connected())


def _tls_context(protocol: Any) -> ssl.SSLContext | None:
    """Return the TLS of the cluster, as Ray's own environment variables configure it; None without TLS."""
    if os.environ.get("RAY_USE_TLS", "0").lower() not in ("1", "true"):
        return None
    names = ("RAY_TLS_SERVER_CERT", "RAY_TLS_SERVER_KEY", "RAY_TLS_CA_CERT")
    certificate, key, authority = (os.environ.get(name) for name in names)
    if not (certificate and key and authority):
        raise DefinitionError(f"RAY_USE_TLS is set, so {', '.join(names)} must name files; set all of them")
    context = ssl.SSLContext(protocol)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    try:
        context.load_cert_chain(certificate, key)
        context.load_verify_locations(authority)
    except OSError as error:
        raise DefinitionError(
            f"the TLS files of Ray cannot be read: {error}; check {', '.join(names)}"
        ) from None
    return context


def run_probe(packed: bytes) -> str:
    """Connect to the driver from a worker; return an error text, or an empty one."""
    address = msgspec.msgpack.decode(packed, type=Address)
    return probe(address, _tls_context(ssl.PROTOCOL_TLS_CLIENT) if address.tls else None)


def _is_killed(error: BaseException) -> bool:
    """Return whether Ray ends this worker process, for example because its machine is drained."""
    return isinstance(error, SystemExit) and hasattr(error, "ray_terminate_msg")


def run_task(packed: bytes, *blobs: Any) -> str:
    """Run a task on a worker; return an error text if the driver cannot be reached."""
    import ray

    driver, token, task, lost_after = _decode(packed)
    try:
        tls = _tls_context(ssl.PROTOCOL_TLS_CLIENT) if driver.tls else None
        station = station_at(driver, tls, lost_after)
    except (OSError, EOFError) as error:
        return unreachable(driver, error)
    work(station, token, task, blobs, cluster_dumps(ray.cloudpickle.Pickler), is_killed=_is_killed)
    return ""
