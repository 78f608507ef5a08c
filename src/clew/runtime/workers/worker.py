"""Worker: executes the runs that were submitted to queues.

A worker is one owner with one lease for all of its runs. It takes as many ready runs as it has free slots, of the
structures that it has, and executes each on a thread. If it found as many as it has free slots, it looks again as soon
as a slot is free. If it found fewer, no more are ready. It then polls, with jitter, so that a take finds several runs
that arrive one by one. A store that can `listen` also wakes it when a run becomes ready. From time to time, it lets the
store declare ended owners dead, so that their runs can be taken. A run whose branches all wait leaves the worker. It is
taken again when it is due or gets a message.

- **Draining.** `stop`, SIGTERM and SIGINT end a worker: it takes no more runs and starts no more nodes. Running nodes
  have `grace` seconds to end, and their results are committed. Runs that have not ended return to their queues. A
  second signal ends the grace time. If the server of the store is unavailable, no call waits for it longer than the
  grace time; other workers take the runs when the lease of this one has expired.
- **Poison runs.** A take counts as a try if the run has committed nothing since the previous take. From the third try
  on, a run is executed alone: if it kills the process, it kills no other run. After `tries` tries it fails, with its
  history.
- An error outside of nodes (a graph that was changed, a damaged log) does not end the worker: the run returns to its
  queue, which counts as a try.
- A worker that was declared dead, because it could not renew its lease, drops its runs and continues under a new name.
"""

from __future__ import annotations

import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from os import PathLike
from queue import Empty, SimpleQueue
from typing import Any, Unpack

import msgspec

from clew.error_text import line_of
from clew.errors import (
    ClewError,
    DefinitionError,
    GraphChangedError,
    OwnerDeadError,
    RunOwnedError,
    StoreError,
)
from clew.graph import Graph
from clew.graph_warnings import warn
from clew.loggers import logger
from clew.runtime.drivers.lease_renewal import LeaseRenewer
from clew.runtime.drivers.session import Session
from clew.runtime.log.engine_owner import EngineOwner, fresh_owner
from clew.runtime.process.thread_pool import DaemonThreadPool
from clew.runtime.reporting.observers import Followers, Observer, split
from clew.runtime.settings import EngineOptions, graph_of, listeners_of, read_settings, store_of
from clew.runtime.submission import check_queue
from clew.runtime.workers.presence import MOST_ITEMS, MOST_LISTED, served, was_executed, with_other_code
from clew.runtime.workers.runner import GraphRunner
from clew.runtime.workers.store_clock import StoreClock, clock_of
from clew.state.number_checks import is_int, is_number
from clew.stores import QueueListener, Store, TakenRun

_ALONE = 3  # from this try on, a run is executed alone
_FIRST_PAUSE = 0.05  # seconds before the second look at an empty queue; each further pause is twice as long
_IDLE_FROM = 0.1  # seconds of a pause from which on a worker is woken for the next run
_EXPIRY = 2.0  # seconds between two searches for dead owners
_UNWINDING = 2.0  # seconds in which async nodes unwind after the grace time
_MOST_TROUBLES = 20


class RunningRun(msgspec.Struct):
    """A run that a worker executes."""

    taken: TakenRun
    runner: GraphRunner
    since: float
    is_alone: bool


class Worker:
    """A worker that executes submitted runs of some graphs. `run` blocks; `stop` ends it, from any thread."""

    on_end: Callable[[str, str, float], None] | None = None
    """Gets the id of each run that stops here, its status or "released", and the seconds that it took."""

    def __init__(
        self,
        graphs: Graph | Sequence[Graph],
        *,
        store: Store | str | PathLike[str],
        slots: int = 8,
        queues: Sequence[str] = ("default",),
        label: str = "",
        same_code: bool = False,
        tries: int = 5,
        grace: float = 10.0,
        poll: float = 1.0,
        listeners: Followers = (),
        **options: Unpack[EngineOptions],
    ) -> None:
        _check(graphs, queues, {"slots": slots, "tries": tries}, {"grace": grace, "poll": poll})
        given = [graphs] if isinstance(graphs, Graph) else graphs
        self._opens = not hasattr(store, "encodes")
        self.store = store_of(store)
        settings = read_settings(options, self.store)
        self._clock = clock_of(self.store, settings.clock)
        settings = msgspec.structs.replace(settings, clock=self._clock)
        hearing = listeners_of(listeners)
        self.slots, self.queues, self.label = slots, [check_queue(each) for each in queues], label
        self.counts: Counter[str] = Counter()
        """How many runs have stopped here, by status."""
        self._lease, self._same_code, self._most_tries = settings.lease, same_code, tries
        self._grace, self._poll = grace, poll
        self._live: dict[str, Session] = {}
        self._owner = EngineOwner()
        self._observers: tuple[Observer, ...] = split(hearing)[1]
        self._renewer = LeaseRenewer(
            self.store, settings.lease, self._owner, self._release_left, self._observers
        )
        self._runners: dict[str, GraphRunner] = {}
        for graph in map(graph_of, given):
            if graph.structure_hash in self._runners:
                raise DefinitionError(
                    f"graph {graph.name!r} is given twice: two graphs have the same structure"
                )
            self._runners[graph.structure_hash] = GraphRunner(
                graph, self.store, settings, hearing, self._owner, self._renewer, self._live
            )
        self._served = [served(runner.graph) for runner in self._runners.values()]
        self._running: dict[str, RunningRun] = {}
        self._suspects: list[TakenRun] = []  # are executed alone when all others have stopped, or returned
        self._troubles: list[dict[str, Any]] = []
        self._token = ""  # of the last take
        self._registered = ""  # the owner name that is described in the store
        self._is_executing = False  # `run` was called
        self._is_stopping = False
        self._is_hurried = False
        # whether to look for runs in any case; else a run has ended
        self._wake: SimpleQueue[bool] = SimpleQueue()
        self._listener: QueueListener | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop, and close the store if this worker has opened it."""
        self.stop()
        if self._opens:
            self.store.close()

    def __repr__(self) -> str:
        names = ", ".join(repr(runner.graph.name) for runner in self._runners.values())
        return f"<Worker of {names} on {self.store!r}>"

    @property
    def running(self) -> list[str]:
        """The ids of the runs that it executes now."""
        return list(self._running)

    def stop(self) -> None:
        """Take nothing more, let running nodes end, and return the other runs to their queues; from any thread."""
        self._is_stopping = True
        if self._is_executing:
            self.store.wait_at_most(self._grace)
        self._wake.put(True)

    def run(self, *, until_idle: bool = False) -> None:
        """Execute runs until `stop`, SIGTERM or SIGINT; with `until_idle`, until no run is ready.

        With ``same_code=True``, raise GraphChangedError if a worker with different code is alive.
        """
        with self._signals():
            self._begin()
            self._is_executing = True
            threads = DaemonThreadPool(most=self.slots)
            if not until_idle:
                self._listener = self.store.listen(lambda: self._wake.put(True))
            try:
                self._loop(threads, until_idle)
            finally:
                self._end()
                threads.shutdown()
                # not at the start: a stop that comes early counts
                self._is_stopping = self._is_hurried = self._is_executing = False
                self.store.wait_at_most(None)

    # -- the loop ----------------------------------------------------------------------------------------

    def _loop(self, threads: DaemonThreadPool, until_idle: bool) -> None:
        pause, expires, may_be_more = _FIRST_PAUSE, 0.0, True
        while not self._is_stopping:
            try:
                now = time.monotonic()
                if now >= expires:
                    self.store.expire()
                    self._measure()
                    expires = now + _EXPIRY * random.uniform(0.75, 1.25)
                self._describe()
                # before the take: one may return to its queue
                is_busy = bool(self._running or self._suspects)
                found, may_be_more = self._take(threads)
            except StoreError as error:
                logger("worker").warning("the store cannot be used now: %s", error)
                pause = self._poll
            else:
                if found:
                    self._be_idle(False)
                    pause = _FIRST_PAUSE
                    if may_be_more:
                        continue
                elif until_idle and not is_busy:
                    return
                elif pause >= _IDLE_FROM and len(self._running) < self.slots:
                    self._be_idle(True)
            if self._is_woken(pause * random.uniform(0.75, 1.25), by_ends=may_be_more or until_idle):
                pause = _FIRST_PAUSE
            else:
                pause = min(2 * pause, max(self._poll, _FIRST_PAUSE))

    def _is_woken(self, seconds: float, *, by_ends: bool) -> bool:
        """Wait for a reason to look for runs, which may be the end of one; return whether there was one in time."""
        until = time.monotonic() + seconds
        with suppress(Empty):
            while not (self._wake.get(timeout=max(0.0, until - time.monotonic())) or by_ends):
                pass
            return True
        return False

    def _be_idle(self, is_idle: bool) -> None:
        if self._listener is not None:
            self._listener.be_idle(is_idle)

    def _take(self, threads: DaemonThreadPool) -> tuple[bool, bool]:
        """Take runs and start them; return whether there were any, and whether more may be ready."""
        if self._suspects:
            if not self._running:
                self._start(threads, self._suspects.pop(0), is_alone=True)
            return False, True
        free = self.slots - len(self._running)
        if self._is_stopping or free <= 0 or any(each.is_alone for each in list(self._running.values())):
            return False, True
        self._token = token = fresh_owner()
        structures, began = list(self._runners), time.perf_counter()
        found = self._owner.act(
            lambda name: self.store.take(
                name, structures=structures, queues=self.queues, limit=free, lease=self._lease, token=token
            )
        )
        for observer in self._observers:
            observer.store("take", time.perf_counter() - began)
        if self._is_stopping:
            self._suspects += found  # they return to their queues
            return False, False
        for taken in found:
            if taken.tries > self._most_tries and self._had_its_chance(taken.row.run_id):
                self._fail(taken)
            elif taken.tries >= _ALONE:
                self._suspects.append(taken)
            else:
                self._start(threads, taken)
        return bool(found), len(found) >= free or bool(self._suspects)

    def _had_its_chance(self, run_id: str) -> bool:
        """Return whether a run was executed alone, if it may be: other runs may have killed its workers before."""
        return self._most_tries < _ALONE or was_executed(run_id, _ALONE, self.store.workers())

    def _fail(self, taken: TakenRun) -> None:
        run_id = taken.row.run_id
        self._say_what_runs()  # its history has what this worker knows
        try:
            self._runners[taken.row.structure].fail(taken)
        except RunOwnedError:
            return
        self.counts["failed"] += 1
        self._tell(run_id, "failed", 0.0)

    def _start(self, threads: DaemonThreadPool, taken: TakenRun, *, is_alone: bool = False) -> None:
        runner = self._runners[taken.row.structure]
        running = RunningRun(taken, runner, time.monotonic(), is_alone)
        self._running[taken.row.run_id] = running
        if taken.tries > 1:  # it may end this process: say so before
            self._say_what_runs()
        threads.submit(self._execute, running, self._token)

    def _execute(self, running: RunningRun, token: str) -> None:
        """Execute a run, on a thread of a slot."""
        run_id, status = running.taken.row.run_id, "released"
        try:
            status = running.runner.execute(running.taken, token)
        except RunOwnedError as error:
            logger("worker").info("run %r was lost: %s", run_id, error, extra={"run_id": run_id})
        except BaseException as error:
            trace = None if isinstance(error, ClewError) else error
            about, text = {"run_id": run_id}, line_of(error)
            logger("worker").warning(
                "run %r could not be executed: %s", run_id, text, exc_info=trace, extra=about
            )
            trouble = {"run": run_id, "tries": running.taken.tries, "error": line_of(error)}
            self._troubles = [*self._troubles, trouble][-_MOST_TROUBLES:]
        finally:
            if status == "running":
                status = "released"
            with self._lock:
                if self._running.get(run_id) is running:
                    del self._running[run_id]
            self.counts[status] += 1
            self._tell(run_id, status, time.monotonic() - running.since)
            self._wake.put(status == "released")  # then it is in its queue

    def _tell(self, run_id: str, status: str, seconds: float) -> None:
        if self.on_end is not None:
            try:
                self.on_end(run_id, status, seconds)
            except Exception:
                logger("worker").exception("on_end raised")
                self.on_end = None

    # -- presence ----------------------------------------------------------------------------------------

    def _measure(self) -> None:
        if isinstance(self._clock, StoreClock):
            self._clock.measure()

    def _begin(self) -> None:
        self._describe()
        workers = {each.owner: each for each in self.store.workers()}
        mine = workers[self._owner.name]
        # Of two that start together, the second one refuses.
        earlier = [
            each for each in workers.values() if (each.started, each.owner) < (mine.started, mine.owner)
        ]
        others = list(with_other_code(self._served, earlier))
        if others:
            what = "; ".join(f"{worker} has other code for graph {graph!r}" for graph, worker in others)
            if self._same_code:
                self.store.retire(self._owner.name)
                raise GraphChangedError(f"{what}; start all workers with the same code, or without same_code")
            warn(f"{what}; a run may start with one and continue with the other")
        self._renewer.keep(self._info)

    def _describe(self) -> None:
        """Register the current owner name, if that has not happened: a worker that was declared dead has a new one."""

        def register(name: str) -> int:
            self.store.register(name, lease=self._lease, label=self.label, info=self._info())
            self._registered = name
            return 0

        if self._registered != self._owner.name:
            self._owner.act(register)

    def _say_what_runs(self) -> None:
        with suppress(ClewError):
            self.store.renew(self._owner.name, lease=self._lease, info=self._info())

    def _info(self) -> dict[str, Any]:
        running = list(self._running.values())[:MOST_LISTED]
        return {
            "graphs": [msgspec.to_builtins(each) for each in self._served],
            "queues": self.queues,
            "slots": self.slots,
            "executes": len(self._running),
            "running": [
                {
                    "run": each.taken.row.run_id,
                    "tries": each.taken.tries,
                    "items": self._items(each.taken.row.run_id),
                }
                for each in running
            ],
            "troubles": self._troubles,
            "draining": self._is_stopping,
        }

    def _items(self, run_id: str) -> list[tuple[str, float]]:
        session = self._live.get(run_id)
        executing = None if session is None else session.executing
        called = dict(executing or {})  # from another thread: a moment old
        return [(item.path, started) for item, started in called.items()][:MOST_ITEMS]

    def _release_left(self) -> None:
        for runner in self._runners.values():
            runner.release_left()

    # -- the end -----------------------------------------------------------------------------------------

    def _end(self) -> None:
        """Drain: end what runs, and return the rest to the queues."""
        self._is_stopping = True
        for taken in self._suspects:
            self._runners[taken.row.structure].give_back(taken.row.run_id, taken.fence)
        self._suspects = []
        if self._running:
            self._say_what_runs()
        self._wait_for_runs(self._grace)
        for session in self._roots():
            session.lost = RunOwnedError(
                f"run {session.run_id!r} returned to its queue: its worker has stopped"
            )
            session.stop()
        self._wait_for_runs(_UNWINDING)
        with self._lock:
            left, self._running = self._running, {}
        for run_id, running in left.items():  # sync nodes that nothing can interrupt
            running.runner.give_back(run_id, running.taken.fence)
        self._renewer.close()
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        name = self._owner.name
        with suppress(ClewError):
            self.store.retire(name)
        self._owner.died(name, OwnerDeadError(f"{name} has stopped"))  # a name is not used again

    def _roots(self) -> list[Session]:
        return [session for session in list(self._live.values()) if session.outer is None]

    def _wait_for_runs(self, seconds: float) -> None:
        """Wait until no run is left, at most for a time; those that begin in the meantime are drained too."""
        until = time.monotonic() + seconds
        while self._running:
            for session in self._roots():
                if not session.is_stopping:
                    session.drain()
            left = until - time.monotonic()
            if left <= 0 or (self._is_hurried and seconds == self._grace):
                return
            with suppress(Empty):
                self._wake.get(timeout=min(left, 0.1))

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Let SIGTERM and SIGINT stop the worker; a second one ends the grace time. Only in the main thread."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def handle(number: int, frame: Any) -> None:
            self._is_hurried = self._is_stopping
            self.stop()
            if self._is_hurried:
                self.store.wait_at_most(0.0)

        before = {each: signal.signal(each, handle) for each in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler if handler is not None else signal.SIG_DFL)


def _check(graphs: Any, queues: Any, numbers: dict[str, Any], times: dict[str, Any]) -> None:
    """Raise DefinitionError for an invalid option of a worker."""
    is_list = isinstance(graphs, Sequence) and not isinstance(graphs, str)
    if not isinstance(graphs, Graph) and not (is_list and graphs):
        raise DefinitionError(f"a worker needs a graph or a list of graphs, got {graphs!r}")
    if isinstance(queues, str) or not isinstance(queues, Sequence) or not queues:
        raise DefinitionError(f"queues must be a list of names, such as ['default'], got {queues!r}")
    for name, number in numbers.items():
        if not is_int(number, 1):
            raise DefinitionError(f"{name} must be an int >= 1, got {number!r}")
    for name, seconds in times.items():
        if not is_number(seconds, 0):
            raise DefinitionError(f"{name} must be a number of seconds >= 0, got {seconds!r}")
