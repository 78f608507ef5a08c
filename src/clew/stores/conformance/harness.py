"""Helpers for conformance checks: opening stores, making entries, and expectations."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from hashlib import sha256
from typing import Any

from clew.errors import ClewError
from clew.stores.protocol import LogEntry, RunRow, Store

OpenStore = Callable[[], Store]
Check = Callable[[OpenStore], None]

checks: list[Check] = []
liveness_checks: list[Check] = []

LEASE = 3600.0  # seconds; no check takes that long
LONG = "å€🧵" * 3_334  # 10,002 characters, more in bytes
NAMES = (
    "r",
    "with space and 'quotes\"; --",
    "Ünïcödé",
    "🧵🪡",
    "a/b#1[3]/c",
    "%s ? :x $1",
    "\\",
    "\u202e",
    LONG,
)


def check(function: Callable[[StoreHarness], None], into: list[Check] = checks) -> Check:
    """Add a check to the suite."""

    @wraps(function)
    def checked(open_store: OpenStore) -> None:
        place = StoreHarness(open_store)
        try:
            function(place)
        finally:
            for store in place.stores:
                store.close()

    into.append(checked)
    return checked


def liveness_check(function: Callable[[StoreHarness], None]) -> Check:
    """Add a check to the suite for stores that can detect dead owners."""
    return check(function, liveness_checks)


class StoreHarness:
    """Opens the stores of a check, and closes them at the end."""

    def __init__(self, open_store: OpenStore) -> None:
        self._open_store = open_store
        self.stores: list[Store] = []

    def open(self) -> Store:
        """Open another store on the same storage."""
        self.stores.append(self._open_store())
        return self.stores[-1]

    def owned(self, run_id: str = "r", owner: str = "me") -> tuple[Store, int]:
        """Return a store with a run that `owner` has claimed for longer than a check takes, and the fence."""
        store = self.open()
        store.create(RunRow(run_id))
        return store, store.claim(run_id, owner, lease=LEASE)


def an_entry(
    n: int = 1, body: bytes = b"{}", *, kind: str = "step", path: str = "", digest: bytes | None = None
) -> LogEntry:
    return LogEntry(kind, path, n, body, sha256(body).digest() if digest is None else digest)


@contextmanager
def refuses(*errors: type[ClewError]) -> Iterator[None]:
    try:
        yield
    except errors:
        return
    raise AssertionError(f"{' or '.join(error.__name__ for error in errors)} was not raised")


def expect(found: Any, expected: Any, what: str) -> None:
    assert found == expected, f"{what}: expected {_short(expected)}, found {_short(found)}"


@contextmanager
def wall_clock(shift: float) -> Iterator[None]:
    """Shift `time.time`, as on a machine whose clock is set incorrectly."""
    real = time.time
    time.time = lambda: real() + shift
    try:
        yield
    finally:
        time.time = real


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 500 else f"{text[:500]}… ({len(text)} characters)"


def names(entries: Any) -> list[tuple[str, str, int]]:
    return [entry.name for entry in entries]


def concurrently(work: Callable[[int], None], count: int) -> None:
    """Call `work` in several threads that start together; raise the first error."""
    start, errors = threading.Barrier(count), list[BaseException]()

    def run(i: int) -> None:
        start.wait()
        try:
            work(i)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
