"""Turns that one engine starts on one thread run in the order of the calls."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from clew import Engine, Graph, interrupt, node
from clew.errors import GraphWarning, InputError, RunCancelledError, RunStateError, ThreadBusyError
from clew.stores import Store
from tests.runtime.chats import Chat, Gate, chat_gate
from tests.store_fixtures import local_store

ORDER = [str(number) for number in range(8)]


gate = chat_gate


store = local_store


@pytest.fixture
def engine(store: Store, gate: Gate) -> Iterator[Engine]:
    @node(output="messages")
    def reply(messages: list[str]) -> list[str]:
        if messages[-1] == "slow":
            gate.pass_through()
        return []

    with Engine(Graph([reply], state=Chat), store=store) as made:
        yield made


def say(text: str) -> dict[str, Any]:
    return {"messages": [text]}


def test_turns_on_threads_keep_their_order(engine: Engine, gate: Gate) -> None:
    engine.start(say("slow"), thread="c")
    handles = [engine.start(say(text), thread="c") for text in ORDER]
    gate.is_open.set()
    for handle in handles:
        handle.result(timeout=300)
    assert engine.thread("c").state.get("messages") == ["slow", *ORDER]


def test_turns_on_a_loop_keep_their_order(engine: Engine) -> None:
    async def main() -> None:
        for handle in [engine.start(say(text), thread="c") for text in ORDER]:
            await handle
        await asyncio.gather(*(engine.arun(say(text), thread="c") for text in ORDER))

    asyncio.run(main())
    assert engine.thread("c").state.get("messages") == [*ORDER, *ORDER]


def test_turns_of_different_methods_share_one_line(engine: Engine, gate: Gate) -> None:
    async def on_loop() -> None:
        waiting = asyncio.create_task(engine.arun(say("loop"), thread="c"))
        await asyncio.sleep(0)
        last = engine.start(say("last"), thread="c")
        gate.is_open.set()
        await waiting
        await last

    engine.start(say("slow"), thread="c")
    first = engine.start(say("first"), thread="c")
    asyncio.run(on_loop())
    first.result(timeout=300)
    assert engine.thread("c").state.get("messages") == ["slow", "first", "loop", "last"]


def test_a_turn_that_gives_up_leaves_the_line(engine: Engine, gate: Gate) -> None:
    engine.start(say("slow"), thread="c")
    cancelled = engine.start(say("cancelled"), thread="c")
    late = engine.start(say("late"), thread="c", timeout=0.01)
    with pytest.raises(ThreadBusyError):
        engine.start(say("refused"), thread="c", on_busy="refuse")
    wrong = engine.start({"nothing": 1}, thread="c")
    last = engine.start(say("last"), thread="c")
    with pytest.raises(ThreadBusyError):
        late.result(timeout=300)
    assert cancelled.cancel()
    gate.is_open.set()
    with pytest.raises(RunCancelledError):
        cancelled.result(timeout=300)
    with pytest.raises(InputError):
        wrong.result(timeout=300)
    last.result(timeout=300)
    assert engine.thread("c").state.get("messages") == ["slow", "last"]


def test_a_cancelled_task_leaves_the_line(engine: Engine, gate: Gate) -> None:
    async def main() -> None:
        waiting = asyncio.create_task(engine.arun(say("cancelled"), thread="c"))
        stream = engine.astream(say("closed"), thread="c")
        reading = asyncio.create_task(anext(stream))
        last = engine.start(say("last"), thread="c")
        await asyncio.sleep(0)
        for task in (waiting, reading):
            task.cancel()
        await asyncio.gather(waiting, reading, return_exceptions=True)
        gate.is_open.set()
        await last

    first = engine.start(say("slow"), thread="c")
    asyncio.run(asyncio.wait_for(main(), 300))
    first.result(timeout=300)
    assert engine.thread("c").state.get("messages") == ["slow", "last"]


def test_threads_do_not_wait_for_each_other(engine: Engine, gate: Gate) -> None:
    engine.start(say("slow"), thread="a")
    behind = engine.start(say("behind"), thread="a")
    assert engine.start(say("free"), thread="b").result(timeout=300).status == "completed"
    gate.is_open.set()
    behind.result(timeout=300)


def test_turns_behind_a_question_are_refused_one_by_one() -> None:
    @interrupt(output="ok")
    def ask(messages: list[str]) -> str:
        return "ok?"

    with Engine(Graph([ask], state=Chat)) as engine:
        handles = [engine.start(say("first"), thread="c", run_id="q")]
        assert handles[0].result(timeout=300).status == "waiting"
        for _ in range(2):
            with pytest.raises(RunStateError):
                engine.start(say("next"), thread="c")
        with pytest.warns(GraphWarning):
            handle = engine.start(say("dropping"), thread="c", drop=True)
        assert handle.result(timeout=300).status == "waiting"
