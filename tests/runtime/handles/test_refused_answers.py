"""Answers that a run does not take: whoever gave one is told, once, and the handle still works."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

from clew import Engine, Graph, interrupt, node
from clew.errors import RunStateError, UnknownRunError
from tests.runtime.handles.worker import Worker

Open = Callable[..., Engine]


@interrupt(output="a")
def ask_a(x: int) -> str:
    return "a?"


@interrupt(output="b")
def ask_b(x: int) -> str:
    return "b?"


@node(output="done")
def done(a: Any, b: Any) -> list[Any]:
    return [a, b]


TWO = Graph([ask_a, ask_b, done], name="two")


def test_an_answer_on_a_loop_to_a_run_of_another_process_that_asks_nothing_is_refused(
    address: str, engine_on: Open
) -> None:
    async def main(engine: Engine, worker: Worker) -> tuple[str, int]:
        handle = engine.handle("r")
        with pytest.raises(RunStateError):
            await handle.answer(False)
        events = handle.events()
        handle.answer(False)  # nothing awaits it: the events report it
        with pytest.raises(RunStateError):
            async for _ in events:
                pass
        worker.tell("go")
        assert await asyncio.to_thread(worker.finish) == "completed"
        return (await handle).status, [event.kind async for event in events].count("run_finished")

    with Worker(address) as worker:
        worker.tell("run", "r", {"n": 0})
        assert worker.hear() == "paced"
        assert asyncio.run(main(engine_on(), worker)) == ("completed", 1)


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_a_refused_answer_does_not_poison_its_handle(store: str, tmp_path: Any) -> None:
    async def main(engine: Engine) -> None:
        handle = engine.start({"x": 1}, run_id="r")
        assert (await handle).status == "waiting"
        for wrong in ({}, {"question": "nowhere#0"}):
            with pytest.raises(RunStateError):
                await handle.answer(1, **wrong)
            assert (await handle).status == "waiting"
        assert (await handle.answer(1, question="ask_a#0")).status == "waiting"
        with pytest.raises(RunStateError):
            await handle.answer(2, question="ask_a#0")
        assert (await handle.answer(2))["done"] == [1, 2]
        with pytest.raises(RunStateError):
            await handle.answer(3)
        assert (await handle)["done"] == [1, 2]
        assert [event.kind async for event in handle.events()][-1] == "run_finished"
        with pytest.raises(UnknownRunError):
            await engine.handle("unknown").answer(1)

    with Engine(TWO, store=None if store == "memory" else tmp_path / "runs.db") as engine:
        asyncio.run(main(engine))


def test_a_refusal_reaches_only_the_wait_that_belongs_to_the_answer(tmp_path: Any) -> None:
    async def main(engine: Engine) -> None:
        handle = engine.start({"x": 1}, run_id="r")
        await handle
        follower = asyncio.create_task(_kinds(handle.events(follow=True)))
        others = [asyncio.create_task(_waited(each)) for each in (handle, engine.handle("r"))]
        await asyncio.sleep(0)  # they begin
        with pytest.raises(RunStateError):
            await handle.answer(1, question="nowhere#0")
        assert [(await each).status for each in others] == ["waiting", "waiting"]
        await handle.answer(1, question="ask_a#0")
        await handle.answer(2)
        assert (await follower)[-1] == "run_finished"

    with Engine(TWO, store=tmp_path / "runs.db") as engine:
        asyncio.run(main(engine))


async def _kinds(events: Any) -> list[str]:
    return [event.kind async for event in events]


@pytest.mark.parametrize("on_loop", [False, True])
def test_the_second_of_two_answers_is_refused(on_loop: bool, tmp_path: Any) -> None:
    """It arrives while the first one is used, and the run never asks again."""
    reached, is_open = threading.Event(), threading.Event()

    @interrupt(output="ok")
    def ask(x: int) -> str:
        return "buy?"

    @node(output="bought")
    def buy(ok: bool) -> bool:
        reached.set()
        assert is_open.wait(300)
        return ok

    async def main(engine: Engine) -> None:
        first = asyncio.ensure_future(_waited(engine.handle("r").answer(True)))
        second = engine.handle("r").answer(False)
        is_open.set()
        with pytest.raises(RunStateError):
            await second
        assert (await first)["bought"] is True
        assert (await second)["bought"] is True

    with Engine(Graph([ask, buy], name="one"), store=tmp_path / "runs.db") as engine:
        engine.run({"x": 1}, run_id="r")
        if on_loop:
            asyncio.run(main(engine))
            return
        first = engine.handle("r").answer(True)
        assert reached.wait(300)
        second = engine.handle("r").answer(False)
        with pytest.raises(TimeoutError):
            second.result(timeout=0)
        is_open.set()
        with pytest.raises(RunStateError):
            second.result(timeout=300)
        assert first.result(timeout=300)["bought"] is True
        assert second.result(timeout=300)["bought"] is True


async def _waited(handle: Any) -> Any:
    return await handle


def test_a_refusal_that_nobody_waits_for_is_logged(tmp_path: Any, caplog: pytest.LogCaptureFixture) -> None:
    async def main(engine: Engine) -> None:
        engine.run({"x": 1}, run_id="r")
        handle = engine.handle("r")
        handle.answer(1, question="nowhere#0")
        assert (await engine.handle("r")).status == "waiting"

    with Engine(TWO) as engine, caplog.at_level(logging.ERROR, "clew.runs"):
        asyncio.run(main(engine))
        gc.collect()
    [record] = caplog.records
    assert record.exc_info is not None
    assert record.exc_info[0] is RunStateError


@pytest.mark.parametrize("store", ["memory", "sqlite"])
@pytest.mark.parametrize("on_loop", [False, True])
def test_a_cancelled_run_takes_no_late_answer(store: str, on_loop: bool, tmp_path: Any) -> None:
    paid = []

    @interrupt(output="ok")
    def ask(x: int) -> str:
        return "Pay?"

    @node(output="paid")
    def pay(ok: bool) -> bool:
        paid.append(ok)
        return True

    async def late(engine: Engine) -> None:
        await engine.handle("r").answer(True)

    with Engine(Graph([ask, pay]), store=None if store == "memory" else tmp_path / "runs.db") as engine:
        handle = engine.start({"x": 1}, run_id="r")
        handle.result()
        assert handle.cancel()
        answer = (lambda: asyncio.run(late(engine))) if on_loop else (lambda: handle.answer(True))
        with pytest.raises(RunStateError):
            answer()
        with pytest.raises(RunStateError):
            engine.handle("r").answer(True, question="ask#0")
        assert handle.status == "cancelled"
        assert handle.result(check=False).status == "cancelled"
        assert paid == []
        assert [question.path for question in handle.questions] == ["ask#0"]
        assert engine.resume("r", answer=True).status == "completed"  # deliberately
        assert paid == [True]
