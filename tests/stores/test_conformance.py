"""All three stores pass the published suite; and the suite finds stores that break its rules."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest

from clew.errors import ClewError
from clew.stores import MemoryStore, RunRow, SQLiteStore, TakenRun, conformance


@pytest.mark.parametrize("check", conformance.checks)
def test_memory(check: conformance.Check) -> None:
    store = MemoryStore()
    check(lambda: store)


@pytest.mark.parametrize("check", [*conformance.checks, *conformance.liveness_checks])
def test_sqlite(check: conformance.Check, tmp_path: Path) -> None:
    check(lambda: SQLiteStore(tmp_path / "runs.db"))


def test_sqlite_that_waits_for_the_disk(tmp_path: Path) -> None:
    check = conformance.optional_features.writes_that_do_not_wait_follow_the_same_rules
    check(lambda: SQLiteStore(tmp_path / "runs.db", synchronous="full"))


@pytest.mark.parametrize("check", [*conformance.checks, *conformance.liveness_checks])
def test_postgres(check: conformance.Check, open_postgres: Callable[[], conformance.Store]) -> None:
    check(open_postgres)


class Forgetful(MemoryStore):
    """Keeps what came before a conflict."""

    def append(self, run_id: str, entries: Sequence[Any], fence: int, **more: Any) -> None:
        for entry in entries:
            super().append(run_id, [entry], fence)
        super().append(run_id, [], fence, **more)


class Trusting(MemoryStore):
    """Does not look at fences."""

    def append(self, run_id: str, entries: Sequence[Any], fence: int, **more: Any) -> None:
        super().append(run_id, entries, self._find(run_id).fence, **more)


class Greedy(MemoryStore):
    """Gives a run to whoever wants it."""

    def claim(self, run_id: str, owner: str, *, lease: float, token: str = "") -> int:
        self._find(run_id).owner = ""
        return super().claim(run_id, owner, lease=lease, token=token)


class Wall:
    """A wall clock, which anybody may set."""

    boot = "none"

    def monotonic(self) -> float:
        return time.time()

    time = monotonic


class Credulous(MemoryStore):
    """Believes the wall clock of whoever asks."""

    def __init__(self) -> None:
        super().__init__(clock=Wall())


class Generous(MemoryStore):
    """Hands out its own rows."""

    def row(self, run_id: str) -> RunRow:
        return self._find(run_id).row


class Unordered(MemoryStore):
    """Lists the log as it came."""

    def entries(self, run_id: str, **more: Any) -> Sequence[Any]:
        return list(self._find(run_id).named.values())


class Hasty(MemoryStore):
    """Lets the last one win."""

    def append(self, run_id: str, entries: Sequence[Any], fence: int, **more: Any) -> None:
        super().append(run_id, [], fence, drop=[entry.name for entry in entries])
        super().append(run_id, entries, fence, **more)


class Reviving(MemoryStore):
    """Lets an owner that was declared dead live on."""

    def renew(self, owner: str, **more: Any) -> None:
        if owner in self._workers:
            self._workers[owner].dead = False
        super().renew(owner, **more)


class Grabbing(MemoryStore):
    """Gives a queued run to everybody who asks."""

    def take(self, owner: str, **more: Any) -> list[TakenRun]:
        for run in self._runs.values():
            if run.entry is not None:
                run.owner, run.entry.taken = "", False
        return super().take(owner, **more)


class Impatient(MemoryStore):
    """Counts every take as a try."""

    def take(self, owner: str, **more: Any) -> list[TakenRun]:
        for run in self._runs.values():
            if run.entry is not None and run.entry.mark is not None:
                run.entry.mark = (len(run.log), len(run.named), hash(frozenset(run.named)))
        return super().take(owner, **more)


class Repeating(MemoryStore):
    """Takes every sending for a new message."""

    def send(self, run_id: str, message_id: str, kind: str, body: Any) -> int:
        return super().send(run_id, f"{message_id} {token_hex(4)}", kind, body)


class Sleepy(MemoryStore):
    """Releases a run without a look at its inbox."""

    def update(self, run_id: str, **given: Any) -> None:
        run = self._find(run_id)
        inbox, run.inbox = run.inbox, {}
        try:
            super().update(run_id, **given)
        finally:
            run.inbox = inbox


class Skipping(MemoryStore):
    """Leaves out a run between two pages."""

    def page(self, *, cursor: str | None = None, **more: Any) -> Any:
        rows, after = super().page(cursor=cursor, **more)
        return (rows if cursor is None else rows[1:]), after


BROKEN = [Forgetful, Trusting, Greedy, Credulous, Generous, Unordered, Hasty]
BROKEN += [Reviving, Grabbing, Impatient, Repeating, Sleepy, Skipping]


@pytest.mark.parametrize("broken", BROKEN)
def test_the_suite_finds(broken: type[MemoryStore]) -> None:
    found = []
    for check in conformance.checks:
        store = broken()
        try:
            check(lambda store=store: store)
        except (AssertionError, ClewError) as error:
            found.append((check.__name__, error))
    assert found
    assert len(found) < len(conformance.checks) / 2  # one fault, not a store that does nothing
