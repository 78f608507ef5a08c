"""How long an event loop stands still beside a run whose store does not answer.

A ticker wakes up every 20 ms while a run with one async node goes on. The node leaves its store shut: another program
has the SQLite file locked for four seconds, or the PostgreSQL server is stopped and started again. The longest time
between two ticks is the sample. The floor is the ticker beside a coroutine that waits as long for nothing: what the
machine itself takes.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager

from benchmarks.contestants import CLEW, FLOOR, Contestant
from benchmarks.places import Place, postgres_place, sqlite_place
from benchmarks.rows import Bar, Outcome, Result, Row, Settings

TICK = 0.02
SHUT = 4.0  # seconds
QUICK_SHUT = 1.0
ROUNDS = 3
BAR = Bar(limit=50.0)

Shut = Callable[[], None]
"""Keeps everybody from the store for a while, from when it returns."""


def stall(contestants: tuple[Contestant, ...], settings: Settings) -> Iterator[Result]:
    seconds = QUICK_SHUT if settings.quick else SHUT
    entered = [each for each in contestants if each.name in (FLOOR, CLEW)]
    title = f"longest gap of a {TICK * 1e3:g} ms ticker beside a run, SQLite locked for {seconds:g} s"
    row = Row("stall-sqlite", "stall", title, "ms", BAR)
    yield Result(row, tuple(_stalled(each, seconds, sqlite_place("normal"), locking) for each in entered))
    title = f"longest gap of a {TICK * 1e3:g} ms ticker beside a run, PostgreSQL restarted"
    row = Row("stall-postgres", "stall", title, "ms", BAR)
    yield Result(row, tuple(_stalled(each, seconds, postgres_place(), restarting) for each in entered))


@contextmanager
def locking(place: Place, seconds: float) -> Iterator[Shut]:
    """Another program, with a write transaction of its own."""
    file = place.file("stall")
    with closing(sqlite3.connect(file, isolation_level=None, check_same_thread=False)) as other:

        def shut() -> None:
            other.execute("BEGIN IMMEDIATE")
            threading.Timer(seconds, lambda: other.execute("COMMIT")).start()

        yield shut


@contextmanager
def restarting(place: Place, seconds: float) -> Iterator[Shut]:
    """A server that goes away and comes back."""

    def shut() -> None:
        place.server.stop()
        threading.Timer(seconds, place.server.start).start()

    yield shut


def _stalled(
    contestant: Contestant,
    seconds: float,
    where: AbstractContextManager[Place],
    shutting: Callable[[Place, float], AbstractContextManager[Shut]],
) -> Outcome:
    """A gap, not a time: a few runs, each with the store shut once."""
    if contestant.module is None:
        return Outcome(contestant.name, "missing", note=contestant.problem)
    workload = contestant.workload("stall")
    if workload is None:
        return Outcome(contestant.name, "absent", note=contestant.excuse("stall"))
    try:
        with where as place, place.open, shutting(place, seconds) as shut:
            run = workload(place, shut, seconds)
            return Outcome(contestant.name, "measured", tuple(asyncio.run(_gap(run)) for _ in range(ROUNDS)))
    except ImportError as error:
        return Outcome(contestant.name, "missing", note=str(error))
    except Exception as error:  # as in measure: what breaks is reported, and the others go on
        return Outcome(contestant.name, "failed", note=f"{type(error).__name__}: {error}")


async def _gap(run: Callable[[], Awaitable[object]]) -> float:
    """The longest time between two ticks while a run goes on, in milliseconds."""
    longest, last = 0.0, time.perf_counter()
    running = asyncio.ensure_future(run())
    while not running.done():
        await asyncio.wait([running], timeout=TICK)
        now = time.perf_counter()
        longest, last = max(longest, now - last), now
    await running
    return 1e3 * longest
