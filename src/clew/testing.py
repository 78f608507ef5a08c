"""Tools for tests of graphs: virtual time, and completion in any order.

- `VirtualClock` skips waiting: ``Engine(graph, clock=VirtualClock())``. Time moves only when nothing else can run.
- `Stepper` starts the items that can run, and completes, fails or times out the item that you choose.
- `run_in_order` completes items in the order of a function, such as `random_order`. The result must not depend on it.
- `crash_points` kills the process at a named point, like ``kill -9``.
- `store_conformance` checks your own store.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import isfinite
from random import Random
from typing import TYPE_CHECKING, Any, Unpack

from clew.engine.frame import Item
from clew.engine.stops import read_stops
from clew.errors import NodeTimeoutError, RunStateError
from clew.graph import Graph
from clew.runtime import Engine, RunResult
from clew.runtime.calls.scopes import Asking
from clew.runtime.process import crash_points
from clew.runtime.process.own_loop import run_coroutine
from clew.state.number_checks import is_int
from clew.stores import conformance as store_conformance

if TYPE_CHECKING:
    from clew.runtime.settings import StoreOptions
    from clew.state.input_types import Values

__all__ = ["Stepper", "VirtualClock", "crash_points", "random_order", "run_in_order", "store_conformance"]


class VirtualClock:
    """A clock that moves only when a driver advances it to the next timer, after all other work."""

    virtual = True
    boot = "virtual"

    def __init__(self, start: float = 1_700_000_000.0) -> None:
        if not _is_time(start):
            raise ValueError(f"start: expected seconds since the epoch, got {start!r}")
        self._start = start
        self._now = 0.0

    def time(self) -> float:
        """Return seconds since the epoch."""
        return self._start + self._now

    def monotonic(self) -> float:
        """Return seconds since the creation of the clock."""
        return self._now

    def advance(self, to: float) -> None:
        """Move forward to a time of `monotonic`. An earlier time changes nothing."""
        if not _is_time(to):
            raise ValueError(f"advance: expected a time in seconds, got {to!r}")
        self._now = max(self._now, to)

    def __repr__(self) -> str:
        return f"VirtualClock(+{self._now:g} s)"


class Stepper:
    """A run whose ``running`` items complete in the order that you choose."""

    def __init__(
        self,
        graph: Graph | Engine,
        values: Values | None = None,
        *,
        run_id: str | None = None,
        workers: int | None = None,
        stop_before: Any = None,
        stop_after: Any = None,
        **options: Unpack[StoreOptions],
    ) -> None:
        most: Any = workers
        if most is not None and not is_int(most, 1):
            raise ValueError(f"workers: expected an int >= 1 or None, got {workers!r}")
        if isinstance(graph, Engine):
            if options:
                raise TypeError("give options to the Engine, not to the Stepper")
            self.engine = graph
        else:
            options.setdefault("clock", VirtualClock())
            self.engine = Engine(graph, **options)
        stops = read_stops(self.engine.graph, stop_before, stop_after)
        self._session = self.engine._execution.open_session(values, run_id, stops)
        self._workers = workers
        self._running: dict[str, Item] = {}
        self._fill()

    @property
    def running(self) -> list[str]:
        """Return the paths of started items that have not completed, in the order of their start."""
        return list(self._running)

    def complete(self, path: str) -> None:
        """Execute the item at `path` and complete it.

        A node that waits, as in a long `ctx.sleep`, is unwound; its item runs again when the wait has ended.
        """
        item = self._pick(path)
        session, attempt = self._session, item.attempt
        try:
            value = session.call(item)
            if item.node.mode in ("async", "async_generator"):
                value = run_coroutine(partial(_awaited, value))
        except (Exception, Asking) as error:
            session.raised(item, attempt, error, session.clock.time(), 0.0)
        else:
            session.returned(item, attempt, value, session.clock.time(), 0.0)
        self._fill()

    def fail(self, path: str, error: Exception) -> None:
        """Fail the item at `path` with `error`, without executing it."""
        if not isinstance(error, BaseException):
            raise TypeError(f"error: expected an exception such as ValueError('no'), got {error!r}")
        item = self._pick(path)
        self._session.raised(item, item.attempt, error, self._session.clock.time(), 0.0)
        self._fill()

    def time_out(self, path: str) -> None:
        """Time out the item at `path`, without executing it."""
        item = self._pick(path)
        error = NodeTimeoutError(f"node {item.node.name!r} at {item.path} was timed out by a test")
        self._session.raised(item, item.attempt, error, self._session.clock.time(), 0.0)
        self._fill()

    def finish(self) -> RunResult:
        """End the run, discard items that are still running, and return the result."""
        if self._running:
            self._session.cancelled = True
        return self.engine._execution.close_session(self._session)

    def _pick(self, path: str) -> Item:
        if path not in self._running:
            raise RunStateError(f"no item {path!r} is running; running: {', '.join(self._running) or 'none'}")
        return self._running.pop(path)

    def _fill(self) -> None:
        session = self._session
        while True:
            while self._workers is None or len(self._running) < self._workers:
                item = session.take()
                if item is None:
                    break
                self._running[item.path] = item
            session.flush()
            when = session.next_timer()
            if self._running or when is None:
                return
            session.clock.advance(when)
            for timer in session.due_timers():
                session.expire(timer)


def run_in_order(
    graph: Graph | Engine,
    values: Values | None = None,
    *,
    choose: Callable[[Sequence[str]], str],
    workers: int | None = None,
    run_id: str | None = None,
    **options: Unpack[StoreOptions],
) -> RunResult:
    """Run a graph; `choose` gets the paths of the running items and returns the one to complete next."""
    if not callable(choose):
        raise TypeError(f"choose: expected a function that returns one of the given paths, got {choose!r}")
    stepper = Stepper(graph, values, run_id=run_id, workers=workers, **options)
    while stepper.running:
        stepper.complete(choose(stepper.running))
    return stepper.finish()


def random_order(seed: int) -> Callable[[Sequence[str]], str]:
    """Return a random choice for `run_in_order`. The same seed gives the same order."""
    rng = Random(seed)
    return lambda running: running[rng.randrange(len(running))]


def _is_time(value: Any) -> bool:
    return isinstance(value, (int, float)) and isfinite(value)


async def _awaited(value: Any) -> Any:
    return await value
