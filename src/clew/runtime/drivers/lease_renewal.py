"""Staying the owner of runs: one thread an engine renews the leases of what it runs.

A run whose lease could not be renewed because somebody else has taken it over, or has deleted it, is stopped: its next
commit would be refused anyway, and there is no point in making calls for a run that another process is on. What goes
wrong with one run does not keep the leases of the others from being renewed. A process that was stopped for longer than
its lease finds out before its next recorded call, unless it was stopped in the moment between that look and the call:
then the call is made, as any call in flight at a crash is, with its idempotency key.

The thread is ended by releasing a lock that it waits for. `threading.Event` would do the same in Python code, which an
interrupt can break; its lock is lost then, and everybody who uses the event waits for ever.
"""

from __future__ import annotations

import os
import time
from threading import Lock, Thread
from typing import TYPE_CHECKING

from clew.errors import RunOwnedError, UnknownRunError
from clew.runtime.drivers.session import Session
from clew.stores import Store

if TYPE_CHECKING:
    from _thread import LockType


class LeaseRenewer:
    """Renews leases, three times as often as they would run out."""

    def __init__(self, store: Store, lease: float) -> None:
        self._store = store
        self._lease = lease
        self._sessions: dict[str, tuple[Session, int]] = {}
        self._lock = Lock()
        self._thread: Thread | None = None
        self._stop = Lock()  # held while the thread should go on
        self._pid = 0

    def add(self, session: Session, fence: int) -> None:
        """Renew the lease of this session's run from now on."""
        session.renewed, session.renew = time.monotonic(), lambda: self._renew(session, fence)
        with self._lock:
            self._sessions[session.run_id] = (session, fence)
            # A forked process does not inherit the thread, and an interrupt may come while it starts.
            if self._thread is None or self._pid != os.getpid() or not self._thread.is_alive():
                stop = self._stop = Lock()
                stop.acquire()
                self._pid = os.getpid()
                self._thread = Thread(target=self._beat, args=(stop,), name="clew-heartbeat", daemon=True)
                self._thread.start()

    def remove(self, session: Session) -> None:
        """Let the lease of this session's run run out."""
        with self._lock:
            if self._sessions.get(session.run_id, (None, 0))[0] is session:
                del self._sessions[session.run_id]

    def close(self) -> None:
        """End the thread now; by itself it ends when there was nothing to do between two beats."""
        with self._lock:
            self._thread = None
            if self._stop.locked():
                self._stop.release()

    def _renew(self, session: Session, fence: int) -> None:
        began = time.monotonic()
        self._store.renew(session.run_id, fence, lease=self._lease)
        session.renewed = began

    def _beat(self, stop: LockType) -> None:
        while not stop.acquire(timeout=self._lease / 3):
            with self._lock:
                sessions = list(self._sessions.values())
                if not sessions:
                    if self._stop is stop:
                        self._thread = None
                    return
            for session, fence in sessions:
                try:
                    self._renew(session, fence)
                except (RunOwnedError, UnknownRunError) as error:
                    session.lost = error
                    session.cancelled = True
                    nudge = session.on_tell
                    if nudge is not None:
                        nudge()
                except Exception:
                    continue  # it may come back before the lease has run out; commits say so if not
