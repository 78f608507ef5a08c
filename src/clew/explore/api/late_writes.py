"""Writes that show after their response: FastAPI commits at the end of a dependency, and runs background tasks then.

Only a running service can be late. An application in this process is awaited to its end. Nothing tells that a service
has finished, so the systems are observed again after an accepted write, for a limited time:

- A write that shows nothing is observed until it shows. A write that should show (it deletes something that exists)
  gets the longest time, because its absence is a violation.
- The first write of an operation is observed a little longer than it takes to show. That finds background tasks. An
  operation that once showed in two steps is later observed until both have come.
- What never shows gets its time only a few times. A repeated write, which should show nothing, gets some time if the
  service has been late before.

A read that contradicts a write which shows nothing is repeated. Only that helps if no system is given.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

import msgspec

from clew.explore.api.table_changes import Snapshot, same
from clew.explore.api.transports.messages import HttpResponse

PAUSE = 0.003  # seconds between two observations
PAUSES = (0.02, 0.1, 0.5, 1.5)  # seconds between reads
FIRST = 0.1  # seconds for which the first write of an operation is observed
UNSHOWN = 0.5  # for a write that does not show, or not as a whole
CERTAIN = 2.0  # for a write that should show
TURNS = 3  # how often an operation may wait that long without success
SHORT = 0.02  # after that
DELAYS = 4  # times the longest delay that was seen
SCRIPT_PAUSE = 0.3  # seconds that a script waits


class Lateness(msgspec.Struct):
    """How late the writes of an operation show, and in how many steps."""

    seconds: float = 0.0
    steps: int = 1


class LateWrites:
    """Observes the systems after a write. `seen` has the operations whose writes were late."""

    def __init__(self, observe: Callable[[], Snapshot]) -> None:
        self._observe = observe
        self.is_active = False  # the service runs in another process
        self.seen: dict[str, Lateness] = {}
        self._shown: set[str] = set()  # operations of which a write has shown
        self._in_vain: Counter[tuple[str, bool]] = Counter()

    @property
    def pause(self) -> float:
        """Return the seconds that a script waits after a write."""
        longest = max((each.seconds for each in self.seen.values()), default=0.0)
        return max(SCRIPT_PAUSE, round(DELAYS * longest, 1)) if self.is_active else 0.0

    def after(
        self, operation: str, before: Snapshot, *, should_show: bool = False, repeated: bool = False
    ) -> Snapshot:
        """Observe the systems after an accepted write; a repeated one is expected to show nothing."""
        now = self._observe()
        if not self.is_active or not before:
            return now
        began = time.monotonic()
        steps, expected = int(not same(before, now)), self.seen.get(operation, Lateness()).steps
        key = (operation, should_show and not steps)
        patience, watched = self._patience(*key), 0.0 if operation in self._shown else FIRST
        if repeated:
            patience, watched, expected = self._patience_for_nothing(operation), 0.0, 1
        while (waited := time.monotonic() - began) < (patience if steps < expected else watched):
            time.sleep(PAUSE)
            found = self._observe()
            if not same(now, found):
                now, steps = found, steps + 1
                late = self.seen.setdefault(operation, Lateness())
                late.seconds = max(late.seconds, waited)
                late.steps = max(late.steps, steps)
        if steps:
            self._shown.add(operation)
        if steps < expected and not repeated:
            self._in_vain[key] += 1
        return now

    def _patience(self, operation: str, should_show: bool) -> float:
        """Return the seconds after which a write is no longer expected."""
        known = DELAYS * self.seen.get(operation, Lateness()).seconds
        if self._in_vain[operation, should_show] >= TURNS:
            return max(known, SHORT)
        return max(known, CERTAIN if should_show else UNSHOWN)

    def _patience_for_nothing(self, operation: str) -> float:
        """Return the seconds for which a repeated write is observed: none for a service that was never late."""
        late = [self.seen[operation]] if operation in self.seen else [*self.seen.values()]
        longest = max((each.seconds for each in late), default=0.0)
        return min(UNSHOWN, max(FIRST, DELAYS * longest)) if late else 0.0

    def read(
        self, operation: str, read: Callable[[], HttpResponse], is_wrong: Callable[[int], bool]
    ) -> HttpResponse:
        """Read after a write that may not be committed yet; repeat a read whose status contradicts the write."""
        answer, key = read(), (f"read after {operation}", True)
        if not self.is_active or self._in_vain[key] >= TURNS:
            return answer
        for pause in PAUSES:
            if not is_wrong(answer.status):
                return answer
            time.sleep(pause)
            answer = read()
        self._in_vain[key] += is_wrong(answer.status)
        return answer
