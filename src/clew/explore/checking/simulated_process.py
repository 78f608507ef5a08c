"""A process: one life of a program that runs the graph under check, driven choice by choice.

It is the real thing from the opener down: the same machine, session, ledger and recorder that an `Engine` uses, on
a `Disk`. Only the driver is another one: it starts whatever may run, and waits to be told which item completes,
fails, or takes too long next. Node bodies are executed when their items complete. Time stands still.

A process can be written down (`ProcessSnapshot`) and brought back as often as one likes: its machine is copied, and
what else it holds is on the disk, or is small. So going back to a moment costs what is open, not what has happened.

What really happens outside is noted: each recorded call that is made, each execution of a node that is recorded as a
whole. A call that is answered from its recording is not made.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
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
from clew.runtime.calls.scopes import Asking, Scope
from clew.runtime.drivers.session import Session
from clew.runtime.drivers.timers import Timer
from clew.runtime.opener import NO_ANSWER, RunOpener
from clew.runtime.settings import Settings, read_settings
from clew.state import encode
from clew.stores import Store

RUN = "checked"


class FrozenClock:
    """Time that does not pass."""

    virtual = True
    boot = "still"

    def time(self) -> float:
        """Seconds since the epoch."""
        return 1_700_000_000.0

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return 0.0

    def advance(self, to: float) -> None:
        """It does not."""


class ProcessSnapshot(msgspec.Struct, frozen=True):
    """A process at one moment; nobody changes it."""

    machine: Machine
    running: Mapping[str, Item]
    timers: tuple[tuple[float, int, Timer], ...]
    held: Mapping[str, tuple[float, float]]
    digests: Mapping[str, bytes]
    journaled: Mapping[Any, tuple[int, ...]]
    weights: tuple[int, int]
    stretch: int | None
    fence: int
    start: Any


class SimulatedProcess:
    """A program that runs the graph, while it lives."""

    def __init__(
        self, graph: Graph, disk: Store, options: Mapping[str, Any], note: Callable[[Effect, int], None]
    ) -> None:
        self._settings: Settings = read_settings(
            {"seed": 0, "check_mutation": True, **options, "clock": FrozenClock(), "durability": "sync"}
        )
        self._opener = RunOpener(graph, disk, self._settings, ())
        self._note = note
        self._session: Session | None = None
        self.on_raise: Callable[[str, BaseException], None] = lambda path, error: None
        self.running: dict[str, Item] = {}

    # -- beginning and ending --------------------------------------------------------------------------------

    def begin(self, values: Mapping[str, Any]) -> None:
        """A new run."""
        self._live(self._opener.new(values, RUN))

    def resume(self, answers: Mapping[str, Any]) -> None:
        """Go on with what is on the disk."""
        session = self._opener.again(RUN, NO_ANSWER, dict(answers), accept_changes=False)
        assert isinstance(session, Session)
        self._live(session)

    def _live(self, session: Session) -> None:
        session._recorder = _ObservingRecorder(session, self._note)
        self._session = session
        self.running = {}
        self._fill()

    @property
    def session(self) -> Session:
        """The session that is driven."""
        assert self._session is not None
        return self._session

    @property
    def waiting(self) -> list[str]:
        """Items between two attempts, by path."""
        return sorted({timer.item.path for _, _, timer in self.session.timers if timer.item is not None})

    @property
    def bounded(self) -> dict[str, Item]:
        """Subgraph items that have a timeout of their own and something under way inside, by path."""
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
        """Whether nothing can go on by itself."""
        return not self.running and not self.session.timers

    def end(self) -> None:
        """Write down how the run stands, as an engine does when its driver stops."""
        session = self.session
        session.flush()
        session.ledger.close()
        status = session.status()
        failures = session.machine.failures() if status == "failed" else ()
        archive = self._opener.archive
        archive.close(RUN, session.fence, status, self._settings.clock.time(), failures)

    # -- choices ---------------------------------------------------------------------------------------------

    def complete(self, path: str) -> None:
        """Execute an item, and let it complete."""
        item = self.running.pop(path)
        session, attempt, now = self.session, item.attempt, self._settings.clock.time()
        try:
            value = self._execute(item)
        except MutationError:  # other paths share the value: nothing that is found after this would be true
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
            self._note(Effect(item.path, -1, item.node.name, encode(_asked(item))), 0)
        value = self.session.call(item)
        return _run_to_end(value) if item.node.mode in ("async", "async_generator") else value

    def fail(self, path: str) -> None:
        """Let an item fail without executing it."""
        item = self.running.pop(path)
        error = InjectedFaultError(f"{path} was told to fail")
        self.session.raised(item, item.attempt, error, self._settings.clock.time(), 0.0)
        self._fill()

    def time_out(self, path: str) -> None:
        """Execute an item, and have it take too long: what it did is done, and nobody hears of it.

        A subgraph takes too long as a whole: whatever is under way inside it was not executed, and is let fall.
        """
        if path in self.bounded:
            error = NodeTimeoutError(f"{path} was told to take too long")
            self.session.machine.expire(self.bounded[path], error, self._settings.clock.time(), 0.0)
            self._fill()
            return
        item = self.running.pop(path)
        attempt = item.attempt
        try:
            self._execute(item)
        except MutationError:
            raise
        except (Exception, Asking) as raised:  # it had not even succeeded
            self.on_raise(path, raised)
        error = NodeTimeoutError(f"{path} was told to take too long")
        self.session.raised(item, attempt, error, self._settings.clock.time(), 0.0)
        self._fill()

    def wake(self, path: str) -> None:
        """The wait before an item's next attempt is over."""
        session = self.session
        due = [entry for entry in session.timers if entry[2].item is not None and entry[2].item.path == path]
        for entry in due:
            session.timers.remove(entry)
            session.expire(entry[2])
        self._fill()

    def _fill(self) -> None:
        """Start whatever may run."""
        session = self.session
        while (item := session.take()) is not None:
            self.running[item.path] = item
        session.flush()
        session.ledger.barrier()  # what was refused while a node was executed stops the process here
        self.running = {path: item for path, item in self.running.items() if item.live and item.is_wanted}

    # -- writing it down ---------------------------------------------------------------------------------------

    def write_down(self) -> ProcessSnapshot:
        """This moment, to come back to."""
        session = self.session
        machine, copy = copy_of(session.machine)
        ledger = session.ledger
        return ProcessSnapshot(
            machine,
            {path: copy(item) for path, item in self.running.items()},
            tuple((when, n, _moved(timer, copy)) for when, n, timer in session.timers),
            dict(session._held),
            dict(ledger._writer._digests) if ledger._writer is not None else {},
            {item: tuple(numbers) for item, numbers in ledger._journaled.items()},
            (ledger._since, ledger._weight),
            session._stretch,
            session.fence,
            session.start,
        )

    def bring_back(self, life: ProcessSnapshot) -> None:
        """Be as at that moment."""
        machine, copy = copy_of(life.machine)
        archive = self._opener.archive
        row = archive.runs.open(RUN).row
        ledger = archive.fresh_ledger(RUN, life.start, row.created, life.fence, "sync")
        assert ledger._writer is not None
        ledger._writer._digests = dict(life.digests)
        ledger._journaled = {item: list(numbers) for item, numbers in life.journaled.items()}
        ledger._since, ledger._weight = life.weights
        session = Session(
            RUN,
            machine,
            ledger,
            self._settings,
            recall=archive.runs.recall(RUN, intents=True),
            stretch=life.stretch,
        )
        session.start, session.fence = life.start, life.fence
        session.timers = [(when, n, _moved(timer, copy)) for when, n, timer in life.timers]
        session._numbers = itertools.count(max((n for _, n, _ in life.timers), default=-1) + 1)
        if life.held:
            session.hold(life.held)
        session._recorder = _ObservingRecorder(session, self._note)
        self._session = session
        self.running = {path: copy(item) for path, item in life.running.items()}


def _moved(timer: Timer, copy: Callable[[Item], Item]) -> Timer:
    return timer if timer.item is None else msgspec.structs.replace(timer, item=copy(timer.item))


class _ObservingRecorder(Recorder):
    """A recorder that notes which calls are really made."""

    def __init__(self, session: Session, note: Callable[[Effect, int], None]) -> None:
        super().__init__(session, session._recall, is_fresh=False, stretch=session._stretch or 0)
        self._note = note
        self._asked: Counter[tuple[Any, ...]] = Counter()

    def call(
        self,
        item: Item,
        attempt: int,
        scope: Scope,
        name: str,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """The recording of this call, or the call itself, noted and recorded."""
        if name.startswith("clew."):
            return super().call(item, attempt, scope, name, fn, args, kwargs)

        request, place = _encoded([list(args), kwargs]), scope.place
        same = (item.path, item.frame.epoch, attempt, name, request)
        occurrence = self._asked[same]  # so often it has been asked for in this attempt, recorded or not
        self._asked[same] += 1

        def made(*args: Any, **kwargs: Any) -> Any:
            self._note(Effect(item.path, place[-1], name, request, within=place[:-1]), occurrence)
            return fn(*args, **kwargs)

        async def amade(*args: Any, **kwargs: Any) -> Any:
            return await made(*args, **kwargs)

        return super().call(item, attempt, scope, name, amade if is_async(fn) else made, args, kwargs)


def _encoded(request: Any) -> bytes:
    try:
        return encode(request)
    except EncodeError:
        return b""  # the recorder says so, with the place


def _asked(item: Item) -> dict[str, Any]:
    """What a node recorded as a whole is asked for; bound values and defaults are no part of it."""
    given = {*(item.payload or {}), *item.batch.working_state.values}
    sources = {p.name: p.source for p in item.node.params}
    return {name: value for name, value in item.seen().items() if sources.get(name, name) in given}


def _run_to_end(value: Any) -> Any:
    """What an async body gives; on a thread of its own where a loop is running already."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(_awaited(value))
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(copy_context().run, asyncio.run, _awaited(value)).result()


async def _awaited(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


def errors_of(process: SimulatedProcess | None) -> list[list[Any]]:
    """The failures that a live process knows of, and that may not be on the disk yet."""
    if process is None:
        return []
    machine = process.session.machine
    return [
        [strand.prefix, list(order), type_name(failure.error)]
        for strand in machine._frames(machine.root)
        for order, failure in sorted(strand.failures, key=lambda pair: pair[0])
    ]
