"""The stage for a real driver: a clock, an executor, a queue and an event loop that wait for choices.

A driver learns about events in one place: the blocking one when it waits for its queue, the asyncio one when its loop
waits for the selector. Both places call `Stage.event`, which lets one event happen and returns. Everything runs in one
thread, so the events are the only nondeterminism. Time passes only as an event.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from queue import Empty
from typing import Any, Protocol

import clew.runtime.drivers.blocking as blocking_module
import clew.runtime.drivers.lease_renewal as renewal_module
import clew.runtime.drivers.session as session_module
import clew.runtime.log.writer as writer_module
from clew.runtime.calls.scopes import Asking, Leaving
from clew.runtime.log.background_writer import Work, batches
from clew.runtime.process.thread_pool import DaemonThreadPool


class Stage(Protocol):
    """Who says what happens."""

    clock: Clock

    @property
    def hands(self) -> Hands:
        """Of the process that plays now."""

    def choose(self, *options: str) -> str:
        """One of several things that may happen."""

    def event(self, hands: Hands, timeout: float | None) -> bool:
        """Have one event happen while a driver waits; False if it is that time has passed."""


class Clock:
    """A clock for which the drivers wait as for a real one, and that moves when it is told to."""

    virtual = False
    boot = "stage"

    def __init__(self) -> None:
        self.now = 0.0

    def time(self) -> float:
        return 1_700_000_000.0 + self.now

    def monotonic(self) -> float:
        return self.now

    def advance(self, to: float) -> None:
        self.now = max(self.now, to)


class Job:
    """Something that was handed over and has not come back: a body on a thread, or an answer that is awaited."""

    def __init__(self, name: str, body: Callable[[], Any], future: Any, began: float) -> None:
        self.name = name
        self.began = began
        self._body = body
        self._future = future
        self._came: tuple[Any, BaseException | None] | None = None

    @property
    def node(self) -> str:
        """The node that it belongs to."""
        return self.name.rpartition("/")[2].partition("#")[0]

    @property
    def is_run(self) -> bool:
        return self._came is not None

    @property
    def is_wanted(self) -> bool:
        return not self._future.done()

    def run(self) -> None:
        """Execute it; nobody hears of it yet."""
        try:
            self._came = (self._body(), None)
        except (Exception, Asking, Leaving) as error:  # else the process is dead
            self._came = (None, error)

    def deliver(self) -> None:
        """Say what came of it."""
        assert self._came is not None
        value, error = self._came
        if error is None:
            self._future.set_result(value)
        else:
            self._future.set_exception(error)


class Hands(DaemonThreadPool):
    """An executor, and whatever else is under way outside the driver: each job waits until it is chosen."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        self.jobs: list[Job] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        item: Any = fn.item  # of a `dispatch._Call`
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()  # its thread is there at once
        self.jobs.append(
            Job(f"{item.path} {item.attempt}", lambda: fn(*args, **kwargs), future, self._clock.now)
        )
        return future

    def awaited(self, name: str) -> asyncio.Future[Any]:
        """An answer that an async body waits for."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        job = Job(name, lambda: None, future, self._clock.now)
        job.run()
        self.jobs.append(job)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Threads that are under way go on."""


class Queue:
    """What the blocking driver waits for."""

    def __init__(self, stage: Stage, hands: Hands) -> None:
        self._stage, self._hands = stage, hands
        self._items: deque[Any] = deque()

    def put(self, item: Any) -> None:
        self._items.append(item)

    def empty(self) -> bool:
        return not self._items

    def get(self, timeout: float | None = None) -> Any:
        while not self._items:
            if not self._stage.event(self._hands, timeout):
                raise Empty
        return self._items.popleft()

    def get_nowait(self) -> Any:
        if not self._items:
            raise Empty
        return self._items.popleft()


class Loop(asyncio.BaseEventLoop):
    """An event loop on which only the chosen event comes in."""

    def __init__(self, stage: Stage, hands: Hands, clock: Clock) -> None:
        super().__init__()
        self._stage, self._hands, self._clock = stage, hands, clock
        self._selector = self
        self.set_exception_handler(lambda loop, context: None)  # who died has nothing to say

    def time(self) -> float:
        return self._clock.now

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None or timeout > 0:
            self._stage.event(self._hands, timeout)
        return []

    def _process_events(self, event_list: list[Any]) -> None:
        """There are none but what was chosen."""

    def _write_to_self(self) -> None:
        """Nobody sleeps."""

    def finish(self, coroutine: Any) -> Any:
        """Run a coroutine to its end, and whatever is left of it afterwards."""
        try:
            return self.run_until_complete(coroutine)
        finally:
            left = asyncio.all_tasks(self)
            for task in left:
                task.cancel()
            if left:
                self.run_until_complete(asyncio.wait(left))
            self.close()


class ChosenWriter:
    """Writes as `clew.runtime.log.background_writer` does, when that is chosen."""

    is_far = False

    def __init__(self, stage: Stage, append: Callable[[Work], None]) -> None:
        self._stage, self._append = stage, append
        self._waiting: list[Work] = []
        self.failure: BaseException | None = None

    def put(self, work: Work) -> None:
        self._waiting.append(work)
        if self._stage.choose("the writer is behind", "the writer writes") == "the writer writes":
            self.join()

    def join(self) -> None:
        waiting, self._waiting = self._waiting, []
        if waiting and self.failure is None:
            try:
                for work in batches(waiting):
                    self._append(work)
            except Exception as error:
                self.failure = error

    def close(self) -> list[Work]:
        left, self._waiting = self._waiting, []
        return left if self.failure is None else []


class _NoThread:
    """A thread that is never started: there is time for nothing but what is chosen."""

    def __init__(self, **_: Any) -> None:
        pass

    def start(self) -> None:
        pass

    def is_alive(self) -> bool:
        return True


@contextmanager
def on_stage(stage: Stage) -> Iterator[None]:
    """The drivers wait for what is chosen, and all time is the stage's."""
    replaced = [
        (blocking_module, "SimpleQueue", lambda: Queue(stage, stage.hands)),
        (writer_module, "BackgroundWriter", lambda append: ChosenWriter(stage, append)),
        (renewal_module, "Thread", _NoThread),
        (renewal_module, "time", stage.clock),
        (session_module, "time", stage.clock),
    ]
    before = [getattr(module, name) for module, name, _ in replaced]
    for module, name, value in replaced:
        setattr(module, name, value)
    try:
        yield
    finally:
        for (module, name, _), value in zip(replaced, before, strict=True):
            setattr(module, name, value)
