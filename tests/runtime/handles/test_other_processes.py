"""Handles on runs that other processes execute, on stores that processes share."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pytest

from clew import Engine, Event
from clew.errors import RunCancelledError, RunStateError, UnknownRunError
from tests.runtime.handles.worker import STEPS, Worker

Open = Callable[..., Engine]


def steps(events: Any) -> list[int]:
    return [event.step for event in events if event.kind == "step_committed"]


def until(events: Iterator[Event], step: int) -> list[Event]:
    found = []
    for event in events:
        found.append(event)
        if event.kind == "step_committed" and event.step == step:
            return found
    raise AssertionError(f"step {step} did not come")


def test_a_late_handle_gets_every_step_from_the_beginning(address: str, engine_on: Open) -> None:
    with Worker(address) as worker:
        worker.tell("run", "r", {"n": 0})
        worker.go(2)
        assert worker.hear() == "paced"  # in the third turn
        events = engine_on().handle("r").events()
        before = until(events, 5)
        worker.tell("go")
        assert worker.finish() == "completed"
        after = list(events)
    assert steps(before + after) == STEPS
    assert before[0].kind == "run_started"
    assert (before[0].graph, dict(before[0].values)) == ("loop", {"n": 0})
    assert after[-1].kind == "run_finished"
    assert after[-1].status == "completed"
    assert [(e.path, dict(e.update)) for e in before + after if e.kind == "item_finished"][:3] == [
        ("more#0", {}),
        ("work#0", {"n": 1}),
        ("more#1", {}),
    ]
    assert [e.decision for e in before + after if e.kind == "gate_decided"] == [("work",)] * 3 + [("END",)]
    assert {e.run_id for e in before + after} == {"r"}


def test_a_reader_that_disconnects_after_every_event_misses_and_repeats_nothing(
    address: str, engine_on: Open
) -> None:
    with Worker(address, publish=True) as worker:
        worker.tell("run", "r", {"n": 0})
        assert worker.finish() == "completed"
    handle = engine_on().handle("r")
    whole = list(handle.events())
    found: list[Event] = []
    while part := list(islice(handle.events(after=found[-1].cursor if found else None), 1)):
        found += part
    assert [(e.kind, e.step, e.path, e.cursor) for e in found] == [
        (e.kind, e.step, e.path, e.cursor) for e in whole
    ]
    assert steps(found) == STEPS


def test_a_cursor_continues_in_another_process_of_a_live_run(address: str, engine_on: Open) -> None:
    with Worker(address) as worker:
        worker.tell("run", "r", {"n": 0})
        worker.go()
        first = until(engine_on().handle("r").events(), 2)
        worker.go()
        rest = engine_on().handle("r").events(after=first[-1].cursor)
        second = until(rest, 4)
        assert worker.finish() == "completed"
        assert steps([*first, *second, *rest]) == STEPS


def test_a_run_whose_process_is_killed_continues_elsewhere(address: str, engine_on: Open) -> None:
    events = engine_on().handle("r").events()
    with Worker(address) as worker:
        worker.tell("run", "r", {"n": 0})
        worker.go()
        assert worker.hear() == "paced"
        found = until(events, 3)
        worker.kill()
    with Worker(address) as other:
        other.tell("resume", "r")
        other.go()
        found += until(events, 5)
        assert other.finish() == "completed"
        found += events
    assert steps(found) == STEPS
    assert [e.status for e in found if e.kind == "run_finished"] == ["completed"]


def test_a_killed_run_that_this_process_resumes_stays_on_the_same_iterator(
    address: str, engine_on: Open
) -> None:
    engine = engine_on()
    events = engine.handle("r").events()
    with Worker(address) as worker:
        worker.tell("run", "r", {"n": 0})
        worker.go()
        assert worker.hear() == "paced"
        found = until(events, 3)
        worker.kill()
    assert engine.resume("r").status == "completed"
    assert steps([*found, *events]) == STEPS


def test_a_run_without_a_living_owner_is_an_error_after_a_lease(address: str, engine_on: Open) -> None:
    with Worker(address) as worker:
        worker.tell("run", "r", {"n": 0})
        assert worker.hear() == "paced"
        worker.kill()
    handle = engine_on(lease=0.1).handle("r")
    assert handle.status == "running"
    with pytest.raises(RunStateError):
        handle.result()
    with pytest.raises(RunStateError):
        list(handle.events())


def test_a_question_is_answered_in_a_process_that_did_not_ask(address: str, engine_on: Open) -> None:
    with Worker(address, "ask") as worker:
        worker.tell("run", "r", {"n": 1})
        assert worker.finish() == "waiting"
        handle = engine_on("ask").handle("r")
        assert handle.status == "waiting"
        assert [question.path for question in handle.questions] == ["approve#0"]
        waiting = handle.result()
        assert (waiting.status, len(waiting.questions)) == ("waiting", 1)
        assert [e.kind for e in handle.events()][-2:] == ["interrupted", "run_finished"]
        result = handle.answer(True).result()
    assert (result.status, result["done"]) == ("completed", "1: True")
    assert (handle.status, handle.questions) == ("completed", ())


def test_a_follower_waits_through_a_question_that_others_answer(address: str, engine_on: Open) -> None:
    events = engine_on("ask").handle("r").events(follow=True)
    with Worker(address, "ask") as asking, Worker(address, "ask") as answering:
        asking.tell("run", "r", {"n": 1})
        assert asking.finish() == "waiting"
        found = [next(e for e in events if e.kind == "run_finished")]
        answering.tell("answer", "r", True)
        assert answering.finish() == "completed"
        found += events
    assert [e.status for e in found if e.kind == "run_finished"] == ["waiting", "completed"]
    assert steps(found) == [1, 2]


def test_an_answer_to_a_run_of_another_process_that_asks_nothing_is_refused(
    address: str, engine_on: Open
) -> None:
    with Worker(address) as worker:
        worker.tell("run", "r", {"n": 0})
        assert worker.hear() == "paced"
        with pytest.raises(RunStateError):
            engine_on().handle("r").answer(True)
        worker.tell("go")
        assert worker.finish() == "completed"


def test_a_run_that_another_process_executes_is_cancelled_by_a_message(address: str, engine_on: Open) -> None:
    with Worker(address, max_steps=10_000_000) as worker:
        worker.tell("run", "r", {"n": -1_000_000})  # it would not end by itself
        assert worker.hear() == "paced"
        handle = engine_on().handle("r")
        assert handle.cancel() is True
        assert handle.cancel() is True  # it has not ended yet
        worker.tell("go")
        assert worker.finish() == "cancelled"
        assert handle.status == "cancelled"
        assert handle.cancel() is False


def test_a_run_that_waits_and_a_run_of_a_dead_process_are_cancelled_directly(
    address: str, engine_on: Open
) -> None:
    with Worker(address, "ask") as worker:
        worker.tell("run", "waits", {"n": 1})
        assert worker.finish() == "waiting"
        assert engine_on("ask").handle("waits").cancel() is True
    with Worker(address) as worker:
        worker.tell("run", "lost", {"n": 0})
        assert worker.hear() == "paced"
        worker.kill()
    engine = engine_on()
    assert engine.handle("lost").cancel() is True
    with pytest.raises(RunCancelledError):
        engine.handle("lost").result()
    assert engine.handle("lost").result(check=False).status == "cancelled"
    assert engine.handle("waits").status == "cancelled"
    assert engine.resume("lost").status == "completed"


def test_two_handles_and_an_async_one_see_the_same(address: str, engine_on: Open) -> None:
    engine = engine_on()
    found: dict[int, list[int]] = {}

    def follow(number: int) -> None:
        found[number] = steps(engine.handle("r").events())

    async def afollow() -> list[int]:
        handle = engine.handle("r")
        seen = [event async for event in handle.events()]
        assert (await handle).status == "completed"
        return steps(seen)

    with Worker(address) as worker:
        worker.tell("run", "r", {"n": 0})
        worker.go()
        assert worker.hear() == "paced"
        threads = [threading.Thread(target=follow, args=(number,)) for number in range(2)]
        for thread in threads:
            thread.start()
        worker.tell("go")

        async def main() -> list[int]:
            following = asyncio.ensure_future(afollow())
            assert await asyncio.to_thread(worker.finish) == "completed"
            return await following

        found[2] = asyncio.run(main())
        for thread in threads:
            thread.join()
    assert found == {0: STEPS, 1: STEPS, 2: STEPS}


def test_result_waits_for_the_other_process(address: str, engine_on: Open) -> None:
    with Worker(address) as worker:
        worker.tell("run", "r", {"n": 0})
        assert worker.hear() == "paced"
        handle = engine_on().handle("r")
        with pytest.raises(TimeoutError):
            handle.result(timeout=0.01)
        worker.tell("go")
        assert worker.finish() == "completed"
        result = handle.result(timeout=60)
    assert (result.status, result["n"]) == ("completed", 3)


def test_the_events_of_a_run_that_failed_elsewhere(address: str, engine_on: Open) -> None:
    with Worker(address, "fail") as worker:
        worker.tell("run", "r", {"n": 5})
        assert worker.finish() == "failed"
    handle = engine_on("fail").handle("r")
    *_, last = handle.events()
    assert (last.kind, last.status, last.step) == ("run_finished", "failed", 0)
    assert "no 5" in str(last.error)
    assert handle.status == "failed"
    with pytest.raises(ValueError, match="no 5"):
        handle.result()
    assert str(handle.result(check=False).error) == str(last.error)


def test_published_data_reaches_other_processes_once_and_in_order(address: str, engine_on: Open) -> None:
    with Worker(address, publish=True) as worker:
        worker.tell("run", "r", {"n": 0})
        worker.go()
        assert worker.hear() == "paced"
        events = engine_on().handle("r").events()
        found = until(events, 3)
        worker.kill()
    with Worker(address, publish=True) as other:
        other.tell("resume", "r")
        assert other.finish() == "completed"
        found += events
    kinds = ("emitted", "step_committed")
    places = [(e.data["data"]["n"] if e.kind == "emitted" else "step") for e in found if e.kind in kinds]
    assert places == ["step", 0, "step", "step", 1, "step", "step", 2, "step", "step"]
    assert [(e.path, e.name, e.number) for e in found if e.kind == "emitted"] == [
        (f"work#{n}", "at", n + 1) for n in range(3)
    ]


def test_a_deleted_run_ends_the_iteration_with_an_error(address: str, engine_on: Open) -> None:
    with Worker(address, "ask") as worker:
        worker.tell("run", "r", {"n": 1})
        assert worker.finish() == "waiting"
    engine = engine_on("ask")
    events = engine.handle("r").events(follow=True)
    next(e for e in events if e.kind == "run_finished")
    engine.delete("r")
    with pytest.raises(UnknownRunError):
        next(events)
