"""Bursts of SIGINT, as of a person who hammers Ctrl-C: six signals of kernel timers from a random instant of a run on.

``python -m tests.runtime.bursts VERB PLACE COUNT GAP SEED`` executes runs in a store, each with a burst, and prints how
many runs a burst has hit, which of them are stuck, and which other exception than KeyboardInterrupt came out. A stuck
run is one that another store object cannot claim at once, or that the same engine cannot resume. GAP is the mean time
between two signals in microseconds.

It is a process of its own, because signals arrive in the main thread, wherever that is.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from clew import Context, Engine, Graph, MemoryStore, PostgresStore, SQLiteStore, node
from clew.errors import ClewError, UnknownRunError
from clew.stores import Store

SIZE = 6
_MONOTONIC, _SIGNAL = 1, 0
_MAY_BE = ("cancelled", "completed")


@node(output="b")
def first(a: int) -> int:
    return a + 1


@node(output="c")
def second(b: int, ctx: Context) -> int:
    return int(ctx.record("double", lambda: 2 * b))


@node(output="c", name="second")
async def second_async(b: int, ctx: Context) -> int:
    async def double() -> int:
        return 2 * b

    return int(await ctx.record("double", double))


@node(output="c")
def beside(a: int) -> int:
    return a + 3


@node(output="d")
def last(b: int, c: int) -> int:
    return b + c


def run(engine: Engine, run_id: str) -> None:
    engine.run({"a": 1}, run_id=run_id)


def stream(engine: Engine, run_id: str) -> None:
    for _ in engine.stream({"a": 1}, run_id=run_id):
        pass


VERBS: dict[str, tuple[Graph, Callable[[Engine, str], None]]] = {
    "run": (Graph([first, second, last]), run),
    "run-threads": (Graph([first, beside, last]), run),
    "run-async": (Graph([first, second_async, last]), run),
    "stream": (Graph([first, second, last]), stream),
    "stream-async": (Graph([first, second_async, last]), stream),
}


class _Event(ctypes.Structure):
    _fields_ = (
        ("value", ctypes.c_void_p),
        ("signal", ctypes.c_int),
        ("notify", ctypes.c_int),
        ("rest", ctypes.c_char * 48),
    )


class _Times(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_long) for name in ("again", "again_ns", "first", "first_ns"))


class Burst:
    """Timers of the kernel, which send a signal each."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None)
        self._timers = [ctypes.c_void_p() for _ in range(SIZE)]
        event = _Event(None, signal.SIGINT, _SIGNAL)
        for timer in self._timers:
            assert not self._libc.timer_create(_MONOTONIC, ctypes.byref(event), ctypes.byref(timer))

    def during(self, work: Callable[[], object], seconds: list[float]) -> list[BaseException]:
        """Do work while signals come at these times; return the error that came out, and interrupts after it."""
        errors = list[BaseException]()
        try:
            try:
                try:
                    signal.signal(signal.SIGINT, signal.default_int_handler)
                    self._set(seconds)
                    work()
                except BaseException as error:
                    errors.append(error)
                self._stop()
            except KeyboardInterrupt as late:
                errors.append(late)
            self._stop()
        except KeyboardInterrupt as late:
            errors.append(late)
        self._stop()
        return errors

    def _stop(self) -> None:
        """Stop the timers, and ignore a signal that comes late, through another thread."""
        while True:
            try:
                signal.signal(signal.SIGINT, lambda number, frame: None)
                self._set([0.0] * SIZE)
                return
            except KeyboardInterrupt:
                pass

    def _set(self, seconds: list[float]) -> None:
        """Send the signals after these times; 0 is never."""
        times = [_Times(0, 0, 0, int(each * 1e9)) for each in seconds]
        for timer, each in zip(self._timers, times):
            self._libc.timer_settime(timer, 0, ctypes.byref(each), None)


def opened(place: str) -> tuple[Store, Store]:
    """Return a store, and how another process sees it."""
    if place == "memory":
        store = MemoryStore()
        return store, store
    make = SQLiteStore if place.endswith(".db") else PostgresStore
    return make(place), make(place)


def reason_of_stuck(engine: Engine, other: Store, run_id: str) -> str:
    """Return why a run cannot be resumed now; "" if it can."""
    try:
        if other is not engine.store:
            other.release(run_id, other.claim(run_id, "another process", lease=30.0))
        status = other.row(run_id).status
        if status not in _MAY_BE:
            return status
        return "" if engine.resume(run_id)["d"] == 6 else "another result"
    except UnknownRunError:
        return ""  # it had not begun
    except ClewError as error:
        return repr(error)


def typical_time(verb: Callable[[Engine, str], None], engine: Engine) -> float:
    times = []
    for number in range(20):
        began = time.perf_counter()
        verb(engine, f"typical-{os.getpid()}-{number}")
        times.append(time.perf_counter() - began)
    return sorted(times)[len(times) // 2]


def campaign(name: str, place: str, count: int, gap: float, seed: int) -> dict[str, Any]:
    chance, burst = random.Random(seed), Burst()
    (graph, verb), (store, other) = VERBS[name], opened(place)
    engine = Engine(graph, store=store)
    length = typical_time(verb, engine)
    hits, stuck, others = 0, dict[str, str](), dict[str, str]()
    for number in range(count):
        run_id = f"{name}-{seed}-{os.getpid()}-{number}"
        times = [1e-5 + chance.random() * length]
        while len(times) < SIZE:
            times.append(times[-1] + chance.random() * 2 * gap)
        errors = burst.during(partial(verb, engine, run_id), times)
        if errors:
            hits += 1
            if not isinstance(errors[0], KeyboardInterrupt):
                others[run_id] = repr(errors[0])
            if reason := reason_of_stuck(engine, other, run_id):
                stuck[run_id] = reason
    return {"hits": hits, "stuck": stuck, "others": others}


def in_process(name: str, place: str, count: int, gap: float, seed: int) -> dict[str, Any]:
    """Execute a campaign in a process of its own."""
    command = [sys.executable, "-m", "tests.runtime.bursts", name, place, str(count), str(gap), str(seed)]
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    print(json.dumps(campaign(*sys.argv[1:3], int(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5]))))
    sys.stdout.flush()
    os._exit(0)  # what interrupted event loops left prints warnings when it is collected
