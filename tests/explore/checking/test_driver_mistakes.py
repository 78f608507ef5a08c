"""Bugs that an engine could have: the exploration of the drivers finds each of them.

Each test replaces one function of Clew to insert a bug.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from clew.engine.records import FinishedItem, Retry
from clew.errors import ClewError
from clew.runtime.drivers.asyncio_driver import AsyncioDriver
from clew.runtime.drivers.blocking import BlockingDriver
from clew.runtime.drivers.lease_renewal import LeaseRenewer
from clew.runtime.drivers.session import Session
from clew.runtime.execution import RunExecution
from clew.runtime.inspection import read_result
from clew.runtime.log.repository import RunRepository
from clew.runtime.log.writer import LogWriter
from clew.runtime.opener import RunOpener
from clew.stores.memory.store import MemoryStore
from tests.explore.checking.driving.drivers import explore
from tests.explore.checking.test_drivers import case_of

Change = Callable[[Any], Any]
TAKEOVER = {"faults": frozenset({"takeover"})}
CANCEL = {"faults": frozenset({"cancel"})}
LATE = {"faults": frozenset({"timeout"})}


def nothing(right: Any) -> Any:
    """What should happen does not."""
    return lambda *args, **kwargs: None


def unwritten(kind: type) -> Change:
    """Records of a kind are let fall."""

    def change(right: Any) -> Any:
        def write(self: LogWriter, records: Any) -> None:
            kept = [record for record in records if type(record) is not kind]
            if kept:
                right(self, kept)

        return write

    return change


def forgiving(right: Any) -> Any:
    """A write that failed is not the last one."""

    def write(self: LogWriter, records: Any) -> None:
        try:
            right(self, records)
        except Exception:
            self._failure = None
            raise

    return write


def swallowed(right: Any) -> Any:
    """A run that could not be ended in the store is said to have ended."""

    def ending(self: RunExecution, session: Session, broken: BaseException | None = None) -> Any:
        try:
            return (yield from right(self, session, broken))
        except ClewError:
            return read_result(self.opener, session.run_id)

    return ending


def of_any_attempt(right: Any) -> Any:
    """What an attempt says that is over counts."""
    return lambda self, item, attempt, *args: right(self, item, item.attempt, *args)


def forgotten(right: Any) -> Any:
    """Outcomes that were journaled are not used."""

    def machine_at(self: RunOpener, log: Any, *rest: Any) -> Any:
        log.finished = {}
        return right(self, log, *rest)

    return machine_at


MISTAKES: dict[str, tuple[type, str, Change, str, dict[str, Any], str]] = {
    "a recording is not kept": (
        Session,
        "keep",
        nothing,
        "chain",
        {},
        "send#0 was called, and what came of pay#0 is not kept",
    ),
    "a call does not wait for what it builds on": (
        Session,
        "before_call",
        nothing,
        "fan-out",
        {},
        "although what it builds on could not be written",
    ),
    "writing goes on after a write that failed": (
        LogWriter,
        "write",
        forgiving,
        "fan-out",
        {},
        "although what it builds on could not be written",
    ),
    "an outcome is not journaled": (
        LogWriter,
        "write",
        unwritten(FinishedItem),
        "fan-out",
        {},
        "has completed, and what came of it is not kept",
    ),
    "a failed attempt is not kept": (
        LogWriter,
        "write",
        unwritten(Retry),
        "retried",
        {},
        "flaky#0 is at attempt 0 again",
    ),
    "what was journaled is not used": (
        RunOpener,
        "machine_at",
        forgotten,
        "fan-out",
        {},
        "is executed again, although what came of it is kept",
    ),
    "a run is not released": (
        RunRepository,
        "release",
        nothing,
        "chain",
        {},
        "the engine owns the run without knowing",
    ),
    "what could not be released is forgotten": (
        RunOpener,
        "left",
        nothing,
        "chain",
        {},
        "the engine owns the run without knowing",
    ),
    "an error of the store is swallowed at the end": (
        RunExecution,
        "ending",
        swallowed,
        "chain",
        {},
        "and on the disk it is under way",
    ),
    "a run that is gone on with is not under way": (
        RunRepository,
        "begin",
        nothing,
        "fan-out",
        {},
        "the run is under way, and on the disk it is failed",
    ),
    "an owner that was declared dead renews its lease": (
        MemoryStore,
        "renew",
        nothing,
        "nested",
        TAKEOVER,
        "was called again, although what came of it was kept",
    ),
    "a lease is not renewed before a call": (
        LeaseRenewer,
        "_renew",
        nothing,
        "nested",
        TAKEOVER,
        "was called again, although what came of it was kept",
    ),
    "the driver does not hear of a cancellation": (
        BlockingDriver,
        "_nudge",
        nothing,
        "retried",
        CANCEL,
        "was cancelled, and its driver waits for something else",
    ),
    "the loop does not hear of a cancellation": (
        AsyncioDriver,
        "_nudge",
        nothing,
        "retried",
        CANCEL,
        "was cancelled, and its driver waits for something else",
    ),
    "a late result counts": (
        Session,
        "returned",
        of_any_attempt,
        "late",
        LATE,
        "another chain",
    ),
    "a late error counts": (
        Session,
        "raised",
        of_any_attempt,
        "late",
        LATE,
        "another chain",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_it_is_found(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place, name, change, graph, options, message = MISTAKES[mistake]
    driver = "asyncio" if place is AsyncioDriver else "blocking"
    monkeypatch.setattr(place, name, change(getattr(place, name)))
    assert message in explore(case_of(graph, driver, **options), fail_fast=True).violation
