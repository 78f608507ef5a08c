"""Lease renewal: one thread for each engine renews the leases of its running runs.

If another process has taken a run over or deleted it, the run is stopped here, because its next commit would be
rejected. An error for one run does not stop the renewal of the others. A process that was suspended for longer than
its lease notices that before its next recorded call. If it was suspended between that check and the call, the call is
made, with its idempotency key, like a call that is running during a crash.

Releasing a lock that the thread waits for ends the thread. A `threading.Event` is implemented in Python: an interrupt
inside it can leave its lock acquired, and all threads that use it would wait forever.
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
    """Renews leases, three times per lease duration."""

    def __init__(self, store: Store, lease: float) -> None:
        self._store = store
        self._lease = lease
        self._sessions: dict[str, tuple[Session, int]] = {}
        self._lock = Lock()
        self._thread: Thread | None = None
        self._stop = Lock()  # held while the thread should run
        self._pid = 0

    def add(self, session: Session, fence: int) -> None:
        """Renew the lease of this session's run from now on."""
        session.renewed, session.renew = time.monotonic(), lambda: self._renew(session, fence)
        with self._lock:
            self._sessions[session.run_id] = (session, fence)
            # A forked process does not inherit the thread, and an interrupt may have prevented its start.
            if self._thread is None or self._pid != os.getpid() or not self._thread.is_alive():
                stop = self._stop = Lock()
                stop.acquire()
                self._pid = os.getpid()
                self._thread = Thread(
                    target=self._renew_all, args=(stop,), name="clew-lease-renewal", daemon=True
                )
                self._thread.start()

    def remove(self, session: Session) -> None:
        """Stop renewing the lease of this session's run."""
        with self._lock:
            if self._sessions.get(session.run_id, (None, 0))[0] is session:
                del self._sessions[session.run_id]

    def close(self) -> None:
        """End the thread. Without sessions it ends by itself at the next renewal."""
        with self._lock:
            self._thread = None
            if self._stop.locked():
                self._stop.release()

    def _renew(self, session: Session, fence: int) -> None:
        began = time.monotonic()
        self._store.renew(session.run_id, fence, lease=self._lease)
        session.renewed = began

    def _renew_all(self, stop: LockType) -> None:
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
                    session.stop()
                except Exception:
                    continue  # the store may recover before the lease expires; otherwise the next commit fails
