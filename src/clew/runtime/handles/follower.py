"""Follow a run: from a position to its end, each committed step exactly once and in order.

A run that this process executes reports its events itself (`LiveEvents`). Events that happened earlier, or in another
process, are first read from the store. Any other run is followed in its store (`ChangeWatch`, `StoredEvents`). A run
may move between the two: its process dies and this process resumes it, or the other way round.

`EventStream` is the iterator, for threads and for event loops. It owns no thread and no task, so an abandoned one
leaves nothing behind, and an interrupt stops only the iteration.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from clew.engine.options import MOVING
from clew.errors import RunError, UnknownRunError
from clew.graph.graph import inside_event_loop
from clew.runtime.handles.event_position import EventPosition
from clew.runtime.handles.live_events import LiveEvent, LiveEvents, Reader
from clew.runtime.handles.stored_events import StoredEvents
from clew.runtime.process.calls_back import await_call
from clew.runtime.reporting.events import Event
from clew.stores import RunRow
from clew.stores.protocol import LAST

if TYPE_CHECKING:
    import asyncio

    from clew.runtime.drivers.off_loop import OffLoop
    from clew.runtime.handles.handle import RunHandles

ENDED = ("completed", "failed", "cancelled")
"""The statuses of a run that does not continue unless it is resumed."""

_IDLE = 1.0  # seconds after which a reader of live events checks whether the run is still here
_BLOCKED = 0.05  # seconds between two reads of steps that are not stored yet


class Follower:
    """Collects the events of one run after a position. With `follow`, only the end of the run ends them."""

    def __init__(
        self,
        handles: RunHandles,
        run_id: str,
        position: EventPosition,
        failure: Callable[[], BaseException | None],
        *,
        follow: bool,
    ) -> None:
        self._source = handles.background
        self._run_id = run_id
        self._watch = handles.watch(run_id)
        self._position = position
        self._stored = StoredEvents(handles.opener.runs, run_id, position, handles.settings.clock.time)
        self._failure = failure  # why the handle could not execute the run, or the run refused its answer
        self._error: BaseException | None = None  # such a failure, until it is raised
        self._follow = follow
        self._live: LiveEvents | None = None
        self.reader: Reader | None = None
        self._pending: deque[LiveEvent] = deque()
        self._past = 0  # number of the last event from before this reader
        self._is_behind = False  # published data from before may be in the store
        self._is_live = False  # the run reports everything itself
        self._reads_again = False
        self._row: RunRow | None = None
        self.is_over = False

    def take(self) -> list[Event]:
        """Return new events; read the store if the run may have changed there."""
        is_here = self._source.is_here(self._run_id)  # first: what happens later is in the events
        events = self._stored.questions() if self._position.has_forgotten else []
        live = self._source.live_events(self._run_id)
        if live is not None and live is not self._live:
            self._live = live
            self.reader, past = live.read()
            self._pending.extend(past)
            self._past, self._is_behind = past[-1].seq if past else 0, True
        if self.reader is not None:
            self.reader.drain(self._pending)
            events += self._pass_live()
        if is_here and live is not None and live.is_whole:
            self._is_live = True
            return events
        if self._is_live:
            self._is_live = False
            self._watch.expire()
        return self._read_store(events, is_here)

    def _read_store(self, events: list[Event], is_here: bool) -> list[Event]:
        """Add what is new in the store to the events; find out whether they are the last ones."""
        if self._error is None and not is_here:
            self._error = self._failure()
        try:
            if not self._reads_again and not self._watch.has_changed():
                if not events:
                    self._raise_failure()
                if self._row is not None and not is_here:
                    self._watch.check_owner(self._row)
                return events
            found, row, has_more = self._stored.read()
        except UnknownRunError:
            if self._error is None:
                raise
            raise self._error from None
        events, self._row = events + found, row
        has_stopped = row.status not in MOVING and not is_here
        # The reader may answer or resume the run when it gets the last events, so the end is read once more.
        self._reads_again = has_more or (has_stopped and bool(events))
        if not events and not has_more:
            self._raise_failure()
        if has_stopped and not self._reads_again:
            self.is_over = not self._follow or row.status in ENDED
        return events

    def _raise_failure(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _pass_live(self) -> list[Event]:
        """Return the live events that come next, after the stored ones that they follow."""
        events: list[Event] = []
        position, pending, live = self._position, self._pending, self._live
        assert live is not None
        while pending:
            root, seq, event = pending[0]
            if self._is_behind or position.step is None or root > position.step:
                found = self._stored.read(upto=root, below=self._first_live_number()).events
                self._is_behind = False
                events += found
                if not found and (position.step is None or root > position.step):
                    break  # not stored yet
                continue
            pending.popleft()
            is_known = position.source == live.source and seq <= position.seq
            is_old = seq <= self._past and root < position.step
            if is_known or is_old or event.kind == "run_started":
                continue
            if position.passes(event):
                position.source, position.seq = live.source, seq
                events.append(position.tag(event))
        return events

    def _first_live_number(self) -> int:
        """Return the number of the first published data among the live events."""
        numbers = (event.data.get("number") for _, _, event in self._pending if event.kind == "emitted")
        return next((number for number in numbers if number is not None), LAST)

    @property
    def delay(self) -> float:
        """The seconds to wait before `take` is called again, unless the reader is woken."""
        if self._reads_again:
            return 0.0
        if self._is_live:
            return _BLOCKED if self._pending else _IDLE
        return self._watch.delay

    def wait(self) -> None:
        """Wait until there may be new events, in the caller's thread."""
        delay = self.delay
        if self.reader is not None:
            self.reader.wait(delay, self._pending)
        elif delay:
            time.sleep(delay)


class EventStream:
    """The events of a run: an iterator, also for ``async for``."""

    def __init__(self, follower: Follower, off_loop: Callable[[], OffLoop | None]) -> None:
        self._follower = follower
        self._off_loop = off_loop
        self._ready: deque[Event] = deque()
        self._taking: asyncio.Future[None] | None = None

    def __iter__(self) -> EventStream:
        return self

    def __next__(self) -> Event:
        if inside_event_loop():
            raise RunError("this iteration would block the running event loop; write `async for` instead")
        while not self._ready:
            if self._follower.is_over:
                raise StopIteration
            self._take()
            if not self._ready and not self._follower.is_over:
                self._follower.wait()
        return self._ready.popleft()

    def __aiter__(self) -> EventStream:
        return self

    async def __anext__(self) -> Event:
        import asyncio

        while not self._ready:
            if self._follower.is_over:
                raise StopAsyncIteration
            off_loop = self._off_loop()
            if off_loop is None:
                self._take()
                await asyncio.sleep(0)  # for other tasks, if there are many events
            else:
                await self._take_on_thread(off_loop)
            if not self._ready and not self._follower.is_over:
                await self._wait()
        return self._ready.popleft()

    async def _take_on_thread(self, off_loop: OffLoop) -> None:
        """Take events on a thread. If this task is cancelled, the next one waits for the same thread."""
        import asyncio

        if self._taking is None:
            self._taking = off_loop.submit(self._take)
            self._taking.add_done_callback(lambda taken: taken.cancelled() or taken.exception())
        await asyncio.wait([self._taking])
        taken, self._taking = self._taking, None
        taken.result()

    def _take(self) -> None:
        self._ready.extend(self._follower.take())

    async def _wait(self) -> None:
        reader = self._follower.reader
        await await_call(_ignore if reader is None else reader.when_news, self._follower.delay)


def _ignore(wake: Callable[[], object]) -> None:
    """Never call: this reader only waits for the time."""
