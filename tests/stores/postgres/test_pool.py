"""The pool: an interrupt at any line of it strands nobody who waits for a connection."""

from __future__ import annotations

import os
from collections.abc import Iterator
from queue import SimpleQueue
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest

from clew.stores.postgres.pool import Loan, Pool
from tests.runtime.interrupting import Aim, interrupt

pytest.importorskip("psycopg")
SOON = 120.0  # seconds; who waits longer waits for ever


class Link:
    """An idle connection, of which the pool needs the descriptor and the status only."""

    def __init__(self) -> None:
        self.closed = False
        self.pgconn = SimpleNamespace(transaction_status=0)
        self._pipe = os.pipe()

    def cursor(self, *, binary: bool) -> Any:
        return None

    def fileno(self) -> int:
        return self._pipe[0]

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            for end in self._pipe:
                os.close(end)


@pytest.fixture
def pool() -> Iterator[Pool]:
    made: Any = Link
    pool = Pool(made, 1)
    yield pool
    pool.close()


def used(pool: Pool, between: Any = lambda: None) -> None:
    """Take a connection and give it back, as a store does."""
    loan = Loan()
    try:
        try:
            pool.take(loan)
            between()
        finally:
            pool.give(loan)
    except BaseException:
        pool.give(loan)
        raise


def waiting(pool: Pool, got: SimpleQueue[str], name: str) -> Thread:
    """Begin to use a connection on another thread."""
    thread = Thread(target=used, args=(pool, lambda: got.put(name)), daemon=True)
    thread.start()
    return thread


def wait_for(pool: Pool, count: int) -> None:
    while len(pool._turns) < count:
        os.sched_yield()


@pytest.mark.parametrize("is_waited_for", [False, True])
def test_an_interrupted_user_leaves_the_connection_to_others(pool: Pool, is_waited_for: bool) -> None:
    got: SimpleQueue[str] = SimpleQueue()
    for n in range(1, 100):
        others: list[Thread] = []

        def meanwhile() -> None:
            if is_waited_for:
                others.append(waiting(pool, got, "waited"))  # noqa: B023
                wait_for(pool, 1)

        aim: Aim = interrupt(n, lambda: used(pool, meanwhile))
        if others:
            assert got.get(timeout=SOON) == "waited"
        waiting(pool, got, "later")
        assert got.get(timeout=SOON) == "later"
        if not aim.has_hit:
            return
    raise AssertionError("there is no end to the lines of a pool")


def test_an_interrupted_waiter_passes_its_turn_on(pool: Pool) -> None:
    got: SimpleQueue[str] = SimpleQueue()
    for n in range(1, 100):
        loan = Loan()
        pool.take(loan)
        aims: list[Aim] = []
        first = Thread(target=lambda: aims.append(interrupt(n, lambda: used(pool))), daemon=True)  # noqa: B023
        first.start()
        while not pool._turns and first.is_alive():
            os.sched_yield()
        is_first = bool(pool._turns)
        waiting(pool, got, "second")
        while got.empty() and len(pool._turns) < 1 + (is_first and first.is_alive()):
            os.sched_yield()
        pool.give(loan)
        assert got.get(timeout=SOON) == "second"
        first.join(SOON)
        assert not first.is_alive()
        if not aims[0].has_hit:
            return
    raise AssertionError("there is no end to the lines of a pool")


def test_a_closed_pool_wakes_all_who_wait(pool: Pool) -> None:
    loan, found = Loan(), SimpleQueue[Any]()
    pool.take(loan)
    for _ in range(3):
        Thread(target=lambda: found.put(pool.take(Loan())), daemon=True).start()
    wait_for(pool, 3)
    pool.close()
    assert [found.get(timeout=SOON) for _ in range(3)] == [None] * 3
    pool.give(loan)
