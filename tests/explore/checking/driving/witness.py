"""A witness of effects and node bodies that reports forbidden events.

- A call is repeated only if its result is unknown, and then with the same key.
- A call is made only if everything that it depends on is stored, as far as the durability requires: the results of
  earlier calls, and every earlier write of its process.
- An item with a stored outcome is not executed again, and no attempt continues after a later one has started.
- While a driver waits, everything that it knows is stored, the run has the status running, and it is not cancelled.

Bodies that no driver waits for (their attempt timed out, or their run was given up) may still be executed. Only the
first two rules apply to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

from clew.explore.checking.simulated_disk import SimulatedDisk
from clew.runtime.log.run_log import RunLog


class Wrong(BaseException):
    """Something happened that never may."""


class Witness:
    """What was seen on a path."""

    def __init__(self, disk: SimulatedDisk, run_id: str, log: Callable[[], RunLog], durability: str) -> None:
        self._disk, self._run_id, self._log = disk, run_id, log
        self._durability = durability
        self.made: list[tuple[str, str]] = []  # outside: who called, and with which key
        self.attempts: dict[str, int] = {}  # the last of each item that has begun, since the run had failed
        self.violation = ""
        self.is_new = True  # what happens now has not been seen on a shorter path
        self.was_taken_over = False
        self.has_late = False  # attempts may go on beside later ones
        self.is_late = False  # a body is run for which nobody waits
        self.forget()

    def reset(self) -> None:
        """What was seen so far is of another run."""
        self.made, self.attempts = [], {}
        self.forget()

    def forget(self) -> None:
        """Another process goes on, or the engine does: what the last one knew is of no account."""
        self.is_broken = False  # something was not written
        self.is_cancelled = False
        self.answered: set[str] = set()  # calls whose answers the process has had
        self._ended: set[str] = set()  # items whose bodies it has run to their ends
        if self._disk.has(self._run_id) and self._disk.row(self._run_id).status == "failed":
            self.attempts = {}

    @contextmanager
    def looking_away(self) -> Iterator[None]:
        """Another process takes the run over and goes on with it: what this one knows is not what that one knows."""
        known = self.is_new, self.is_broken, self.is_cancelled, self.answered, self._ended
        self.was_taken_over, self.is_new = True, False
        self.is_broken, self.is_cancelled, self.answered, self._ended = False, False, set(), set()
        yield
        self.is_new, self.is_broken, self.is_cancelled, self.answered, self._ended = known

    def fail(self, why: str) -> NoReturn:
        """Something happened that never may."""
        self.violation = self.violation or why
        raise Wrong(why)

    def call(self, name: str, key: str) -> None:
        """A call is made."""
        if self.is_broken:
            self.fail(f"{name} was called, although what it builds on could not be written")
        if any(other != key for known, other in self.made if known == name):
            self.fail(f"{name} was called again with another key")
        self.made.append((name, key))
        if not self.is_new:
            return
        kept = {call.path for call in self._log().calls if call.error is None}
        if name in kept:
            self.fail(f"{name} was called again, although what came of it was kept")
        if self._durability != "exit" and (lost := self.answered - kept):
            self.fail(f"{name} was called, and what came of {min(lost)} is not kept")

    def answer(self, name: str) -> None:
        """A body hears what came of a call."""
        if not self.has_late:  # of an attempt that took too long nothing need be kept
            self.answered.add(name)

    def begin(self, path: str, attempt: int) -> None:
        """A body begins."""
        if self.has_late or self.is_late:
            return
        if attempt < self.attempts.get(path, 0):
            self.fail(f"{path} is at attempt {attempt} again")
        self.attempts[path] = attempt
        if self.is_new and not self.was_taken_over:
            known = self._log().outcomes().get(path)
            if known is not None and known.error is None:
                self.fail(f"{path} is executed again, although what came of it is kept")

    def end(self, path: str) -> None:
        """A body is about to return."""
        if not self.is_late:
            self._ended.add(path)

    def wait(self) -> None:
        """A driver waits."""
        if self.is_cancelled:
            self.fail("the run was cancelled, and its driver waits for something else")
        if not self.is_new or self.was_taken_over:
            return
        status = self._disk.row(self._run_id).status
        if status != "running":
            self.fail(f"the run is under way, and on the disk it is {status}")
        if self.has_late or self._durability != "sync":
            return
        if lost := self._ended - self._log().outcomes().keys():
            self.fail(f"{min(lost)} has completed, and what came of it is not kept")
