"""Submit a run: store it with its place in a queue, in one transaction, and execute nothing.

A worker that has the graph takes the run (``clew.runtime.workers``). The values are checked here, in the same way as
in `Engine.run`. A submitted run is a new run, or the next run of a thread whose last run has stopped.
"""

from __future__ import annotations

import math
from collections.abc import Container
from datetime import datetime
from typing import TYPE_CHECKING, Any

from clew.errors import InputError, RunStateError
from clew.graph.names import is_text
from clew.held_interrupts import HeldInterrupts
from clew.runtime.derived_runs import DerivedRunOpener
from clew.runtime.drivers.session import Session
from clew.runtime.drivers.take import observed_run
from clew.runtime.log.reader import StoredRun
from clew.runtime.log.registration import NewRun, Registration, registered
from clew.runtime.opener import NO_ANSWER, RunOpener
from clew.runtime.run_ids import checked_run_id, new_run_id
from clew.runtime.settings import read_settings
from clew.runtime.turns.threads import HeadRules, ThreadOpener, check_thread
from clew.state.number_checks import is_int, is_number
from clew.stores import QueueEntry, RunRow, Store

if TYPE_CHECKING:
    from clew.state.input_types import Values

_AGAIN = ("queued", "running", "paused", "failed", "cancelled")  # of runs that can be put into a queue
_PAST = 60.0  # seconds by which the clocks of two machines may differ
_LONGEST = 200  # characters of a queue name
_LARGEST = 2**31 - 1  # the largest priority number
_LATEST = 253_402_300_800.0  # the year 10,000: no datetime is later


def put(
    opener: ThreadOpener,
    live: Container[str],
    values: Values | None,
    queue: Any,
    priority: Any,
    at: Any,
    run_id: str | None,
    thread: str | None,
    attributes: Any,
) -> str:
    """Store a run and its entry in a queue; return its id. `live` are the runs that the engine executes."""
    _ = opener.graph  # raises without one
    due = read_time(at, opener.settings.clock.time())
    entry = QueueEntry(check_queue(queue), _checked_priority(priority), due)
    run = NewRun(new_run_id(run_id), registration=registered(attributes, queue=entry))
    if thread is None:
        session = opener.begin(values, run)
    else:
        session = opener.turn(check_thread(thread), values, run, HeadRules(live))
    for observer in opener.observers:
        observer.submit(observed_run(session))
    return run.run_id


def put_again(
    opener: RunOpener,
    run_id: str,
    queue: Any = None,
    priority: Any = None,
    at: Any = None,
    *,
    live: Container[str] = (),
) -> str:
    """Put a run that has stopped into a queue; it continues where it stopped."""
    if run_id in live:
        raise RunStateError(f"run {run_id!r} is running here, so it cannot be put into a queue")
    due = read_time(at, opener.settings.clock.time())
    where = "" if queue is None else check_queue(queue)
    level = None if priority is None else _checked_priority(priority)
    status = opener.store.row(run_id).status
    if status not in _AGAIN:
        raise RunStateError(
            f"run {run_id!r} is {status} and cannot be put into a queue; only a run that failed, was cancelled, is "
            f"paused, or whose process has died can be"
        )
    found = opener.again(run_id, NO_ANSWER, None, False, unless_completed=True)
    if not isinstance(found, Session):
        raise RunStateError(f"run {run_id!r} has nothing left to do; see engine.result({run_id!r})")
    try:
        opener.store.enqueue(run_id, found.fence, status="queued", due=due, queue=where, priority=level)
    except BaseException as error:
        with HeldInterrupts(error):
            opener.give_up(run_id, found.owner)
        raise
    return run_id


class QueueingOpener(DerivedRunOpener):
    """Opens runs to put them into a queue, with graphs without code, made from the descriptions of the runs."""

    def check_structure(self, row: RunRow, accept_changes: bool = False) -> None:
        """Do nothing: the graph is that of the run, and the worker that takes the run compares the code."""


def queueing_opener(store: Store, run: StoredRun) -> QueueingOpener:
    """Return an opener for one run."""
    target = run.row.target
    return QueueingOpener(
        run.graph, store, read_settings({"import_string": target} if target else {}, store), ()
    )


def queue_fork(run: StoredRun, step: int | str | None, run_id: str) -> None:
    """Put a fork of a run into the queue of that run, or into the default one; a worker executes it."""
    parent, store = run.row.run_id, run.store
    place = store.entry(parent)
    entry = QueueEntry() if place is None else QueueEntry(place.queue, place.priority)
    registration = Registration(queue=entry, codes=run.accepted.codes)
    opener = queueing_opener(store, run)
    opener.forked(parent, step, None, NewRun(checked_run_id(run_id), registration=registration))


def check_queue(name: Any) -> str:
    """Return the name of a queue if it is valid; raise InputError otherwise."""
    if (
        type(name) is not str
        or not name
        or len(name) > _LONGEST
        or not (name.isprintable() and is_text(name))
        or "," in name
        or name != name.strip()
    ):
        raise InputError(
            f"queue must be a name of 1 to {_LONGEST} characters without commas, control characters and blanks around "
            f"it, got {name!r}"
        )
    return name


def _checked_priority(priority: Any) -> int:
    if not is_int(priority) or not -_LARGEST <= priority <= _LARGEST:
        raise InputError(
            f"priority must be an int of at most 32 bits (the lowest number goes first), got {priority!r}"
        )
    return priority


def read_time(at: Any, now: float) -> float | None:
    """Return a time as seconds since the epoch. Raise InputError for a naive or invalid one, or one in the past."""
    if at is None:
        return None
    if isinstance(at, datetime):
        if at.tzinfo is None or at.utcoffset() is None:
            raise InputError(
                f"at={at!r} has no time zone; write datetime(..., tzinfo=timezone.utc), or at.astimezone() for local "
                f"time"
            )
        seconds = at.timestamp()
    elif is_number(at) and math.isfinite(at):
        seconds = float(at)
    else:
        raise InputError(
            f"at must be a datetime with a time zone, or seconds since the epoch, got {at!r}; leave it out to run now"
        )
    if seconds < now - _PAST:
        raise InputError(
            f"at={at!r} is {now - seconds:.0f} s in the past; leave it out to run now, or add a delay to time.time()"
        )
    if seconds >= _LATEST:
        raise InputError(
            f"at={at!r} is after the year 9999; give seconds since the epoch, not milliseconds, or leave it out to run "
            f"now"
        )
    return seconds
