"""A simulated process that runs the graph under check, driven one choice at a time.

Everything below the opener is real: the machine, session, log writer and recorder that an `Engine` uses. Only the
driver differs. It starts every item that may run, and waits for the choice of which item completes, fails or times
out next. A node body is executed when its item completes. Time does not pass.

- A process can be copied (`ProcessSnapshot`) and restored any number of times. The machine is copied; the rest is on
  the disk or small. So a restore costs the open work, not the history.
- Real effects are reported: each recorded call that is made, and each execution of a node that is recorded as a
  whole. A call that is answered from its recording is not made.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from math import inf
from typing import Any

import msgspec

from clew.engine.frame import Item
from clew.engine.machine import Machine
from clew.engine.machine_copy import copy_of
from clew.error_text import type_name
from clew.errors import EncodeError, InjectedFaultError, MutationError, NodeTimeoutError
from clew.explore.checking.effects import Effect
from clew.graph import Graph
from clew.runtime.calls.recorder import Recorder, is_async
from clew.runtime.calls.scopes import Asking, NodeCall
from clew.runtime.drivers.session import Session
from clew.runtime.drivers.timers import Timer
from clew.runtime.log.entries.wait_records import WaitRecord
from clew.runtime.log.snapshots import SinceSnapshot
from clew.runtime.opener import NO_ANSWER, RunOpener
from clew.runtime.process.own_loop import run_coroutine
from clew.runtime.settings import Settings, read_settings
from clew.state import encode
from clew.stores import Store

RUN = "checked"

Note = Callable[..., None]
"""Takes an effect, and how often the attempt has requested it before; of a child, also its run id and its place."""


class FrozenClock:
    """A clock that stands still."""

    virtual = True
    boot = "still"

    def time(self) -> float:
        """Return seconds since the epoch."""
        return 1_700_000_000.0

    def monotonic(self) -> float:
        """Return seconds that never decrease."""
        return 0.0

    def advance(self, to: float) -> None:
        """Do nothing."""


def opened(graph: Graph, disk: Store, options: Mapping[str, Any]) -> tuple[RunOpener, Settings]:
    """Return the opener and the settings of a process that runs a graph. It starts every item that may run."""
    given = {"seed": 0, "check_mutation": True, **options, "clock": FrozenClock(), "durability": "sync"}
    settings = msgspec.structs.replace(read_settings(given, disk), max_concurrent_nodes=sys.maxsize)
    return RunOpener(graph, disk, settings, ()), settings


class ProcessSnapshot(msgspec.Struct, frozen=True):
    """An immutable copy of a process."""

    machine: Machine
    running: Mapping[str, Item]
    timers: tuple[tuple[float, int, Timer], ...]
    held: Mapping[str, tuple[float, float]]
    digests: Mapping[str, bytes]
    finished: Mapping[Any, tuple[int, ...]]
    since: SinceSnapshot
    resumption: int | None
    fence: int
    start: Any
    held_waits: Mapping[str, list[WaitRecord]] | None  # None if no node has waited


class SimulatedProcess:
    """A process that runs the graph."""

    def __init__(self, opener: RunOpener, settings: Settings, note: Note) -> None:
        self._settings = settings
        self._opener = opener
        self._note = note
        self._session: Session | None = None
        self.start_child: Callable[..., Any] | None = None
        self.on_raise: Callable[[str, BaseException], None] = lambda path, error: None
        self.running: dict[str, Item] = {}

    # -- start and end ---------------------------------------------------------------------------------------

    def begin(self, values: Mapping[str, Any]) -> None:
        """Start a new run."""
        self.drive(self._opener.new(values, RUN))

    def resume(self, answers: Mapping[str, Any]) -> None:
        """Resume the run from the disk."""
        session = self._opener.again(RUN, NO_ANSWER, dict(answers), accept_changes=False)
        assert isinstance(session, Session)
        self.drive(session)

    def drive(self, session: Session) -> None:
        """Execute a session."""
        session.start_child = self.start_child
        session._recorder = _ObservingRecorder(session, self._note)
        self._session = session
        self.running = {}
        self._fill()

    @property
    def session(self) -> Session:
        """Return the driven session."""
        assert self._session is not None
        return self._session

    @property
    def waiting(self) -> list[str]:
        """Return the paths of the items that wait for their next attempt."""
        return sorted({timer.item.path for _, timer in self._ending() if timer.item is not None})

    def _ending(self) -> list[tuple[float, Timer]]:
        """Return the timers that are waited for. No signal comes in a check, and questions are answered."""
        waits = self.session.waits
        return [
            (when, timer)
            for when, _, timer in self.session.timers
            if when < inf and (timer.kind != "wait" or waits is None or waits.is_asleep(timer.item))
        ]

    @property
    def bounded(self) -> dict[str, Item]:
        """Return the subgraph items that have a timeout and running work inside, by path."""
        found: dict[str, Item] = {}
        waiting = [timer.item for _, _, timer in self.session.timers if timer.item is not None]
        for item in [*self.running.values(), *waiting]:
            around = item.frame.owner
            while around is not None:
                if around.is_inside and around.node.policy.timeout is not None:
                    found[around.path] = around
                around = around.frame.owner
        return found

    @property
    def has_ended(self) -> bool:
        """Return whether no item is running or waiting for a retry or a time."""
        return not self.running and not self._ending()

    def end(self) -> None:
        """Store the status of the run, as an engine does when its driver stops."""
        session = self.session
        session.flush()
        session.writer.close()
        status = session.status()
        failures = session.machine.failures()
        repository = self._opener.repository
        repository.close(session.run_id, session.fence, status, self._settings.clock.time(), failures)

    # -- choices ---------------------------------------------------------------------------------------------

    def complete(self, path: str) -> None:
        """Execute an item and complete it."""
        item = self.running.pop(path)
        session, attempt, now = self.session, item.attempt, self._settings.clock.time()
        try:
            value = self._execute(item)
        except MutationError:  # other paths share the value, so later results would be invalid
            raise
        except (Exception, Asking) as error:
            self.on_raise(path, error)
            session.raised(item, attempt, error, now, 0.0)
        else:
            session.returned(item, attempt, value, now, 0.0)
        self._fill()

    def _execute(self, item: Item) -> Any:
        effects = item.node.side_effects
        if effects.recordable or effects.requires_idempotency:
            self._note(Effect(item.path, -1, item.node.name, encode(_request(item))), 0)
        value = self.session.call(item)
        is_async = item.node.mode in ("async", "async_generator")
        return run_coroutine(partial(_awaited, value)) if is_async else value

    def fail(self, path: str) -> None:
        """Let an item fail without executing it."""
        item = self.running.pop(path)
        error = InjectedFaultError(f"injected fault: {path} failed")
        self.session.raised(item, item.attempt, error, self._settings.clock.time(), 0.0)
        self._fill()

    def time_out(self, path: str) -> None:
        """Execute an item and let it time out: its effects happened, its result is lost.

        A subgraph times out as a whole: the running items inside are discarded without being executed.
        """
        if path in self.bounded:
            error = NodeTimeoutError(f"injected fault: {path} timed out")
            self.session.machine.expire(self.bounded[path], error, self._settings.clock.time(), 0.0)
            self._fill()
            return
        item = self.running.pop(path)
        attempt = item.attempt
        try:
            self._execute(item)
        except MutationError:
            raise
        except (Exception, Asking) as raised:
            self.on_raise(path, raised)
        error = NodeTimeoutError(f"injected fault: {path} timed out")
        self.session.raised(item, attempt, error, self._settings.clock.time(), 0.0)
        self._fill()

    def wake(self, path: str) -> None:
        """End the wait before an item's next attempt."""
        session = self.session
        due = [entry for entry in session.timers if entry[2].item is not None and entry[2].item.path == path]
        for entry in due:
            session.timers.remove(entry)
            session.expire(entry[2])
        self._fill()

    def _fill(self) -> None:
        """Start every item that may run."""
        session = self.session
        while (item := session.take()) is not None:
            self.running[item.path] = item
        session.flush()
        session.writer.barrier()  # a write that failed during the execution of a node stops the process here
        self.running = {path: item for path, item in self.running.items() if item.live and item.is_wanted}

    # -- snapshots -----------------------------------------------------------------------------------------------

    def snapshot(self) -> ProcessSnapshot:
        """Return a copy of the process."""
        session = self.session
        machine, copy = copy_of(session.machine)
        writer = session.writer
        return ProcessSnapshot(
            machine,
            {path: copy(item) for path, item in self.running.items()},
            tuple((when, n, _with_copied_item(timer, copy)) for when, n, timer in session.timers),
            dict(session._held or {}),
            dict(writer._encoder._digests),
            {item: tuple(numbers) for item, numbers in writer._finished.items()},
            dataclasses.replace(writer._since),
            session._resumption,
            session.fence,
            session.start,
            None if session.waits is None else session.waits.held(),
        )

    def restore(self, saved: ProcessSnapshot) -> None:
        """Become a copy of a saved process."""
        machine, copy = copy_of(saved.machine)
        repository = self._opener.repository
        row = repository.runs.open(RUN).row
        writer = repository.new_writer(RUN, saved.start, row.created, saved.fence, "sync")
        writer._encoder._digests = dict(saved.digests)
        writer._finished = {item: list(numbers) for item, numbers in saved.finished.items()}
        writer._since = dataclasses.replace(saved.since)
        session = Session(
            RUN,
            machine,
            writer,
            self._settings,
            repository.runs,
            saved.start,
            fence=saved.fence,
            resumption=saved.resumption,
        )
        session.timers = [(when, n, _with_copied_item(timer, copy)) for when, n, timer in saved.timers]
        if saved.held:
            session.hold(saved.held)
        if saved.held_waits is not None:
            timers = [timer for _, _, timer in session.timers]
            session.durable_waits().load_copy(repository.runs.open(RUN).log(), saved.held_waits, timers)
        session.start_child = self.start_child
        session._recorder = _ObservingRecorder(session, self._note)
        self._session = session
        self.running = {path: copy(item) for path, item in saved.running.items()}


def _with_copied_item(timer: Timer, copy: Callable[[Item], Item]) -> Timer:
    return timer if timer.item is None else msgspec.structs.replace(timer, item=copy(timer.item))


class _ObservingRecorder(Recorder):
    """A recorder that reports the calls that are made, not those answered from a recording."""

    def __init__(self, session: Session, note: Note) -> None:
        plain = session.recorder
        super().__init__(session, plain._recall, is_fresh=False, resumption=plain._resumption)
        self._note = note
        self._asked: Counter[tuple[Any, ...]] = Counter()

    def call(self, call: NodeCall) -> Any:
        """Return the recorded result, or make, report and record the call."""
        item, attempt, scope, name, fn, args, kwargs = call
        if name.startswith("clew."):
            return super().call(call)

        request, place = _encoded([list(args), kwargs]), scope.place
        same = (item.path, item.frame.epoch, attempt, name, request)
        occurrence = self._asked[same]  # earlier requests of this attempt, recorded or not
        self._asked[same] += 1

        def made(*args: Any, **kwargs: Any) -> Any:
            self._note(Effect(item.path, place[-1], name, request, within=place[:-1]), occurrence)
            return fn(*args, **kwargs)

        async def amade(*args: Any, **kwargs: Any) -> Any:
            return await made(*args, **kwargs)

        return super().call(call._replace(fn=amade if is_async(fn) else made))


def _encoded(request: Any) -> bytes:
    try:
        return encode(request)
    except EncodeError:
        return b""  # the recorder raises the error, with the path


def _request(item: Item) -> dict[str, Any]:
    """Return the request of a node that is recorded as a whole, without bound values and defaults."""
    given = {*(item.payload or {}), *item.batch.working_state.values}
    sources = {p.name: p.source for p in item.node.params}
    return {name: value for name, value in item.seen().items() if sources.get(name, name) in given}


async def _awaited(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


def errors_of(process: SimulatedProcess | None) -> list[list[Any]]:
    """Return the failures of a running process; they may not be on the disk yet."""
    if process is None:
        return []
    machine = process.session.machine
    return [
        [frame.prefix, list(order), type_name(failure.error)]
        for frame in machine.root.with_inner()
        for order, failure in sorted(frame.failures, key=lambda pair: pair[0])
    ]
