"""Bursts of Ctrl-C: a run is released, whatever the second one hits, and its caller gets KeyboardInterrupt."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from clew import Engine, Graph, MemoryStore, SQLiteStore, node
from clew.stores import Store
from tests.campaigns import PARTS
from tests.runtime import bursts

Press = Callable[[], None]

needs_timers = pytest.mark.skipif(sys.platform != "linux", reason="the bursts use timers of Linux")


def press() -> None:
    signal.raise_signal(signal.SIGINT)


@pytest.fixture(autouse=True)
def _python_handles_interrupts() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    opened = MemoryStore() if request.param == "memory" else SQLiteStore(tmp_path / "runs.db")
    yield opened
    opened.close()


@node(output="b")
def first(a: int) -> int:
    if pressing:
        pressing.pop()()
    return a + 1


@node(output="b", name="first")
async def first_async(a: int) -> int:
    await asyncio.sleep(0)
    if pressing:
        pressing.pop()()
    return a + 1


@node(output="c")
def second(b: int) -> int:
    return 2 * b


pressing: list[Press] = []
SYNC, ASYNC = Graph([first, second]), Graph([first_async, second])


def run(engine: Engine) -> None:
    engine.run({"a": 1}, run_id="r")


def stream(engine: Engine) -> None:
    for _ in engine.stream({"a": 1}, run_id="r"):
        pass


def arun(engine: Engine) -> None:
    asyncio.run(engine.arun({"a": 1}, run_id="r"))


OPERATIONS = ("append", "update", "claim", "release", "owner", "row")


@pytest.mark.parametrize(
    "graph, verb",
    [(SYNC, run), (SYNC, stream), (ASYNC, run), (ASYNC, arun)],
    ids=["run", "stream", "run-async", "arun"],
)
@pytest.mark.parametrize("presses_after", [False, True], ids=["before", "after"])
def test_interrupts_around_each_operation_of_the_store_leave_no_run_stuck(
    monkeypatch: pytest.MonkeyPatch,
    store: Store,
    graph: Graph,
    verb: Callable[[Engine], None],
    presses_after: bool,
) -> None:
    """The first interrupt hits the node. While its run is released, each operation of the store is interrupted."""
    engine = Engine(graph, store=store)
    count = []

    def hammered(operation: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            is_main = threading.current_thread() is threading.main_thread()
            count.append(is_main)
            if is_main and not presses_after:
                press()
            found = operation(*args, **options)
            if is_main and presses_after:
                press()
            return found

        return call

    def begin() -> None:
        kind = type(store)
        for name in OPERATIONS:
            patched.setattr(kind, name, hammered(getattr(kind, name)))
        press()

    pressing.append(begin)
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        verb(engine)
    assert count
    assert store.owner("r") is None
    assert store.row("r").status == "cancelled"
    assert engine.resume("r")["c"] == 4
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    engine.close()


def test_the_handler_of_a_program_gets_the_interrupts(store: Store) -> None:
    """It decides what they mean; here, nothing."""
    heard: list[int] = []
    signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))

    def twice() -> None:
        press()
        press()

    pressing.append(twice)
    with Engine(SYNC, store=store) as engine:
        assert engine.run({"a": 1})["c"] == 4
    assert len(heard) == 2


def test_a_handler_that_raises_ends_the_run(store: Store) -> None:
    class Stopped(BaseException):
        pass

    def stop(number: int, frame: object) -> None:
        raise Stopped

    signal.signal(signal.SIGINT, stop)
    pressing.append(press)
    engine = Engine(SYNC, store=store)
    with pytest.raises(Stopped):
        run(engine)
    assert engine.resume("r")["c"] == 4
    assert signal.getsignal(signal.SIGINT) is stop
    engine.close()


def test_each_interrupt_reaches_a_node_that_hangs(store: Store) -> None:
    reached = []

    def hang() -> None:
        while len(reached) < 5:
            try:
                press()
            except KeyboardInterrupt:
                reached.append("again")
        press()

    pressing.append(hang)
    engine = Engine(SYNC, store=store)
    with pytest.raises(KeyboardInterrupt):
        run(engine)
    assert len(reached) == 5
    assert engine.resume("r")["c"] == 4
    engine.close()


def test_an_interrupt_while_a_thread_starts_is_not_a_failure_of_its_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Python waits for the new thread under a lock, and may then raise RuntimeError instead of the interrupt."""
    start, left = threading.Thread.start, [None]

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        if left:
            left.pop()
            try:
                press()
            except KeyboardInterrupt:
                raise RuntimeError("release unlocked lock") from None

    @node(output="d")
    def beside(a: int) -> int:
        return a

    engine = Engine(Graph([second, beside]), store=MemoryStore())
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            engine.run({"a": 1, "b": 2}, run_id="r")
    assert engine.resume("r")["c"] == 4
    engine.close()


@needs_timers
@pytest.mark.parametrize("verb", bursts.VERBS)
@pytest.mark.parametrize("place", ["memory", "sqlite"])
def test_a_burst_at_any_instant_leaves_no_run_stuck(tmp_path: Path, verb: str, place: str) -> None:
    where = place if place == "memory" else str(tmp_path / "runs.db")
    found = bursts.in_process(verb, where, 60, 1e-4, seed=0)
    assert (found["stuck"], found["others"]) == ({}, {})


@needs_timers
@pytest.mark.slow
@pytest.mark.parametrize("verb", bursts.VERBS)
@pytest.mark.parametrize("place", ["memory", "sqlite", "postgresql"])
@pytest.mark.parametrize("gap", [1e-4, 5e-4, 2e-3])
@pytest.mark.parametrize("part", PARTS)
def test_bursts_leave_no_run_stuck(
    tmp_path: Path, request: pytest.FixtureRequest, verb: str, place: str, gap: float, part: int
) -> None:
    where = place if place == "memory" else str(tmp_path / "runs.db")
    if place == "postgresql":
        where = request.getfixturevalue("server").dsn
    found = bursts.in_process(verb, where, 200, gap, seed=part)
    assert (found["stuck"], found["others"]) == ({}, {})
