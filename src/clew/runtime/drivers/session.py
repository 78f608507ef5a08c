"""A session executes one machine. It has everything that the drivers share; they differ in how they wait.

The session takes the output of the machine in order: committed steps and finished items go to the log, then events to
the listeners, and retries to the timers. On an event loop it does not wait for the store
(``clew.runtime.drivers.off_loop`` does); events are sent after their records are stored. The session calls node
functions and passes their results to the machine. Results of attempts that have ended are discarded.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

import msgspec

from clew.engine.frame import Item
from clew.engine.machine import Machine
from clew.engine.options import Notification
from clew.engine.records import Deadline, FailedAttempt, FinishedItem, Retry, SingleItemStep, Step
from clew.errors import ClewError, NodeTimeoutError, RunCancelledError, StoreUnavailableError
from clew.runtime.calls.arguments import calls_of, unbuilt_input
from clew.runtime.calls.cache import ResultCache
from clew.runtime.calls.forgotten_await import RISKY, forgotten_await, is_forgotten
from clew.runtime.calls.recorder import Recorder
from clew.runtime.calls.scopes import Asking, Leaving, late_use
from clew.runtime.drivers.publisher import publish
from clew.runtime.drivers.stopping import StoppingHost
from clew.runtime.drivers.timers import Timer, matters, slept
from clew.runtime.log.metrics import Measured, Totals
from clew.runtime.reporting.events import Event, Listener, Listeners
from clew.state import GraphState
from clew.stores import Statement

if TYPE_CHECKING:
    import asyncio

    from clew.graph import Graph
    from clew.runtime.calls.reuse import ResultReuse
    from clew.runtime.calls.scopes import Scope
    from clew.runtime.calls.waiting import WaitRequest
    from clew.runtime.drivers.durable_waits import DurableWaits
    from clew.runtime.drivers.off_loop import OffLoop
    from clew.runtime.drivers.sleep import SleepingNodes
    from clew.runtime.drivers.take import Observed
    from clew.runtime.log.entries.wait_records import WaitEnd
    from clew.runtime.log.reader import RunReader
    from clew.runtime.log.writer import LogWriter
    from clew.runtime.result import RunResult
    from clew.runtime.settings import Settings


_PLAIN_RECORDS = {SingleItemStep, Step, FinishedItem}  # the most frequent, written as they are


class Session(StoppingHost):
    """One resumption of a run, while it executes."""

    # What few sessions set has its default here. CPython 3.11 stores up to 29 attributes of an object without a dict,
    # if the first object of the class sets them.
    thread = 0  # the thread of the driver
    is_released = False  # the run was released, as far as this process knows
    sleepers = 0  # async nodes that sleep by a virtual clock
    lost: BaseException | None = None  # set if another process has taken the run over
    is_disowned = False  # this process is a fork of the one that executes the run
    earlier = Totals()  # totals of earlier resumptions
    measured = 0  # number of the `Measured` record of this resumption
    heard_by: Listener | None = None  # added by a handle
    reuse: ResultReuse | None = None
    sleeping_nodes: SleepingNodes | None = None  # sync nodes that sleep by a virtual clock
    emitted = 0  # number of the last published data
    catching_up: asyncio.Future[None] | None = None  # the thread that writes queued records
    outer: Session | None = None  # of a child: the session whose node started it
    place = ""  # of a child: where in the outer run
    start_child: Callable[..., Any] | None = None  # implements `ctx.run`
    accepts_changes = False  # a resumed child may have another structure
    result: RunResult | None = None  # set when the take has ended
    has_children = False  # that earlier sessions have started
    executing: dict[Item, float] | None = None  # of a worker: the items that execute now, with their starts
    cache_keys: dict[Item, str]  # of running cached nodes; only with a cache
    _resumption: int | None = None  # None if the run is new
    _held: dict[str, tuple[float, float]] | None = None  # path -> due time and delay of the next attempt
    _new_events: list[Event] | None = None
    _unsent: Sequence[Event] = ()  # until their records are in the store

    def __init__(
        self,
        run_id: str,
        machine: Machine,
        writer: LogWriter,
        settings: Settings,
        runs: RunReader,
        start: GraphState,
        *,
        fence: int = 0,
        owner: str = "",
        created: float = 0.0,
        resumption: int | None = None,
        listeners: Listeners | None = None,
        cache: ResultCache | None = None,
    ) -> None:
        super().__init__(run_id, machine, settings)
        self.writer = writer
        self.runs, self.start = runs, start  # `runs` reads this run
        self.fence, self.owner = fence, owner  # the owner is the token of the claim
        self.created = created  # when the run was created, in seconds since the epoch
        if resumption is not None:
            self._resumption = resumption
        self.listeners = listeners
        self._recorder: Recorder | None = None
        self._left: frozenset[tuple[Item, int]] = frozenset()  # attempts whose values are discarded
        self._lock = threading.Lock()
        self._statements: dict[tuple[Item, int], list[Statement]] = {}  # of running attempts
        self.cache = cache
        if cache is not None:
            self.cache_keys = {}
        self.observed: Observed | None = None  # what follows this take
        self.off_loop: OffLoop | None = None  # threads on which an event loop waits for the store
        self.renew: Callable[[], None] | None = None  # of the lease; raises OwnerDeadError if declared dead
        self.renewed = 0.0  # time.monotonic() of the last renewal
        is_plain = cache is None and not machine.options.step_by_step
        self.take: Callable[[], Item | None] = machine.take if is_plain else self._take
        if settings.publish:
            self._publishing = threading.Lock()

    @property
    def recorder(self) -> Recorder:  # type: ignore[override]
        """The recorded calls of the run."""
        if self._recorder is None:
            is_fresh = self._resumption is None
            recall = self.runs.recall(self.run_id, intents=is_fresh or self.settings.on_ambiguous != "retry")
            self._recorder = Recorder(self, recall, is_fresh=is_fresh, resumption=self._resumption or 0)
        return self._recorder

    @property
    def is_resumed(self) -> bool:
        """Return whether the run was started by an earlier session."""
        return self._resumption is not None

    def measure(self) -> None:
        """Write the counters of the queue, which cannot be computed from the log."""
        if (frontier := self.machine.frontier).blocks:
            self.writer.write([Measured(self.measured, frontier.peak, frontier.blocks)])

    def _take(self) -> Item | None:
        """Return the next item to execute; settle items whose results are known."""
        while (item := self.machine.take()) is not None:
            if not self._is_settled(item):
                return item
        return None

    def _is_settled(self, item: Item) -> bool:
        """Return whether there is nothing to execute: the result is known, or the next attempt is not due."""
        machine = self.machine
        if machine.options.step_by_step and (unbuilt := unbuilt_input(item, self.run_id)) is not None:
            machine.fail(item, unbuilt, self.clock.time())
            return True
        if self._held and item.path in self._held:
            due, delay = self._held.pop(item.path)
            wait = min(due - self.clock.time(), delay)  # at most the delay, if the clock was set back
            if wait > 0 or item.node.subgraph is not None:
                machine.postpone(item)
                if wait > 0:
                    self.at(self.clock.monotonic() + wait, Timer("retry", item, item.attempt))
                else:
                    machine.wake(item)
                return True
        if self.waits is not None and self.waits.hold(item):
            return True
        if self.reuse is not None and (outcome := self.reuse.find(item)) is not None:
            machine.counters.cached += 1
            machine.adopt(item, outcome, cached=True)
            return True
        if self.cache is None or item.node.cache is None or self.off_loop is not None:
            return False
        return self.cache.settle(self, item)

    # -- calling -----------------------------------------------------------------------------------------

    def call(self, item: Item, attempt: int | None = None, *, is_observed: bool = False) -> Any:
        """Call the function of an item; before a node with side effects, make earlier records durable."""
        if self.observed is not None and self.observed.surrounds and not is_observed:
            return self.observed.call_item(partial(self.call, is_observed=True), item, attempt)
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
        """Call the function of an async node with side effects after earlier records are durable."""
        if self.settings.on_ambiguous != "retry":
            given = await self.recorder.abegin(item)
            if given:
                return given[0]
        await self.abefore_call()
        value = super().call(item, attempt)
        return await value if isawaitable(value) else value

    def run_child(
        self, item: Item, attempt: int, scope: Scope, graph: Graph, values: Any, key: str | None
    ) -> Any:
        """Implement `ctx.run`."""
        assert self.start_child is not None
        return self.start_child(self, item, attempt, scope, graph, values, key)

    def leave(self, item: Item, attempt: int) -> Leaving:
        """Return the exception that unwinds a node; discard what the node returns if it catches that exception."""
        with self._lock:
            self._left |= {(item, attempt)}
        return super().leave(item, attempt)

    def lost_body(self, item: Item, attempt: int) -> None:
        """Undo what an attempt began in a process that has ended; it starts over in another one."""
        self._statements.pop((item, attempt), None)
        if self._recorder is not None:
            self._recorder.lose(item, attempt)
        if self.waits is not None:
            self.waits.lose(item, attempt)

    def is_over(self, item: Item, attempt: int) -> bool:
        """Return whether an attempt has ended before its node: it timed out, or the run was cancelled or lost."""
        return self.cancelled or self.lost is not None or not item.live or item.attempt != attempt

    def before_effects(self, item: Item) -> tuple[Any, ...]:
        """Make earlier records durable and resolve ambiguous calls before a node with side effects is called.

        Returns () if the node is to be called, or a tuple with the value that a user gave for it.
        """
        if self.settings.on_ambiguous != "retry" and (given := self.recorder.begin(item)):
            return given
        self.before_call()
        return ()

    # -- results ----------------------------------------------------------------------------------------

    def returned(self, item: Item, attempt: int, value: Any, started: float, duration: float) -> None:
        """Take the value of an attempt; discard it if the attempt has ended."""
        if item.attempt == attempt and item.live and not (self._left and (item, attempt) in self._left):
            if type(value) in RISKY and is_forgotten(item, value):
                self.machine.fail(item, forgotten_await(item, value), started, duration)
            elif self.cache is not None and (unfit := self.cache.keep(self, item, value)) is not None:
                self.machine.fail(item, unfit, started, duration)
            else:
                if self._statements or self.writer.attached:
                    self.writer.attach(
                        (item.path, item.frame.epoch), self._statements.pop((item, attempt), ())
                    )
                self.machine.finish(item, value, started, duration)
                if self._recorder is not None:
                    if item.node.is_called_again:  # its outcome does not settle the intent
                        self._recorder.ended(item, attempt)
                    self._recorder.forget(item.path)
                    if self.children is not None:
                        self.children.end((item, attempt))

    def raised(self, item: Item, attempt: int, error: BaseException, started: float, duration: float) -> None:
        """Take the exception of an attempt; discard it if the attempt has ended."""
        self._statements.pop((item, attempt), None)
        if item.attempt != attempt or (self._left and (item, attempt) in self._left):
            return
        if self.cancelled and type(error) in (RunCancelledError, Leaving):
            return  # the node noticed the cancellation: the run is cancelled, not failed
        if type(error) is Leaving:
            error = late_use(item)
        if self._recorder is not None:
            self._recorder.ended(item, attempt)
            if self.children is not None:
                self.children.end((item, attempt))
        if issubclass(type(error), Asking):
            asking: Any = error
            if asking.refusal is None:
                if self.waits is None or not self.waits.begin(item, attempt, asking):
                    self.machine.ask(item, *asking.asked(started + duration))
                return
            error = asking.refusal
        self.machine.fail(item, error, started, duration)

    def expire(self, timer: Timer) -> bool:
        """Perform a timer that is due; return whether it ended an attempt."""
        item = timer.item
        if timer.kind == "call":
            assert timer.action is not None
            timer.action()
            return False
        assert item is not None
        if timer.kind == "wait":
            assert self.waits is not None
            self.waits.expire(timer)
            return False
        if timer.kind == "retry":
            self.machine.wake(item)
            return False
        if not matters(timer) or self.is_early(timer):
            return False
        if self.children is not None:
            self.children.end((item, timer.attempt))
        self.machine.expire(
            item,
            NodeTimeoutError(
                f"node {item.node.name!r} at {item.path} did not finish within {timer.limit:g} s; increase its "
                f"timeout, or make it faster"
            ),
            self.clock.time() - timer.limit,
            timer.limit,
        )
        return True

    # -- timers ------------------------------------------------------------------------------------------

    def hold(self, due: Mapping[str, tuple[float, float]]) -> None:
        """Delay items of an earlier session until their next attempt is due."""
        if due:
            self._held = dict(due)
            self.take = self._take

    def reuse_results(self, reuse: ResultReuse) -> None:
        """Use results of another run where they are still valid."""
        self.reuse = reuse
        self.take = self._take

    def transact(self, item: Item, attempt: int, statements: list[Statement]) -> None:
        """Take statements of an attempt, which are committed if it succeeds; check that the database accepts them."""
        collected = [*self._statements.get((item, attempt), ()), *statements]
        try:
            self.writer.rehearse(collected)
        except StoreUnavailableError as error:  # a node that catches it must not continue: the session fails
            self.writer.fail(error)
            raise
        if collected:
            self._statements[item, attempt] = collected

    def sleep(self, item: Item, attempt: int, seconds: float) -> Awaitable[None]:
        """Implement `ctx.sleep`: async nodes await it, sync nodes block their thread."""
        return slept(self, item, attempt, seconds)

    def durable_waits(self) -> DurableWaits:
        """Return the waits of this session, from any thread."""
        from clew.runtime.drivers.durable_waits import waits_of

        return waits_of(self)

    def wait(self, item: Item, attempt: int, request: WaitRequest, scope: Scope) -> Any:
        """Implement durable waits: async nodes await the result, sync nodes are unwound."""
        waits = self.durable_waits()
        is_async = item.node.mode in ("async", "async_generator")
        return (waits.later if is_async else waits.wait)(item, attempt, request, scope)

    def has_slept(self, item: Item, attempt: int, position: str) -> bool:
        """Return whether a durable sleep of this attempt has ended."""
        return self.waits is not None and self.waits.has_slept(item, attempt, position)

    def ask(self, item: Item, attempt: int, request: WaitRequest) -> WaitEnd | None:
        """Begin to wait for an answer; return the end of the wait if none came in time."""
        return self.durable_waits().ask(item, attempt, request)

    # -- output -----------------------------------------------------------------------------------------

    def keep(self, entry: Any) -> None:
        """Write a record, from any thread."""
        self.writer.write([entry])

    def before_call(self) -> None:
        """Make earlier records durable, as configured, and check that this process owns the run. From any thread."""
        if self.lost is not None:
            raise self.lost
        if self.outer is not None:
            self.outer.before_call()  # the owner of the outer run also owns its children
        if self.is_overdue:
            assert self.renew is not None
            try:
                self.renew()
            except ClewError as error:
                self.writer.fail(error)  # a node that catches it must not continue
                raise
        self.writer.barrier()

    async def abefore_call(self) -> None:
        """`before_call` that does not block the event loop."""
        from clew.runtime.drivers.off_loop import before_call

        await before_call(self)

    async def settle(self) -> None:
        """Return when the records so far are as durable as configured and their events are sent."""
        from clew.runtime.drivers.off_loop import settle

        await settle(self)

    @property
    def is_overdue(self) -> bool:
        """Return whether the lease may have expired."""
        if self.outer is not None:
            return self.outer.is_overdue
        return self.renew is not None and time.monotonic() - self.renewed > self.settings.lease

    def listen(self, listener: Listener) -> None:
        """Add a listener, from any thread. If the session had none, it gets only events that nodes send."""
        self.listeners = Listeners((*(self.listeners or ()), listener))

    def send_event(self, kind: Any, item: Item, **data: Any) -> None:
        """Send an event of a running node to the listeners, from any thread."""
        publishes = kind == "emitted" and self.settings.publish and item.live
        if publishes or self.listeners:
            about = {"node": item.node.name, **data}
            event = Event(kind, self.run_id, item.step, item.path, self.clock.time(), about)
            self.relay(event, publishes=publishes)

    def relay(self, event: Event, *, publishes: bool = False) -> None:
        """Send an event of a running node, or of its child, to the listeners, from any thread; publish its data."""
        with self._publishing if publishes else nullcontext():  # events come in the order of their numbers
            self._append(publish(self, event) if publishes else event)
        if threading.get_ident() == self.thread:
            self._flush_all()  # send a chunk of an inline node now, not when the node ends
        elif self.wake_driver is not None:
            self.wake_driver()

    def _append(self, event: Event) -> None:
        if self.listeners:
            with self._lock:
                self._new_events = self._new_events or []
                self._new_events.append(event)

    def flush(self) -> None:
        """Pass the output of the machine to the log, the timers and the listeners."""
        outbox = self.machine.outbox
        if self._new_events or self.observed is not None:
            self._flush_all()
        elif outbox:
            if len(outbox) == 1 and type(outbox[0]) is SingleItemStep:
                self.writer.write((outbox.pop(),))
            elif set(map(type, outbox)) <= _PLAIN_RECORDS:
                records = outbox.copy()
                outbox.clear()
                self.writer.write(records)
            else:
                self._flush_all()

    def _flush_all(self) -> None:
        outbox = self.machine.outbox
        notices, records, failed = list[Any](), list[Any](), list[Any]()
        for record in outbox:
            if isinstance(record, (Notification, FailedAttempt)):
                (notices if isinstance(record, Notification) else failed).append(record)
                continue
            if isinstance(record, Deadline):
                self.set_deadline(record.item, record.attempt, record.seconds)
                continue
            if isinstance(record, Retry):
                item = record.item
                if item is not None:  # otherwise the retry is for a resumed run
                    from clew.runtime.reporting.reports import report_retry  # it imports logging

                    report_retry(self.run_id, self.machine.root.program.graph.name, record)
                    self.at(self.clock.monotonic() + record.delay, Timer("retry", item, item.attempt))
                record = msgspec.structs.replace(record, item=None, due=self.clock.time() + record.delay)
            records.append(record)
        outbox.clear()
        if records:
            self.writer.write(records)
        if self.observed is not None and (records or failed):
            self.observed.write([*failed, *records])
        if self.listeners:
            now = self.clock.time()
            with self._lock:
                new_events, self._new_events = self._new_events or (), None
            noticed = [Event(n.kind, self.run_id, n.step, n.path, now, n.data) for n in notices]
            self._unsent = [*self._unsent, *new_events, *noticed]
            if not self.writer.is_behind:
                self.send_events()

    def send_events(self) -> None:
        """Send the events whose records are now in the store."""
        if listeners := self.listeners:
            unsent, self._unsent = self._unsent, ()
            for event in unsent:
                listeners.send(event)

    def announce(self, kind: Any, step: int, now: float | None = None, **data: Any) -> None:
        """Send an event about the run as a whole."""
        assert self.listeners is not None
        now = self.clock.time() if now is None else now
        self.listeners.send(Event(kind, self.run_id, step, "", now, data))

    @property
    def listening(self) -> bool:
        return bool(self.listeners)
