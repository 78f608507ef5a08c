"""Tools for tests of graphs, Clew's own and yours: time that obeys, and completion in any order.

`VirtualClock` makes an hour of backoff pass at once: ``Engine(graph, clock=VirtualClock())``. Time moves only when
nothing else can happen.

`Stepper` holds a run still between completions: it starts whatever may run, and you say which item completes, fails
or times out next. `run_in_order` lets a function choose, for instance at random: the chain must not depend on it.

`crash_points` kills the process at a named point, as ``kill -9`` would. `store_conformance` checks a store of your own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from math import isfinite
from random import Random
from typing import TYPE_CHECKING, Any

from clew.engine.frame import Item
from clew.errors import NodeTimeoutError, RunStateError
from clew.graph import Graph
from clew.runtime import Engine, RunResult, crash_points
from clew.runtime.calls.scopes import Asking
from clew.stores import conformance as store_conformance

if TYPE_CHECKING:
    from clew.state.input_types import Values

__all__ = ["Stepper", "VirtualClock", "crash_points", "random_order", "run_in_order", "store_conformance"]


class VirtualClock:
    """A clock that stands still until somebody moves it; drivers do, to the next timer, when all else is done."""

    virtual = True
    boot = "virtual"

    def __init__(self, start: float = 1_700_000_000.0) -> None:
        if not _is_time(start):
            raise ValueError(f"start is a time in seconds since the epoch, not {start!r}")
        self._start = start
        self._now = 0.0

    def time(self) -> float:
        """Seconds since the epoch."""
        return self._start + self._now

    def monotonic(self) -> float:
        """Seconds since the clock was made."""
        return self._now

    def advance(self, to: float) -> None:
        """Move to a time of `monotonic`; never back."""
        if not _is_time(to):
            raise ValueError(f"advance moves to a time in seconds, not {to!r}")
        self._now = max(self._now, to)

    def __repr__(self) -> str:
        return f"VirtualClock(+{self._now:g} s)"


class Stepper:
    """A run that goes on only when told to: ``running`` items complete in the order that you choose."""

    def __init__(
        self,
        graph: Graph | Engine,
        values: Values | None = None,
        *,
        run_id: str | None = None,
        workers: int | None = None,
        **options: Any,
    ) -> None:
        most: Any = workers
        if most is not None and (not isinstance(most, int) or isinstance(most, bool) or most < 1):
            raise ValueError(f"workers is a whole number of at least 1, or None, not {workers!r}")
        if isinstance(graph, Engine):
            if options:
                raise TypeError("give options to the Engine, not to the Stepper")
            self.engine = graph
        else:
            self.engine = Engine(graph, clock=options.pop("clock", VirtualClock()), **options)
        self._session = self.engine.open_session(values, run_id)
        self._workers = workers
        self._running: dict[str, Item] = {}
        self._fill()

    @property
    def running(self) -> list[str]:
        """Paths of the items that were started and have not completed, in the order of their start."""
        return list(self._running)

    def complete(self, path: str) -> None:
        """Execute the item at `path` and let it complete."""
        item = self._pick(path)
        session, attempt = self._session, item.attempt
        try:
            value = session.call(item)
            if item.node.mode in ("async", "async_generator"):
                value = asyncio.run(_awaited(value))
        except (Exception, Asking) as error:
            session.raised(item, attempt, error, session.clock.time(), 0.0)
        else:
            session.returned(item, attempt, value, session.clock.time(), 0.0)
        self._fill()

    def fail(self, path: str, error: Exception) -> None:
        """Let the item at `path` fail with `error`, without executing it."""
        if not isinstance(error, BaseException):
            raise TypeError(f"error is an exception, like ValueError('no'), not {error!r}")
        item = self._pick(path)
        self._session.raised(item, item.attempt, error, self._session.clock.time(), 0.0)
        self._fill()

    def time_out(self, path: str) -> None:
        """Let the item at `path` take too long."""
        item = self._pick(path)
        error = NodeTimeoutError(f"node {item.node.name!r} at {item.path} was timed out by a test")
        self._session.raised(item, item.attempt, error, self._session.clock.time(), 0.0)
        self._fill()

    def finish(self) -> RunResult:
        """End the run where it stands and return its result; what is still running is dropped."""
        if self._running:
            self._session.cancelled = True
        return self.engine.close_session(self._session)

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
    **options: Any,
) -> RunResult:
    """Run a graph, completing its items in the order in which `choose` picks them from those running."""
    if not callable(choose):
        raise TypeError(f"choose is a function that picks one of the paths it is given, not {choose!r}")
    stepper = Stepper(graph, values, run_id=run_id, workers=workers, **options)
    while stepper.running:
        stepper.complete(choose(stepper.running))
    return stepper.finish()


def random_order(seed: int) -> Callable[[Sequence[str]], str]:
    """For `run_in_order`: pick at random, the same way for the same seed."""
    rng = Random(seed)
    return lambda running: running[rng.randrange(len(running))]


def _is_time(value: Any) -> bool:
    return isinstance(value, (int, float)) and isfinite(value)


async def _awaited(value: Any) -> Any:
    return await value
