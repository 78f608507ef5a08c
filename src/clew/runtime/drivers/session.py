"""A session: one machine, driven. What both drivers share is here; what they do not is how they wait.

The session carries what comes out of the machine to where it belongs, in order: committed steps and journaled
outcomes to the store, then events to those who listen, retries to the timers. On an event loop it does not wait for
the store (``clew.runtime.drivers.off_loop`` does), and events wait for what they tell of. It calls node functions
and turns whatever they return or raise into what the machine is told. Results of attempts that are over are let
fall.
"""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from inspect import isawaitable
from types import CoroutineType
from typing import TYPE_CHECKING, Any

import msgspec

from clew.engine.frame import Item
from clew.engine.machine import Machine
from clew.engine.options import Notification, Status
from clew.engine.records import Deadline, FinishedItem, Retry, SingleItemStep, Step
from clew.errors import ClewError, NodeTimeoutError, OutputError, StoreUnavailableError
from clew.runtime.calls.arguments import calls_of, unbuilt_input
from clew.runtime.calls.cache import NO_RESULT, Cache, key_of
from clew.runtime.calls.host import SLEPT, Host
from clew.runtime.calls.recorder import Recorder
from clew.runtime.calls.scopes import Asking
from clew.runtime.drivers.timers import Timer, matters
from clew.runtime.events import Event, Listeners
from clew.runtime.log.call_records import Recall
from clew.runtime.log.metrics import Measured, Totals
from clew.state import GraphState
from clew.stores import Statement

if TYPE_CHECKING:
    import asyncio

    from clew.runtime.calls.reuse import ResultReuse
    from clew.runtime.drivers.executor_queue import QueuedAttempts
    from clew.runtime.drivers.off_loop import OffLoop
    from clew.runtime.drivers.sleep import SleepingNodes
    from clew.runtime.log.writer import LogWriter
    from clew.runtime.settings import Settings


_KEPT = {SingleItemStep, Step, FinishedItem}  # what comes out most, and goes to the writer as it is


class Session(Host):
    """One run, or one resumption of a run between two pauses, while it is driven."""

    start: GraphState = GraphState()
    thread = 0  # the driver's
    fence = 0
    owner = ""  # the name under which it has the run
    is_released = False  # it has ended, and has the run no more, as far as this process can tell
    sleepers = 0
    on_tell: Callable[[], None] | None = None  # a driver is told that there is something to tell
    renew: Callable[[], None] | None = None  # stay the owner; RunOwnedError if somebody else is
    renewed = 0.0  # when, by the time that does not jump
    lost: BaseException | None = None  # somebody else has taken the run over
    earlier = Totals()  # what earlier stretches of the run counted
    measured = 0  # the number under which this one keeps what it counted
    reuse: ResultReuse | None = None
    handed: QueuedAttempts | None = None  # attempts on an executor that has a queue
    naps: SleepingNodes | None = None  # sync nodes that sleep by a virtual clock
    off_loop: OffLoop | None = None  # where a loop that drives it waits for the store
    catching_up: asyncio.Future[None] | None = None  # the thread there that writes what waits
    _recorder: Recorder | None = None

    def __init__(
        self,
        run_id: str,
        machine: Machine,
        writer: LogWriter,
        settings: Settings,
        *,
        recall: Recall | None = None,
        resumption: int | None = None,
        listeners: Listeners | None = None,
        cache: Cache | None = None,
    ) -> None:
        super().__init__(run_id, machine, settings)
        self._recall = recall
        self._resumption = resumption  # None if the run is new
        self.timers: list[tuple[float, int, Timer]] = []  # retries and sleeps: what may go on by itself
        self._own_deadlines: list[tuple[float, int, Timer]] = []  # of attempts with a timeout of their own
        self._deadlines: deque[tuple[float, Item, int]] = deque()
        self._held: dict[str, tuple[float, float]] = {}  # item -> when its next attempt is due, and its delay
        self.writer = writer
        self._listeners = listeners
        self._kept: list[Any] = []  # from other threads, until the next flush
        self._told: list[Event] = []
        self._untold: list[Event] = []  # until what they tell of is in the store
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._written: dict[tuple[Item, int], list[Statement]] = {}  # by attempts that are under way
        self.cache = cache
        self._keys: dict[Item, str] = {}  # of cached nodes that are executing
        is_plain = cache is None and not machine.options.step_by_step
        self.take: Callable[[], Item | None] = machine.take if is_plain else self._take

    @property
    def recorder(self) -> Recorder:  # type: ignore[override]
        """The recorded calls of the run."""
        if self._recorder is None:
            self._recorder = Recorder(
                self, self._recall, is_fresh=self._resumption is None, resumption=self._resumption or 0
            )
        return self._recorder

    @property
    def is_resumed(self) -> bool:
        """Whether the run had begun before."""
        return self._resumption is not None

    def measure(self) -> None:
        """Keep how full the queue was, which nothing else in the log tells."""
        if (frontier := self.machine.frontier).blocks:
            self.writer.write([Measured(self.measured, frontier.peak, frontier.blocks)])

    def _take(self) -> Item | None:
        """The next item to execute; those whose results are known are settled on the way."""
        while (item := self.machine.take()) is not None:
            if not self._is_settled(item):
                return item
        return None

    def _is_settled(self, item: Item) -> bool:
        """Whether there is nothing to execute: the result is known, or the next attempt is not due yet."""
        machine = self.machine
        if machine.options.step_by_step and (unbuilt := unbuilt_input(item, self.run_id)) is not None:
            machine.fail(item, unbuilt, self.clock.time())
            return True
        if self._held and item.path in self._held:
            due, delay = self._held.pop(item.path)
            wait = min(due - self.clock.time(), delay)  # not longer, should the clock have been set back
            if wait > 0 or item.node.subgraph is not None:
                machine.postpone(item)
                if wait > 0:
                    self.at(self.clock.monotonic() + wait, Timer("retry", item, item.attempt))
                else:
                    machine.wake(item)
                return True
        if self.reuse is not None and (outcome := self.reuse.find(item)) is not None:
            machine.adopt(item, outcome, cached=True)
            return True
        key = key_of(item) if self.cache is not None and item.node.cache else None
        if key is None or self.cache is None:
            return False
        value = self.cache.get(key)
        if value is NO_RESULT:
            self._keys[item] = key
            return False
        machine.finish(item, value, self.clock.time(), cached=True)
        return True

    # -- calling -----------------------------------------------------------------------------------------

    def call(self, item: Item, attempt: int | None = None) -> Any:
        """Call the item's function; before one with side effects, what it builds on is made durable."""
        batch = item.batch
        program = batch.open_step.frame.program
        call, _, is_bare = (program.calls or calls_of(program))[batch.number]
        if is_bare and not self.settings.check_mutation:
            return call(item, None)
        effects = item.node.side_effects
        if effects.recordable or effects.requires_idempotency:
            if item.node.mode in ("async", "async_generator"):
                return self._call_later(item, attempt)
            given = self.before_effects(item)
            if given:
                return given[0]
        return super().call(item, attempt)

    async def _call_later(self, item: Item, attempt: int | None) -> Any:
        """Call the function of an async node with side effects, when what it builds on is durable."""
        if self.settings.on_ambiguous != "retry" and self.writer.encodes:
            given = await self.recorder.abegin(item)
            if given:
                return given[0]
        await self.abefore_call()
        value = super().call(item, attempt)
        return await value if isawaitable(value) else value

    def before_effects(self, item: Item) -> tuple[Any, ...]:
        """Before a node with side effects is called: what it builds on is durable, and nobody doubts whether it was
        called before. What a person says that it returned, if it is not to be called again; else ()."""
        if self.settings.on_ambiguous != "retry" and self.writer.encodes:
            given = self.recorder.begin(item)
            if given:
                return given
        self.before_call()
        return ()

    # -- what became of it -------------------------------------------------------------------------------

    def returned(self, item: Item, attempt: int, value: Any, started: float, duration: float) -> None:
        """An attempt returned. What an attempt that is over has to say is let fall, and what it wrote with it."""
        if item.attempt == attempt and item.live:
            if type(value) is CoroutineType and item.node.mode == "sync":
                value.close()
                self.machine.fail(item, _forgotten_await(item), started, duration)
            else:
                if self.cache is not None and item in self._keys:
                    self.cache.put(self._keys.pop(item), value)
                if self._written or self.writer.attached:
                    self.writer.attach((item.path, item.frame.epoch), self._written.pop((item, attempt), ()))
                self.machine.finish(item, value, started, duration)
                if self._recorder is not None:
                    if item.node.is_called_again:  # no outcome in the log will speak for it
                        self._recorder.ended(item, attempt)
                    self._recorder.forget(item.path)

    def raised(self, item: Item, attempt: int, error: BaseException, started: float, duration: float) -> None:
        """An attempt raised."""
        self._written.pop((item, attempt), None)
        if item.attempt != attempt:
            return
        if self._recorder is not None:
            self._recorder.ended(item, attempt)
        if type(error) is Asking:
            if error.refusal is None:
                self.machine.ask(item, error.question, error.about, error.position)
                return
            error = error.refusal
        self.machine.fail(item, error, started, duration)

    def timeout_of(self, item: Item) -> float | None:
        """How long an attempt of this item may take."""
        own = item.node.policy.timeout
        return self.settings.default_node_timeout if own is None else own

    def expire(self, timer: Timer) -> bool:
        """A timer went off. True if it ended an attempt."""
        item = timer.item
        if timer.kind == "call":
            assert timer.action is not None
            timer.action()
            return False
        assert item is not None
        if timer.kind == "retry":
            self.machine.wake(item)
            return False
        if not matters(timer) or self._is_early(timer):
            return False
        self.machine.expire(
            item,
            NodeTimeoutError(
                f"node {item.node.name!r} at {item.path} did not finish within {timer.limit:g} s; raise its timeout, "
                f"or make it quicker"
            ),
            self.clock.time() - timer.limit,
            timer.limit,
        )
        return True

    # -- timers ------------------------------------------------------------------------------------------

    def at(self, when: float, timer: Timer) -> None:
        """Set a timer."""
        heapq.heappush(self.timers, (when, next(self._numbers), timer))

    def forget(self, timer: Timer) -> None:
        """Take a timer back."""
        self.timers = [entry for entry in self.timers if entry[2] is not timer]
        heapq.heapify(self.timers)

    def watch(self, item: Item) -> None:
        """Set the deadline of an attempt that is starting.

        The default timeout is the same for all, so these deadlines come in the order of the starts: a queue
        does, and costs less than a heap.
        """
        own = item.node.policy.timeout
        if own is not None:
            self._set_deadline(item, item.attempt, own)
        elif self.settings.default_node_timeout is not None:
            self._deadlines.append((self.clock.monotonic(), item, item.attempt))

    def hold(self, due: Mapping[str, tuple[float, float]]) -> None:
        """Items of an earlier session whose next attempt is due at a time: they wait for the rest of it."""
        if due:
            self._held = dict(due)
            self.take = self._take

    def reuse_results(self, reuse: ResultReuse) -> None:
        """Settle items from what another run computed."""
        self.reuse = reuse
        self.take = self._take

    def _set_deadline(self, item: Item, attempt: int, seconds: float) -> None:
        timer = Timer("deadline", item, attempt, seconds)
        heapq.heappush(self._own_deadlines, (self.clock.monotonic() + seconds, next(self._numbers), timer))

    def _is_early(self, timer: Timer) -> bool:
        """Whether the time of an attempt is not over, because it waited for its executor first; set it anew if so."""
        assert timer.item is not None
        if self.handed is None:
            return False
        now = self.clock.monotonic()
        over = self.handed.over((timer.item, timer.attempt), timer.limit, now)
        if over > now:
            heapq.heappush(self._own_deadlines, (over, next(self._numbers), timer))
        return over > now

    def next_timer(self) -> float | None:
        """When the next timer that still matters goes off."""
        limit = self.settings.default_node_timeout
        deadlines = self._deadlines
        while deadlines and (not deadlines[0][1].live or deadlines[0][1].attempt != deadlines[0][2]):
            deadlines.popleft()
        own = self._own_deadlines
        while own and not matters(own[0][2]):
            heapq.heappop(own)
        times = [timers[0][0] for timers in (own, self.timers) if timers]
        if deadlines and limit is not None:
            times.append(deadlines[0][0] + limit)
        return min(times, default=None)

    def due_timers(self) -> list[Timer]:
        """Take the timers whose time has come."""
        now = self.clock.monotonic()
        found: list[Timer] = []
        limit = self.settings.default_node_timeout
        while limit is not None and self._deadlines and self._deadlines[0][0] + limit <= now:
            _, item, attempt = self._deadlines.popleft()
            found.append(Timer("deadline", item, attempt, limit))
        for timers in (self._own_deadlines, self.timers):
            while timers and timers[0][0] <= now:
                found.append(heapq.heappop(timers)[2])
        return found

    def transact(self, item: Item, attempt: int, statements: list[Statement]) -> None:
        """What an attempt writes to the store's own database, if it succeeds."""
        written = [*self._written.get((item, attempt), ()), *statements]
        try:
            self.writer.rehearse(written)
        except StoreUnavailableError as error:  # no failure of the node: it must not go on without its write
            self.writer.fail(error)
            raise
        if written:
            self._written[item, attempt] = written

    def sleep(self, item: Item, attempt: int, seconds: float) -> Awaitable[None]:
        """`ctx.sleep`; a driver replaces this where it can do better than block."""
        if item.node.mode in ("async", "async_generator"):
            from clew.runtime.drivers.sleep import asleep

            return asleep(self, seconds)
        if not self.clock.virtual:
            threading.Event().wait(seconds)
        elif self.naps is None or threading.get_ident() == self.thread:
            self.clock.advance(self.clock.monotonic() + seconds)
        else:
            self.naps.sleep(item, attempt, seconds)
        return SLEPT

    # -- what comes out ----------------------------------------------------------------------------------

    def keep(self, entry: Any) -> None:
        """Keep an entry, from any thread: the writer has it at once, and a store in memory with the next flush."""
        if self.writer.encodes:
            self.writer.write([entry])
            return
        with self._lock:
            self._kept.append(entry)

    def before_call(self) -> None:
        """Before a call to the outside world, from any thread: what it builds on is durable, as far as was asked for,
        and the run is still this process's."""
        if self.lost is not None:
            raise self.lost
        if self.is_overdue:
            assert self.renew is not None
            try:
                self.renew()
            except ClewError as error:
                self.writer.fail(error)  # a node that catches it must not go on either
                raise
        if self._kept:
            with self._lock:
                kept, self._kept[:] = list(self._kept), ()
            self.writer.write(kept)
        self.writer.barrier()

    async def abefore_call(self) -> None:
        """`before_call`, without waiting on the event loop."""
        from clew.runtime.drivers.off_loop import before_call

        await before_call(self)

    async def settle(self) -> None:
        """Return when all that was written so far is as durable as was asked for, and listeners know of it."""
        from clew.runtime.drivers.off_loop import settle

        await settle(self)

    @property
    def is_overdue(self) -> bool:
        """Whether the lease may have run out."""
        return self.renew is not None and time.monotonic() - self.renewed > self.settings.lease

    def tell(self, kind: Any, item: Item, **data: Any) -> None:
        """Tell listeners something that a node does while it runs; from any thread."""
        if self._listeners:
            event = Event(
                kind, self.run_id, item.step, item.path, self.clock.time(), {"node": item.node.name, **data}
            )
            with self._lock:
                self._told.append(event)
            if threading.get_ident() == self.thread:
                self._flush_all()  # a chunk of an inline node is told now, not when the node has ended
            elif self.on_tell is not None:
                self.on_tell()

    def flush(self) -> None:
        """Carry what the machine said to where it belongs."""
        outbox = self.machine.outbox
        if self._kept or self._told:
            self._flush_all()
        elif outbox:
            if len(outbox) == 1 and type(outbox[0]) is SingleItemStep:
                self.writer.write((outbox.pop(),))
            elif set(map(type, outbox)) <= _KEPT:  # the common case, and there may be many
                records = outbox.copy()
                outbox.clear()
                self.writer.write(records)
            else:
                self._flush_all()

    def _flush_all(self) -> None:
        outbox = self.machine.outbox
        kept, notices, records = self._kept, [], []
        if kept:
            with self._lock:
                records.extend(kept)
                kept.clear()
        for record in outbox:
            if isinstance(record, Notification):
                notices.append(record)
                continue
            if isinstance(record, Deadline):
                self._set_deadline(record.item, record.attempt, record.seconds)
                continue
            if isinstance(record, Retry):
                item = record.item
                if item is not None:  # else it is for whoever goes on with the run
                    self.at(self.clock.monotonic() + record.delay, Timer("retry", item, item.attempt))
                record = msgspec.structs.replace(record, item=None, due=self.clock.time() + record.delay)
            records.append(record)
        outbox.clear()
        if records:
            self.writer.write(records)
        listeners = self._listeners
        if listeners:
            now = self.clock.time()
            with self._lock:
                told, self._told = self._told, []
            self._untold += told
            self._untold += [Event(n.kind, self.run_id, n.step, n.path, now, n.data) for n in notices]  # type: ignore[arg-type]
            if not self.writer.is_behind:
                self.tell_rest()

    def tell_rest(self) -> None:
        """Tell listeners what they could not be told before it was in the store."""
        listeners = self._listeners
        if listeners:
            untold, self._untold = self._untold, []
            for event in untold:
                listeners.tell(event)

    def announce(self, kind: Any, step: int, **data: Any) -> None:
        """Tell listeners about the run as a whole."""
        assert self._listeners is not None
        self._listeners.tell(Event(kind, self.run_id, step, "", self.clock.time(), data))

    @property
    def listening(self) -> bool:
        return bool(self._listeners)

    def status(self) -> Status:
        """The status to report now that the driver has stopped."""
        status = self.machine.status
        return "cancelled" if self.cancelled and status == "running" else status


def _forgotten_await(item: Item) -> OutputError:
    return OutputError(
        f"node {item.node.name!r} returned an awaitable; declare it with `async def`, or await inside it"
    )
