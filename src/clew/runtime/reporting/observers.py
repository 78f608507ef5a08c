"""Observers: they follow the runs of an engine more closely than listeners do. ``clew.observe`` has some.

Pass an observer as one of the `listeners` of an engine or a worker. A listener gets events. An observer gets the
records that a session writes, and it can run code around the calls of nodes. Rules:

- A *take* is the time in which one process executes a run: from its start or its resumption until it ends, waits or is
  released. `begin` is called once for each take, of runs and of their children, in the thread or task that executes it.
  It returns an object that follows this take, or None; with None, the take has no overhead.
- Records arrive in order, in the thread of the driver, after they were passed to the store.
- A replay has no observers.
- An observer cannot break a run. If it raises, the exception is logged, and it no longer follows this take.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import msgspec

from clew.engine.frame import Frame, Item
from clew.runtime.reporting.events import Listener

Request = tuple[Sequence[Any], Mapping[str, Any]]
"""The arguments of a recorded call."""


class ObservedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run of which a take begins, or which was put into a queue."""

    run_id: str
    created: float  # seconds since the epoch
    graph: str  # its name
    is_first: bool = True  # no earlier take
    is_child: bool = False


class CallObserver:
    """What surrounds one recorded call. It is entered again if the call returned an awaitable, for that time."""

    def __enter__(self) -> CallObserver:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        """End the call, or the part of it that returned an awaitable."""

    def respond(self, response: Any) -> None:
        """Receive the response, before the exit. It may be an awaitable."""


NO_OBSERVER = CallObserver()


class WorkerObserver:
    """What surrounds a call in another process. It is pickled, entered there, and its report is sent back."""

    def __enter__(self) -> WorkerObserver:
        return self

    def __exit__(self, *error: object) -> None:
        """End the call."""

    def report(self) -> Any:
        """Return what the driver has to know after the call; None if that is nothing."""
        return None


class RunObserver:
    """Follows one take of one run. Subclasses override what they need."""

    surrounds = False
    """Whether it runs code around the calls of nodes."""

    has_fast_path = False
    """Whether it can surround the fast path, which has no items: `call_plain`. Otherwise it turns the fast path off."""

    def write(self, records: Sequence[Any]) -> None:
        """Receive records of the session: steps, finished items, retries, questions, failed attempts."""

    def store(self, operation: str, seconds: float) -> None:
        """Receive the duration of an operation of the store."""

    def call_item(self, call: Callable[..., Any], item: Item, attempt: int | None) -> Any:
        """Call a node: return ``call(item, attempt)``, which is an awaitable for an async node. From any thread."""
        return call(item, attempt)

    def call_plain(self, frame: Frame, number: int, func: Callable[..., Any]) -> Callable[..., Any]:
        """Return what is called in place of the function of a node in the next step, on the fast path."""
        return func

    def call_elsewhere(self, item: Item) -> WorkerObserver | None:
        """Return what surrounds the call of a node in another process; None without need."""
        return None

    def record_elsewhere(self) -> WorkerObserver | None:
        """Return what surrounds a recorded call that is made in another process; its observer is entered here."""
        return None

    def take_reports(self, item: Item | None, reports: list[Any]) -> None:
        """Receive the reports of a node in another process, or of a recorded call, whose observer is entered here."""

    def serve_elsewhere(self, item: Item) -> AbstractContextManager[Any]:
        """Return what surrounds work that is done here for a node in another process: its calls, and its children."""
        return nullcontext()

    def call_recorded(self, item: Item, name: str, request: Request) -> CallObserver:
        """Return what surrounds a recorded call that is made now. From any thread."""
        return NO_OBSERVER

    def attach(self) -> None:
        """Begin to surround the driver itself, in its thread or task."""

    def detach(self) -> None:
        """End what `attach` began."""

    def end(self, status: str, error: BaseException | None) -> None:
        """Receive the end of the take: the status of the run, or "released" if another process continues it."""


class Observer:
    """Follows all runs of an engine. Subclasses override what they need."""

    def begin(self, run: ObservedRun) -> RunObserver | None:
        """Return what follows a take of a run; None if nothing does."""
        return None

    def submit(self, run: ObservedRun) -> None:
        """Receive a run that was put into a queue, where that happened."""

    def store(self, operation: str, seconds: float) -> None:
        """Receive the duration of an operation of the store that belongs to no run."""

    def renew(self, is_renewed: bool) -> None:
        """Receive the outcome of a lease renewal."""


Followers = Sequence[Listener | Observer]
"""The listeners of an engine: functions that take an event, and observers."""


def split(followers: Followers) -> tuple[tuple[Listener, ...], tuple[Observer, ...]]:
    """Return the functions, and the observers."""
    observers = tuple(each for each in followers if isinstance(each, Observer))
    return tuple(each for each in followers if not isinstance(each, Observer)), observers
