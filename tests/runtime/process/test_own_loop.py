"""Sync methods inside a running event loop, as in a notebook."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from clew import Engine, Graph, SQLiteStore, interrupt, node
from clew.runtime.process.own_loop import run_coroutine
from clew.testing import Stepper

USER: ContextVar[str] = ContextVar("user", default="nobody")


@node(output="b")
def plain(a: int) -> tuple[int, int]:
    return a + 1, threading.get_ident()


@node(output="b")
async def later(a: int) -> Any:
    await asyncio.sleep(0)
    user = USER.get()
    USER.set("changed")
    return a + 1, threading.get_ident(), user, asyncio.get_running_loop()


@interrupt
def ok(b: Any) -> str:
    return "ok?"


def inside(work: Callable[[], Any]) -> Any:
    """Call a function on a running loop."""

    async def main() -> Any:
        USER.set("somebody")
        outer = asyncio.get_running_loop()
        found = work()
        assert asyncio.get_running_loop() is outer
        await asyncio.sleep(0)  # the outer loop still works
        assert USER.get() == "somebody"
        return found

    return asyncio.run(main())


def test_a_sync_graph_runs_inline() -> None:
    result = inside(lambda: Graph([plain]).run(a=1))
    assert result["b"] == (2, threading.get_ident())


def test_an_async_graph_runs_on_a_thread_with_the_callers_context() -> None:
    value, thread, user, loop = inside(lambda: Graph([later]).run(a=1))["b"]
    assert (value, user) == (2, "somebody")
    assert thread != threading.get_ident()
    assert loop.is_closed()


@node(output="b")
def up(a: int) -> int:
    return a + 1


@node(output="b")
async def up_later(a: int) -> int:
    await asyncio.sleep(0)
    return a + 1


@pytest.mark.parametrize("function", [up, up_later])
def test_every_verb_of_an_engine(function: Any, tmp_path: Path) -> None:
    def work() -> None:
        with Engine(Graph([function, ok]), store=SQLiteStore(tmp_path / "runs.db")) as engine:
            assert engine.run({"a": 1}, run_id="r").status == "waiting"
            assert engine.resume("r", answer=True)["ok"] is True
            assert engine.fork("r", step=0, values={"a": 5}, run_id="f").status == "waiting"
            assert engine.resume("f", answer=False)["b"] == 6
            assert engine.rerun("r", values={"a": 7})["b"] == 8
            assert [event.kind for event in engine.stream({"a": 1})][-1] == "run_finished"
            assert engine.replay("f").ok
            assert engine.state("f").get("a") == 5

    inside(work)


def test_a_stepper() -> None:
    def work() -> Any:
        stepper = Stepper(Graph([later]), {"a": 1})
        stepper.complete("later#0")
        return stepper.finish()

    assert inside(work)["b"][0] == 2


def test_an_error_of_the_coroutine_is_raised() -> None:
    async def fails() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        inside(lambda: run_coroutine(fails))
    with pytest.raises(ValueError, match="no"):
        run_coroutine(fails)


def test_an_interrupt_cancels_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    started, cancelled = threading.Event(), threading.Event()

    @node(output="b")
    async def waits(a: int) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    join, interrupts = threading.Thread.join, iter([KeyboardInterrupt])

    def interrupted(thread: threading.Thread, timeout: float | None = None) -> None:
        if thread.name == "clew-loop" and next(interrupts, None):
            started.wait()
            raise KeyboardInterrupt
        join(thread, timeout)

    monkeypatch.setattr(threading.Thread, "join", interrupted)
    engine = Engine(Graph([waits]))
    with pytest.raises(KeyboardInterrupt):
        inside(lambda: engine.run({"a": 1}, run_id="r"))
    assert cancelled.is_set()
    assert engine.result("r").status == "cancelled"


def test_an_interrupt_before_the_loop_started_cancels_it(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    async def never() -> None:
        made.append("started")

    gate = threading.Event()
    join, run, interrupts = threading.Thread.join, asyncio.run, iter([KeyboardInterrupt])

    def interrupted(thread: threading.Thread, timeout: float | None = None) -> None:
        if thread.name == "clew-loop" and next(interrupts, None):
            raise KeyboardInterrupt
        gate.set()
        join(thread, timeout)

    def late(main: Any) -> Any:
        if threading.current_thread().name == "clew-loop":
            gate.wait()
        return run(main)

    monkeypatch.setattr(threading.Thread, "join", interrupted)
    monkeypatch.setattr(asyncio, "run", late)
    with pytest.raises(KeyboardInterrupt):
        inside(lambda: run_coroutine(never))
    assert made == []


def test_an_interrupt_before_the_task_of_a_loop_begins_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    """asyncio.run forgets one that comes when it has installed its handler, and raises CancelledError."""
    install = signal.signal
    before = install(signal.SIGINT, signal.default_int_handler)

    def interrupted(number: int, handler: Any) -> Any:
        previous = install(number, handler)
        if handler is not signal.default_int_handler:
            signal.raise_signal(signal.SIGINT)
        return previous

    try:
        with monkeypatch.context() as patched:
            patched.setattr(signal, "signal", interrupted)
            with pytest.raises(KeyboardInterrupt):
                run_coroutine(partial(later.func, 1))
    finally:
        signal.signal(signal.SIGINT, before)
