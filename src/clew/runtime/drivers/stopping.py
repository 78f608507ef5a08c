"""When a session stops, and with which status.

- A session stops when nothing is left to do, or when everything that is left waits for a person. It does not stop while
  there are timers: for the next attempt of an item, or for the end of a wait.
- A session that releases its run (of a worker, or of a child) does not wait for long timers: it stops when every branch
  waits, and the run is due again when the first of these waits ends.
- `stop` cancels a run. `drain` lets another process continue it: running nodes end, and no further node starts.
"""

from __future__ import annotations

from collections.abc import Callable

from clew.engine.options import Status
from clew.runtime.drivers.timers import TimedHost


class StoppingHost(TimedHost):
    """The part of a session that decides about its end."""

    is_called_off = False  # cancelled by a message
    releases = False  # it stops when every branch waits; another session continues it
    wake_driver: Callable[[], None] | None = None

    def stop(self) -> None:
        """Cancel the run and its children, from any thread."""
        self.cancelled = self.is_stopping = True
        if (wake := self.wake_driver) is not None:
            wake()
        if self.children is not None:
            self.children.stop()

    def drain(self) -> None:
        """Start no further item, let those that run end, and release the run then; from any thread."""
        self.is_stopping = True
        if (wake := self.wake_driver) is not None:
            wake()

    def stays(self) -> bool:
        """Return whether the driver waits for timers or mail, while nothing runs."""
        if self.is_stopping:
            return False
        if self.waits is None:
            if not self.timers:
                return False
            if not self.releases:
                return True
        return self.durable_waits().stays()

    @property
    def is_drained(self) -> bool:
        """Whether work is left that could begin now, and another process has to continue it."""
        if not self.is_stopping or self.cancelled:
            return False
        machine, status = self.machine, self.machine.status
        if machine.slot is not None or machine.frontier:
            return status in ("running", "waiting")
        return status == "running" and not self._is_sleeping

    @property
    def _is_sleeping(self) -> bool:
        return self.waits is not None and self.waits.is_sleeping

    def status(self) -> Status:
        """Return the status of the run after the driver has stopped."""
        status = self.machine.status
        if self.cancelled and (status == "running" or self.is_called_off):
            return "cancelled" if status in ("running", "waiting", "paused") else status
        if self.is_stopping and self.is_drained:
            return "running"
        return "sleeping" if status == "running" and self._is_sleeping else status

    def due(self, status: Status) -> float | None:
        """Return when a run that this session releases is due, in seconds since the epoch."""
        return None if self.waits is None else self.waits.due_of_release(status)
