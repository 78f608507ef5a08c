"""The start and the end of a take, for listeners, observers and loggers.

``clew.runtime.reporting.observers`` says what a take is. `Observed` holds the followers of one take, and removes those
that raise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from clew.engine.frame import Item
from clew.runtime.reporting.observers import (
    NO_OBSERVER,
    CallObserver,
    ObservedRun,
    Observer,
    Request,
    RunObserver,
    WorkerObserver,
)

if TYPE_CHECKING:
    from clew.engine.machine import Machine
    from clew.runtime.drivers.session import Session
    from clew.runtime.result import RunResult

_CLAIMS = (1 << 32) - 1  # the part of a fence that counts claims


class Observed:
    """What follows one take."""

    def __init__(self, followers: Iterable[RunObserver]) -> None:
        self._all = list(followers)
        self.surrounds = any(each.surrounds for each in self._all)
        self.allows_fast_path = all(each.has_fast_path or not each.surrounds for each in self._all)

    def _each(self, act: Callable[[RunObserver], Any]) -> None:
        for each in tuple(self._all):
            try:
                act(each)
            except Exception as error:
                self._remove(each, error)

    def _remove(self, follower: RunObserver, error: Exception) -> None:
        from clew.loggers import logger

        logger("events").error("observer %r raised and was removed from this run", follower, exc_info=error)
        if follower in self._all:
            self._all.remove(follower)

    def write(self, records: Sequence[Any]) -> None:
        """Pass on records that were written."""
        for each in tuple(self._all):
            try:
                each.write(records)
            except Exception as error:
                self._remove(each, error)

    def store(self, operation: str, seconds: float) -> None:
        """Pass on the duration of an operation of the store."""
        self._each(lambda each: each.store(operation, seconds))

    def call_item(self, call: Callable[..., Any], item: Item, attempt: int | None) -> Any:
        """Call a node."""
        followers = self._all
        if len(followers) == 1:
            return followers[0].call_item(call, item, attempt)
        for each in tuple(followers):
            call = partial(each.call_item, call)
        return call(item, attempt)

    def surround_fast_path(self, machine: Machine) -> None:
        """Surround the calls of the fast path."""
        for each in self._all:
            if each.surrounds:
                machine.around = partial(each.call_plain, machine.root)

    def elsewhere(self, item: Item | None) -> list[WorkerObserver]:
        """Return what surrounds a node in another process, or the recorded call that is made there now."""
        found: list[WorkerObserver | None] = []
        self._each(
            lambda each: found.append(each.record_elsewhere() if item is None else each.call_elsewhere(item))
        )
        return [each for each in found if each is not None]

    def take_reports(self, item: Item | None, reports: list[Any]) -> None:
        """Pass on the reports of those that `elsewhere` returned."""
        self._each(lambda each: each.take_reports(item, reports))

    @contextmanager
    def serve_elsewhere(self, item: Item) -> Iterator[None]:
        """Surround work that is done here for a node in another process."""
        with ExitStack() as stack:
            self._each(lambda each: stack.enter_context(each.serve_elsewhere(item)))
            yield

    def call_recorded(self, item: Item, name: str, request: Request) -> CallObserver:
        """Return what surrounds a recorded call."""
        found = NO_OBSERVER
        for each in tuple(self._all):
            try:
                observer = each.call_recorded(item, name, request)
                found = found if observer is NO_OBSERVER else observer
            except Exception as error:
                self._remove(each, error)
        return found

    def attach(self) -> None:
        """Surround the driver."""
        self._each(lambda each: each.attach())

    def detach(self) -> None:
        """Stop surrounding the driver."""
        self._each(lambda each: each.detach())

    def end(self, status: str, error: BaseException | None) -> None:
        """Pass on the end of the take. After that, nothing follows it."""
        self._each(lambda each: each.end(status, error))
        self._all.clear()


def begin_take(session: Session, observers: Sequence[Observer], *, attaches: bool) -> None:
    """Begin a take: let observers follow it, and announce it to listeners."""
    if observers:
        _observe(session, observers, attaches)
    if session.listening:
        session.announce(
            "run_started",
            session.start.step,
            graph=session.machine.root.program.graph.name,
            values=session.start.values,
        )


def _observe(session: Session, observers: Sequence[Observer], attaches: bool) -> None:
    run, found = observed_run(session), list[RunObserver]()
    for observer in observers:
        try:
            if (follower := observer.begin(run)) is not None:
                found.append(follower)
        except Exception as error:
            Observed(())._remove(RunObserver(), error)
    if found:
        session.observed = observed = Observed(found)
        session.machine.options = replace(session.machine.options, observed=True)
        if observed.surrounds:
            observed.surround_fast_path(session.machine)
        session.writer.measure(partial(observed.store, "append"))
        if attaches:
            observed.attach()
        else:  # then each call is surrounded
            observed.surrounds = True


def observed_run(session: Session) -> ObservedRun:
    """Return what observers know about the run of a session."""
    return ObservedRun(
        run_id=session.run_id,
        created=session.created,
        graph=session.machine.root.program.graph.name or "",
        is_first=not session.is_resumed and session.fence & _CLAIMS <= 1,
        is_child=session.outer is not None,
    )


def leave_take(session: Session, observed: Observed) -> None:
    """Stop observers from following the take; `session.result` is its result, if it has one."""
    result = session.result
    observed.detach()
    status = "released" if result is None or session.is_drained else result.status
    observed.end(status, result.error if result is not None and status == "failed" else None)


def announce_end(session: Session, result: RunResult, step: int, now: float) -> None:
    """Report the end of a take to loggers and listeners, with the time that the row of the run has."""
    if result.status == "failed" and session.outer is None and result.failures:
        from clew.runtime.reporting.reports import report_failure

        report_failure(session.run_id, session.machine.root.program.graph.name, result.failures[0])
    if session.listening:
        session.send_events()
        status, error = result.status, result.error
        session.announce("run_finished", step, now, status=status, error=error, metrics=result.metrics)
