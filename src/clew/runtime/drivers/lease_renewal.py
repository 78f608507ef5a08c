"""Lease renewal: one thread for each engine renews its lease while it executes runs.

An engine has one lease for all of its runs. So has a worker, which also renews it while it has no runs. If the engine
was declared dead, its sessions are stopped, because other processes may own their runs and would make their commits
fail; the engine continues under a new name. A process that was suspended for longer than its lease notices this before
its next recorded call. If it was suspended between that check and the call, the call is made, with its idempotency key,
like a call that is running during a crash.

The thread also reads the inboxes of the runs: one read of the store for all of them, once a second.

A renewal also tries again to release runs whose release failed. Otherwise, the engine would keep them.

To end the thread, the engine releases a lock that the thread waits for. A `threading.Event` is implemented in Python:
an interrupt inside it can leave its lock acquired, and all threads that use it would wait forever.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any

from clew.errors import OwnerDeadError, RunOwnedError, UnknownRunError
from clew.held_interrupts import start_thread
from clew.runtime.drivers.inbox import look_at_all
from clew.runtime.drivers.session import Session
from clew.runtime.log.engine_owner import EngineOwner
from clew.runtime.reporting.observers import Observer
from clew.stores import Store

if TYPE_CHECKING:
    from _thread import LockType

LOOK = 1.0
"""Seconds between two reads of the inboxes of the runs that execute here."""


class LeaseRenewer:
    """Renews the lease of an engine, three times per lease duration, and receives messages."""

    def __init__(
        self,
        store: Store,
        lease: float,
        owner: EngineOwner,
        release: Callable[[], None],
        observers: Sequence[Observer] = (),
    ) -> None:
        self._store = store
        self._lease = lease
        self._owner = owner
        self._release = release  # releases runs that could not be released
        self._observers = observers
        self._sessions: dict[str, tuple[Session, str]] = {}  # run id -> session and name of the owner
        self._lock = Lock()
        self._thread: Thread | None = None
        self._stop = Lock()  # held while the thread should run
        self._pid = 0
        self._deaths = 0
        self._info: Callable[[], Mapping[str, Any]] | None = None  # of a worker
        owner.on_death = self._drop

    def keep(self, info: Callable[[], Mapping[str, Any]]) -> None:
        """Renew the lease from now on, also without sessions, with the description of a worker."""
        with self._lock:
            self._info = info
            self._start()

    def add(self, session: Session) -> None:
        """Renew the lease from now on, as long as this session runs."""
        # A claim leaves at least half of the lease.
        session.renewed, session.renew = time.monotonic() - self._lease / 2, self._renew
        with self._lock:
            name = self._owner.name
            if self._deaths:  # it may have happened after the claim
                known = self._store.owner(session.run_id)
                name = name if known is None else known.name
            self._sessions[session.run_id] = (session, name)
            self._start()
        if name != self._owner.name:
            self._lose(name, RunOwnedError(f"run {session.run_id!r} now belongs to another owner"))

    def _start(self) -> None:
        # a forked process does not inherit the thread
        if self._thread is None or self._pid != os.getpid() or not self._thread.is_alive():
            stop = self._stop = Lock()
            stop.acquire()
            self._pid = os.getpid()
            self._thread = Thread(
                target=self._renew_all, args=(stop,), name="clew-lease-renewal", daemon=True
            )
            start_thread(self._thread)

    def remove(self, session: Session) -> None:
        """Stop renewing the lease for this session."""
        with self._lock:
            if self._sessions.get(session.run_id, (None, ""))[0] is session:
                del self._sessions[session.run_id]

    def close(self) -> None:
        """End the thread. Without sessions it ends by itself at the next look."""
        with self._lock:
            self._thread = None
            if self._stop.locked():
                self._stop.release()

    def _drop(self, name: str, error: OwnerDeadError) -> None:
        """Stop the sessions of an owner that was declared dead."""
        self._deaths += 1
        self._lose(name, error)

    def _lose(self, name: str, error: Exception) -> None:
        with self._lock:
            lost = [session for session, owner in self._sessions.values() if owner == name]
        for session in lost:
            session.lost = error
            session.stop()

    def _renew(self) -> None:
        name, began = self._owner.name, time.monotonic()
        info = None if self._info is None else self._info()
        is_renewed = False
        try:
            self._store.renew(name, lease=self._lease, info=info)
            is_renewed = True
        except OwnerDeadError as error:
            self._owner.died(name, error)
            raise
        finally:
            for observer in self._observers:
                observer.renew(is_renewed)
                observer.store("renew", time.monotonic() - began)
        with self._lock:
            for session, owner in self._sessions.values():
                if owner == name:
                    session.renewed = began

    def _renew_all(self, stop: LockType) -> None:
        interval, renewed = self._lease / 3, time.monotonic()
        while not stop.acquire(timeout=min(interval, LOOK)):
            with self._lock:
                sessions = [session for session, _ in self._sessions.values()]
                if not sessions and self._info is None:
                    if self._stop is stop:
                        self._thread = None
                    return
            look_at_all(sessions, self._store)
            if (now := time.monotonic()) - renewed >= interval:
                renewed = now
                self._beat()

    def _beat(self) -> None:
        """Renew the lease, and release what could not be released."""
        try:
            self._renew()
            self._release()
        except OwnerDeadError:
            pass
        except UnknownRunError as error:  # the file of the store was replaced
            self._lose(self._owner.name, error)
        except Exception:
            pass  # the store may recover before the lease expires; otherwise the next commit fails
