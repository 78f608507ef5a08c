"""Turns of threads by every method that starts a run, while the last run of the thread has not ended."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from clew import Engine, Graph, SQLiteStore, interrupt, node
from clew.errors import (
    GraphWarning,
    InputError,
    RunCancelledError,
    RunExistsError,
    RunStateError,
    ThreadBusyError,
)
from clew.stores import Store
from tests.runtime.chats import Chat, Gate, chat_gate
from tests.store_fixtures import local_store

gate = chat_gate


store = local_store


@pytest.fixture
def engine(store: Store, gate: Gate) -> Iterator[Engine]:
    @node(output="messages")
    def reply(messages: list[str]) -> list[str]:
        if messages[-1] == "slow":
            gate.pass_through()
        return [f"re: {messages[-1]}"]

    with Engine(Graph([reply], state=Chat), store=store) as made:
        yield made


def in_background(act: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    """Call a function on a thread; its result, or its error, is in the list."""
    found = list[Any]()

    def call() -> None:
        try:
            found.append(act())
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    return thread, found


@pytest.fixture
def busy(engine: Engine, gate: Gate) -> tuple[threading.Thread, list[Any]]:
    """A thread "t" with the finished run "r1", whose run "slow" is running."""
    engine.run({"messages": ["one"]}, thread="t", run_id="r1")
    running = in_background(lambda: engine.run({"messages": ["slow"]}, thread="t", run_id="slow"))
    assert gate.is_reached.wait(300)
    return running


SAID = ["one", "re: one", "slow", "re: slow", "two", "re: two"]


# -- streams and handles ----------------------------------------------------------------------------------------------


def test_a_stream_continues_a_thread(engine: Engine) -> None:
    engine.run({"messages": ["one"]}, thread="t")
    events = list(engine.stream({"messages": ["two"]}, thread="t", run_id="r2"))
    assert (events[0].kind, events[-1].kind, events[-1].status) == (
        "run_started",
        "run_finished",
        "completed",
    )
    assert engine.thread("t").head == "r2"
    assert engine.state("r2").get("messages") == ["one", "re: one", "two", "re: two"]


def test_a_stream_on_an_event_loop_continues_a_thread(engine: Engine) -> None:
    async def main() -> list[str]:
        await engine.arun({"messages": ["one"]}, thread="t")
        return [event.kind async for event in engine.astream({"messages": ["two"]}, thread="t", run_id="r2")]

    assert asyncio.run(main())[-1] == "run_finished"
    assert engine.thread("t").head == "r2"
    assert len(engine.state("r2").get("messages")) == 4


def test_a_stream_waits_for_the_thread(engine: Engine, gate: Gate, busy: Any) -> None:
    with pytest.raises(ThreadBusyError):
        engine.stream({"messages": ["two"]}, thread="t", on_busy="refuse")
    with pytest.raises(ThreadBusyError):
        engine.stream({"messages": ["two"]}, thread="t", timeout=0.05)
    thread, found = in_background(lambda: list(engine.stream({"messages": ["two"]}, thread="t", run_id="r2")))
    gate.is_open.set()
    thread.join(300)
    assert found[0][-1].status == "completed"
    assert engine.thread("t").state.get("messages") == SAID


def test_a_stream_on_an_event_loop_waits_without_blocking_it(engine: Engine, gate: Gate, busy: Any) -> None:
    async def main() -> list[str]:
        async def stream() -> list[str]:
            return [event.kind async for event in engine.astream({"messages": ["two"]}, thread="t")]

        with pytest.raises(ThreadBusyError):
            async for _ in engine.astream({"messages": ["two"]}, thread="t", on_busy="refuse"):
                pass
        streaming = asyncio.ensure_future(stream())
        await asyncio.sleep(0)
        gate.is_open.set()  # the loop runs while the stream waits
        return await streaming

    assert asyncio.run(main())[-1] == "run_finished"
    assert engine.thread("t").state.get("messages") == SAID


def test_a_handle_waits_for_the_thread_in_the_background(engine: Engine, gate: Gate, busy: Any) -> None:
    with pytest.raises(ThreadBusyError):
        engine.start({"messages": ["two"]}, thread="t", on_busy="refuse")
    handle = engine.start({"messages": ["two"]}, thread="t", run_id="r2")
    assert handle.status == "running"  # it has not started yet
    gate.is_open.set()
    assert handle.result(300)["messages"] == SAID
    assert [event.kind for event in handle.events()][-1] == "run_finished"
    assert engine.thread("t").head == "r2"


def test_a_handle_that_waits_for_a_thread_in_vain(engine: Engine, gate: Gate, busy: Any) -> None:
    handle = engine.start({"messages": ["two"]}, thread="t", timeout=0.05)
    with pytest.raises(ThreadBusyError):
        handle.result(300)
    with pytest.raises(ThreadBusyError):
        list(handle.events())
    handle = engine.start({"messages": ["two"]}, thread="t", run_id="r2")
    assert handle.cancel()
    with pytest.raises(RunCancelledError):
        handle.result(300)
    gate.is_open.set()
    busy[0].join(300)
    assert engine.thread("t").head == "slow"  # the cancelled run never started


def test_a_handle_on_an_event_loop_waits_for_the_thread(engine: Engine, gate: Gate, busy: Any) -> None:
    async def main() -> Any:
        with pytest.raises(ThreadBusyError):
            await engine.start({"messages": ["two"]}, thread="t", on_busy="refuse")
        handle = engine.start({"messages": ["two"]}, thread="t")
        await asyncio.sleep(0)
        gate.is_open.set()
        return await handle

    assert asyncio.run(main())["messages"] == SAID


def test_the_options_of_a_turn_are_checked(engine: Engine) -> None:
    for method in (engine.run, engine.start, engine.stream):
        with pytest.raises(InputError):
            method({"messages": ["a"]}, timeout=1)
        with pytest.raises(InputError):
            method({"messages": ["a"]}, thread="t", on_busy="never")
        with pytest.raises(InputError):
            method({"messages": ["a"]}, thread="t", tiemout=1)
    with pytest.raises(InputError):
        engine.stream(run_id="r", resume=True, thread="t")
    with pytest.raises(InputError):
        engine.fork("r", drop=True)
    assert engine.runs() == []


@pytest.mark.parametrize("how", ["start", "stream", "fork"])
def test_a_lost_turn_is_resumed_first(tmp_path: Path, how: str) -> None:
    @node(output="messages")
    def reply(messages: list[str]) -> list[str]:
        return [f"re: {messages[-1]}"]

    chat, path = Graph([reply], state=Chat), tmp_path / "runs.db"
    dying = Engine(chat, store=SQLiteStore(path))
    dying.run({"messages": ["one"]}, thread="t", run_id="r1")
    events = dying.stream({"messages": ["lost"]}, thread="t", run_id="lost")
    next(events)
    dying.store.close()  # as if its process had died
    with Engine(chat, store=SQLiteStore(path)) as engine:
        assert engine.thread("t").status == "running"
        if how == "start":
            engine.start({"messages": ["two"]}, thread="t", run_id="r2").result(300)
        elif how == "stream":
            assert (
                list(engine.stream({"messages": ["two"]}, thread="t", run_id="r2"))[-1].status == "completed"
            )
        else:
            engine.fork("r1", thread="t", run_id="r2")
        assert engine.result("lost").status == "completed"
        said = engine.thread("t").state.get("messages")
        lost = ["lost", "re: lost"] if how != "fork" else []
        assert said == ["one", "re: one", *lost, *([] if how == "fork" else ["two", "re: two"])]
    with pytest.raises(Exception, match="closed"):
        list(events)


# -- open work that is dropped -------------------------------------------------------------------------------------


@interrupt(output="ok")
def ask(messages: list[str]) -> str:
    return f"{messages[-1]}?"


ASKING = Graph([ask], state=Chat)


def test_a_dropped_turn_is_cancelled(store: Store) -> None:
    engine = Engine(ASKING, store=store)
    engine.run({"messages": ["a"]}, thread="t", run_id="r1")
    with pytest.warns(GraphWarning):
        engine.run({"messages": ["b"]}, thread="t", run_id="r2", drop=True)
    assert {run.run_id: run.status for run in engine.runs()} == {"r1": "cancelled", "r2": "waiting"}
    assert [run.run_id for run in engine.runs(status="waiting")] == ["r2"]
    assert engine.state("r2").get("messages") == ["a", "b"]
    assert engine.resume("r1", answer=True).status == "completed"  # a cancelled run can be resumed
    assert engine.thread("t").head == "r2"
    assert list(store.check()) == []
    engine.close()


def test_a_turn_that_cannot_start_drops_nothing(store: Store) -> None:
    engine = Engine(ASKING, store=store)
    engine.run({"messages": ["a"]}, thread="t", run_id="r1")
    with pytest.raises(InputError):
        engine.run({"unknown": 1}, thread="t", drop=True)
    with pytest.warns(GraphWarning), pytest.raises(RunExistsError):
        engine.run({"messages": ["b"]}, thread="t", run_id="r1", drop=True)
    assert engine.result("r1").status == "waiting"
    assert engine.resume("r1", answer=True).status == "completed"
    engine.close()


# -- forks into a thread -------------------------------------------------------------------------------------------


def test_a_fork_does_not_replace_a_running_turn(engine: Engine, gate: Gate, busy: Any) -> None:
    with pytest.raises(ThreadBusyError, match="'slow'"):
        engine.fork("r1", thread="t", on_busy="refuse")
    with pytest.raises(ThreadBusyError):
        engine.fork("r1", thread="t", timeout=0.05)
    assert engine.fork("r1", thread="other").status == "completed"  # other threads are free
    thread, found = in_background(lambda: engine.fork("r1", thread="t", run_id="f"))
    gate.is_open.set()
    thread.join(300)
    busy[0].join(300)
    assert (found[0].status, busy[1][0].status) == ("completed", "completed")
    assert engine.thread("t").head == "f"
    assert engine.thread("t").state.get("messages") == ["one", "re: one"]


def test_a_fork_on_an_event_loop_waits_for_the_thread(engine: Engine, gate: Gate, busy: Any) -> None:
    async def main() -> None:
        with pytest.raises(ThreadBusyError):
            await engine.afork("r1", thread="t", on_busy="refuse")
        forking = asyncio.ensure_future(engine.afork("r1", thread="t", run_id="f"))
        await asyncio.sleep(0)
        gate.is_open.set()
        await forking

    asyncio.run(main())
    assert engine.thread("t").head == "f"


def test_a_fork_drops_open_work_only_if_asked(store: Store) -> None:
    engine = Engine(ASKING, store=store)
    engine.run({"messages": ["a"]}, thread="t", run_id="r1")
    with pytest.raises(RunStateError):
        engine.fork("r1", thread="t")
    assert engine.result("r1").status == "waiting"
    engine.fork("r1", thread="t", run_id="f", drop=True)
    assert (engine.result("r1").status, engine.result("f").status) == ("cancelled", "waiting")
    assert engine.thread("t").head == "f"
    engine.close()
