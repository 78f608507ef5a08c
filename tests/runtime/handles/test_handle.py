"""Handles on runs of this process: starting, events, results, answers, cancelling, waiting, and what they leave."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from clew import (
    END,
    Context,
    Engine,
    Event,
    Graph,
    MemoryStore,
    RetryPolicy,
    SQLiteStore,
    ifelse,
    interrupt,
    node,
)
from clew.errors import (
    InputError,
    RunCancelledError,
    RunError,
    RunExistsError,
    RunStateError,
    UnknownRunError,
)
from clew.runtime.handles.live_events import HISTORY
from clew.testing import VirtualClock
from tests.runtime.interrupting import interrupt as interrupted_at


@node(output="n")
def work(n: int, ctx: Context) -> int:
    ctx.emit("at", n)
    return n + 1


@ifelse(when_true="work", when_false=END)
def more(n: int) -> bool:
    return n < 3


LOOP = Graph([work, more], name="loop")


@interrupt(output="colour")
def ask_colour() -> str:
    return "Which colour?"


@interrupt(output="size")
def ask_size() -> str:
    return "Which size?"


@node(output="order")
def order(colour: str, size: str) -> str:
    return f"{colour} {size}"


ORDER = Graph([ask_colour, ask_size, order])


@pytest.fixture(params=["memory", "sqlite"])
def engine_of(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Engine]]:
    engines: list[Engine] = []

    def open_engine(graph: Graph, **options: Any) -> Engine:
        store = MemoryStore() if request.param == "memory" else SQLiteStore(tmp_path / "runs.db")
        engines.append(Engine(graph, store=store, **options))
        return engines[-1]

    yield open_engine
    for engine in engines:
        engine.close()


Open = Callable[[Graph], Engine]


def steps(events: Any) -> list[int]:
    return [event.step for event in events if event.kind == "step_committed" and not event.path]


class Gate:
    """A node that stops until the test lets it pass."""

    def __init__(self) -> None:
        self.reached: SimpleQueue[int] = SimpleQueue()
        self.passes: SimpleQueue[None] = SimpleQueue()

    def graph(self) -> Graph:
        @node(output="n", name="work")
        def wait(n: int, ctx: Context) -> int:
            self.reached.put(n)
            self.passes.get()
            ctx.emit("at", n)
            return n + 1

        return Graph([wait, more])


# -- starting ------------------------------------------------------------------------------------------------------


def test_a_run_starts_in_the_background_and_gives_its_result(engine_of: Open) -> None:
    gate = Gate()
    engine = engine_of(gate.graph())
    handle = engine.start({"n": 2}, run_id="r")
    assert (handle.run_id, handle.status) == ("r", "running")
    assert gate.reached.get() == 2
    with pytest.raises(TimeoutError):
        handle.result(timeout=0.01)
    gate.passes.put(None)
    result = handle.result(timeout=60)
    assert (result.status, result["n"], handle.status) == ("completed", 3, "completed")
    assert engine.handle("r").result()["n"] == 3


def test_invalid_input_and_an_existing_id_are_errors_at_once(engine_of: Open) -> None:
    engine = engine_of(LOOP)
    with pytest.raises(InputError):
        engine.start({"m": 1})
    engine.run({"n": 0}, run_id="r")
    with pytest.raises(RunExistsError):
        engine.start({"n": 0}, run_id="r")
    assert engine.handle("r").result().status == "completed"

    async def main() -> None:
        with pytest.raises(InputError):
            engine.start({"m": 1})
        with pytest.raises(RunExistsError):
            await engine.start({"n": 0}, run_id="r")
        with pytest.raises(RunExistsError):
            [event async for event in engine.start({"n": 0}, run_id="r").events()]

    asyncio.run(main())


def test_a_handle_of_an_unknown_run_says_so_when_it_is_used(engine_of: Open) -> None:
    handle = engine_of(LOOP).handle("missing")
    for use in (lambda: handle.status, lambda: handle.questions, handle.result, handle.cancel):
        with pytest.raises(UnknownRunError):
            use()
    with pytest.raises(UnknownRunError):
        next(handle.events())
    with pytest.raises(InputError):
        engine_of(LOOP).handle(3)


def test_a_task_runs_under_asyncio_and_an_async_graph_on_a_thread(engine_of: Open) -> None:
    @node(output="n", name="work")
    async def awork(n: int, ctx: Context) -> int:
        await asyncio.sleep(0)
        ctx.emit("at", n)
        return n + 1

    engine = engine_of(Graph([awork, more], name="loop"))

    async def main() -> list[Event]:
        handle = engine.start({"n": 0}, run_id="task")
        events = [event async for event in handle.events()]
        assert (await handle)["n"] == 3
        assert (await engine.handle("task"))["n"] == 3
        with pytest.raises(RunError):
            handle.result()
        with pytest.raises(RunError):
            next(handle.events())
        return events

    from_task = asyncio.run(main())
    from_thread = list(engine.start({"n": 0}, run_id="thread").events())
    shown = [(e.kind, e.step, e.path) for e in from_task]
    assert shown == [(e.kind, e.step, e.path) for e in from_thread]
    assert [e.data["data"] for e in from_task if e.kind == "emitted"] == [0, 1, 2]


def test_the_thread_has_the_context_of_the_caller(engine_of: Open) -> None:
    from contextvars import ContextVar

    user = ContextVar("user", default="nobody")
    graph = Graph([node(name="who", output="user")(lambda: user.get())])
    user.set("ann")
    assert engine_of(graph).start({}).result()["user"] == "ann"


# -- events --------------------------------------------------------------------------------------------------------


def test_events_from_the_beginning_are_those_of_a_stream(engine_of: Open) -> None:
    engine = engine_of(LOOP)
    streamed = list(engine.stream({"n": 0}, run_id="s"))
    handle = engine.start({"n": 0}, run_id="r")
    handle.result()
    late = list(handle.events())
    assert [(e.kind, e.step, e.path) for e in late] == [(e.kind, e.step, e.path) for e in streamed]
    assert steps(late) == list(range(1, 8))
    assert all(e.cursor for e in late + streamed)


def test_a_stream_and_a_handle_can_be_continued_after_any_event(engine_of: Open) -> None:
    engine = engine_of(LOOP)
    streamed = list(engine.stream({"n": 0}, run_id="s"))
    started = engine.start({"n": 0}, run_id="r")
    started.result()
    for events, handle in ((streamed, engine.handle("s")), (list(started.events()), started)):
        for number, event in enumerate(events, start=1):
            rest = list(handle.events(after=event.cursor))
            assert steps(events[:number] + rest) == list(range(1, 8)), event
            assert [e.kind for e in events[:number] + rest].count("run_finished") == 1
            assert [e.kind for e in events[:number] + rest].count("run_started") == 1


def test_a_reader_that_disconnects_from_a_live_run_repeats_nothing(engine_of: Open) -> None:
    handle = engine_of(LOOP).start({"n": 0})
    found: list[Event] = []
    while part := list(islice(handle.events(after=found[-1].cursor if found else None), 1)):
        found += part
    assert [(e.kind, e.step, e.path) for e in found] == [(e.kind, e.step, e.path) for e in handle.events()]


def test_what_is_no_longer_remembered_comes_from_the_store(engine_of: Open) -> None:
    graph = Graph([work, ifelse(name="more", when_true="work", when_false=END)(lambda n: n < HISTORY)])
    engine = engine_of(graph)
    handle = engine.start({"n": 0}, run_id="r")
    handle.result()
    events = list(handle.events())
    assert steps(events) == list(range(1, 2 * HISTORY + 2))
    assert events[0].kind == "run_started"
    assert sum(e.kind == "emitted" for e in events) < HISTORY


@pytest.mark.parametrize("durability", ["async", "exit"])
def test_steps_that_are_stored_late_arrive_once(tmp_path: Path, durability: str) -> None:
    graph = Graph([work, ifelse(name="more", when_true="work", when_false=END)(lambda n: n < HISTORY)])
    with Engine(graph, store=tmp_path / "runs.db", durability=durability) as engine:
        assert steps(engine.start({"n": 0}).events()) == list(range(1, 2 * HISTORY + 2))


def test_a_handle_on_a_run_that_another_thread_executes(engine_of: Open) -> None:
    gate = Gate()
    engine = engine_of(gate.graph())
    thread = threading.Thread(target=lambda: engine.run({"n": 1}, run_id="r"))
    thread.start()
    assert gate.reached.get() == 1
    handle = engine.handle("r")
    assert handle.status == "running"
    events = handle.events()
    assert next(events).kind == "run_started"
    with pytest.raises(RunStateError):
        handle.answer(1)
    gate.passes.put(None)
    gate.passes.put(None)
    found = list(events)
    thread.join()
    assert steps(found) == list(range(1, 6))
    assert [e.data["data"] for e in found if e.kind == "emitted"] == [1, 2]
    assert found[-1].status == "completed"


def test_two_readers_of_one_run_get_everything(engine_of: Open) -> None:
    gate = Gate()
    engine = engine_of(gate.graph())
    handle = engine.start({"n": 0})
    found: list[list[int]] = []
    readers = [threading.Thread(target=lambda: found.append(steps(handle.events()))) for _ in range(3)]
    for reader in readers:
        reader.start()
    for _ in range(3):
        gate.passes.put(None)
    for reader in readers:
        reader.join()
    assert found == [list(range(1, 8))] * 3


def test_events_of_a_failing_run(engine_of: Open) -> None:
    error = ValueError("broken")

    def fail(n: int) -> int:
        raise error

    engine = engine_of(Graph([node(name="fail", output="m")(fail)]))
    handle = engine.start({"n": 1})
    events = list(handle.events())
    assert [e.kind for e in events][-2:] == ["item_failed", "run_finished"]
    assert (events[-1].status, events[-1].error) == ("failed", error)
    assert handle.status == "failed"
    with pytest.raises(ValueError, match="broken") as raised:
        handle.result()
    assert raised.value is error
    assert handle.result(check=False).error is error

    async def main() -> None:
        with pytest.raises(ValueError, match="broken"):
            await engine.start({"n": 1})

    asyncio.run(main())


def test_a_reader_of_the_store_learns_which_items_failed(engine_of: Open) -> None:
    @node(output="left")
    def good(x):
        return x

    @node(output="right", retry=RetryPolicy(max_attempts=2, base_delay=0))
    def bad(left):
        raise ValueError("no")

    engine = engine_of(Graph([good, bad]))
    engine.run({"x": 1}, run_id="r", check=False)
    reader = engine.handle("r")
    events = list(reader.events())
    assert [event.kind for event in events[-3:]] == ["step_committed", "item_failed", "run_finished"]
    failed = events[-2]
    assert (failed.path, failed.step, failed.node, failed.attempt) == ("bad#0", 2, "bad", 1)
    assert isinstance(failed.error, ValueError)
    assert [event.kind for event in reader.events(after=failed.cursor)] == ["item_failed", "run_finished"]
    assert not list(reader.events(after=events[-1].cursor))


def test_a_cancelled_wait_for_an_event_loses_nothing(engine_of: Open) -> None:
    gate = Gate()
    engine = engine_of(gate.graph())

    async def main() -> list[Event]:
        thread = threading.Thread(target=lambda: engine.run({"n": 0}, run_id="r"))
        thread.start()
        await asyncio.to_thread(gate.reached.get)
        found: list[Event] = []
        events = engine.handle("r").events()
        patience = 0.001
        while True:
            try:
                found.append(await asyncio.wait_for(events.__anext__(), patience))
            except TimeoutError:
                gate.passes.put(None)
                patience *= 1.1  # a machine that is slower than the first ones makes progress too
            except StopAsyncIteration:
                return found

    assert steps(asyncio.run(main())) == list(range(1, 8))


@pytest.mark.parametrize("cursor", ["x", "00000000_1_0_0____0", 3, b"x", "\n"])
def test_what_is_not_a_cursor_of_the_run_is_an_error(engine_of: Open, cursor: Any) -> None:
    handle = engine_of(LOOP).start({"n": 0}, run_id="r")
    with pytest.raises(InputError):
        handle.events(after=cursor)
    handle.result()


def test_a_cursor_is_one_line_of_plain_text(engine_of: Open) -> None:
    engine = engine_of(LOOP)
    for event in engine.start({"n": 0}, run_id="☂").events():
        assert event.cursor.isascii()
        assert event.cursor.isprintable()


# -- questions -----------------------------------------------------------------------------------------------------


def test_questions_are_answered_while_the_events_are_read(engine_of: Open) -> None:
    handle = engine_of(ORDER).start({})
    answers = {"ask_colour#0": "red", "ask_size#0": "large"}
    asked = []
    for event in handle.events():
        if event.kind == "interrupted":
            asked.append(event.path)
            handle.answer(answers[event.path], question=event.path)
    assert sorted(asked) == sorted(answers)
    assert handle.result()["order"] == "red large"


def test_questions_are_answered_under_asyncio(engine_of: Open) -> None:
    engine = engine_of(ORDER)

    async def main() -> Any:
        handle = engine.start({})
        assert (await handle).status == "waiting"
        questions = sorted(
            await asyncio.to_thread(lambda: handle.questions), key=lambda question: question.path
        )  # the nodes ask at the same time
        is_answered = False  # the first pause may be reported after the second one has begun
        async for event in handle.answer("red", questions[0]).events():
            if (
                event.kind == "run_finished"
                and event.status == "waiting"
                and list(handle.questions) == questions[1:]
                and not is_answered
            ):
                is_answered = True
                handle.answer("large")
        return await handle

    assert asyncio.run(main())["order"] == "red large"


def test_an_answer_without_its_question_needs_exactly_one(engine_of: Open) -> None:
    engine = engine_of(ORDER)
    handle = engine.start({})
    assert [q.path for q in handle.result().questions] == ["ask_colour#0", "ask_size#0"]
    with pytest.raises(RunStateError):
        handle.answer("red")
    with pytest.raises(InputError):
        handle.answer("red", question=3)
    with pytest.raises(RunStateError):
        handle.answer("red", question="nowhere#0")
    assert handle.status == "waiting"
    assert handle.answer("red", question=handle.questions[0]).result().status == "waiting"
    assert handle.answer("large").result()["order"] == "red large"
    with pytest.raises(RunStateError):
        handle.answer("blue")


def test_a_question_is_told_again_only_if_it_differs(engine_of: Open) -> None:
    engine = engine_of(ORDER)
    handle = engine.start({}, run_id="r")
    first = list(handle.events())
    assert list(handle.events(after=first[-1].cursor)) == []
    engine.resume("r", answers={"ask_colour#0": "red"})
    rest = list(handle.events(after=first[-1].cursor))
    assert {e.path for e in rest if e.kind == "interrupted"} <= {"ask_size#0"}
    assert rest[-1].status == "waiting"


def test_a_question_in_other_words_is_a_new_one(engine_of: Open) -> None:
    asked: list[str] = []

    @interrupt(output="size")
    def ask_again() -> str:
        asked.append("again")
        return f"Which size, {len(asked)}?"

    engine = engine_of(Graph([ask_colour, ask_again]))
    handle = engine.start({}, run_id="r")
    first = list(handle.events())
    handle.answer("red", "ask_colour#0").result()
    for events in (handle.events(after=first[-1].cursor), engine.handle("r").events(first[-1].cursor)):
        assert [e.question for e in events if e.kind == "interrupted"][-1:] == ["Which size, 2?"]
    assert [q.question for q in handle.questions] == ["Which size, 2?"]


def test_two_ends_at_one_instant_are_two_ends() -> None:
    engine = Engine(ORDER, clock=VirtualClock())
    handle = engine.start({})
    ends = []
    for event in handle.events():
        if event.kind == "run_finished":
            ends.append(event.status)
            if event.status == "waiting":
                handle.answer("x", handle.questions[0])
    assert ends == ["waiting", "waiting", "completed"]
    assert handle.result().status == "completed"


# -- streams -------------------------------------------------------------------------------------------------------


def test_a_stream_resumes_a_run(engine_of: Open) -> None:
    engine = engine_of(ORDER)
    list(engine.stream({}, run_id="r"))
    events = list(engine.stream(run_id="r", answers={"ask_colour#0": "red"}))
    assert events[-1].status == "waiting"

    async def main() -> list[Event]:
        return [event async for event in engine.astream(run_id="r", answer="large")]

    events = asyncio.run(main())
    assert (steps(events), events[-1].status) == ([1, 2], "completed")
    assert list(engine.stream(run_id="r", resume=True)) == []
    with pytest.raises(InputError):
        engine.stream(answer=1)
    with pytest.raises(InputError):
        engine.stream({}, run_id="r", resume=True)


def test_a_stream_resumes_a_failed_run(engine_of: Open) -> None:
    calls: list[int] = []

    def shaky(n: int) -> float:
        calls.append(n)
        return 1 / (len(calls) - 1)

    engine = engine_of(Graph([node(name="shaky", output="m")(shaky)]))
    assert list(engine.stream({"n": 1}, run_id="r", check=False))[-1].status == "failed"
    events = list(engine.stream(run_id="r", resume=True))
    assert (steps(events), events[-1].status) == ([1], "completed")


# -- cancelling and ending -----------------------------------------------------------------------------------------


def test_a_run_is_cancelled_by_its_handle(engine_of: Open) -> None:
    gate = Gate()
    engine = engine_of(gate.graph())
    handle = engine.start({"n": 0}, run_id="r")
    assert gate.reached.get() == 0
    assert engine.handle("r").cancel() is True
    gate.passes.put(None)
    with pytest.raises(RunCancelledError):
        handle.result()
    assert handle.result(check=False).status == "cancelled"
    assert list(handle.events())[-1].status == "cancelled"
    assert handle.cancel() is False


def test_closing_the_engine_cancels_its_runs(tmp_path: Path) -> None:
    reached: SimpleQueue[None] = SimpleQueue()

    @node(output="m")
    def wait(n: int, ctx: Context) -> int:
        reached.put(None)
        while not ctx.cancelled:
            os.sched_yield()
        return n

    engine = Engine(Graph([wait, node(name="then", output="k")(lambda m: m)]), store=tmp_path / "runs.db")
    engine.start({"n": 0}, run_id="r")
    reached.get()
    engine.close()
    with Engine(store=tmp_path / "runs.db") as other:
        assert other.handle("r").status == "cancelled"


def test_an_abandoned_handle_neither_cancels_its_run_nor_stays(engine_of: Open) -> None:
    gate = Gate()
    engine = engine_of(gate.graph())
    before = set(threading.enumerate())
    handle = engine.start({"n": 2}, run_id="r")
    events = handle.events()
    assert next(events).kind == "run_started"
    [thread] = [t for t in set(threading.enumerate()) - before if t.name == "clew-run"]
    left = [weakref.ref(handle), weakref.ref(events), weakref.ref(handle._job.live)]
    del handle, events
    gc.collect()
    assert [ref() is None for ref in left[:2]] == [True, True]
    gate.passes.put(None)
    thread.join(60)
    assert not thread.is_alive()
    assert engine.handle("r").result()["n"] == 3
    deadline = time.monotonic() + 60  # a thread of the pool may be about to drop its last item
    while left[2]() is not None and time.monotonic() < deadline:
        gc.collect()
    assert left[2]() is None


def test_an_abandoned_task_is_finished_by_the_loop(engine_of: Open) -> None:
    engine = engine_of(LOOP)

    async def main() -> None:
        engine.start({"n": 0}, run_id="r")
        gc.collect()
        assert (await engine.handle("r")).status == "completed"

    asyncio.run(main())


def test_waiting_does_not_cancel_a_task(engine_of: Open) -> None:
    gate = asyncio.Event()

    @node(output="m")
    async def wait(n: int) -> int:
        await gate.wait()
        return n

    engine = engine_of(Graph([wait]))

    async def main() -> str:
        handle = engine.start({"n": 1})
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(handle, 0.01)
        gate.set()
        return (await handle).status

    assert asyncio.run(main()) == "completed"


# An interrupt may leave an iterator or a coroutine unclosed, in any program.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_at_any_line_leaves_nothing_stuck(tmp_path: Path) -> None:
    def use(engine: Engine, run_id: str) -> None:
        handle = engine.start({"n": 0}, run_id=run_id)
        for event in handle.events():
            if event.kind == "run_finished":
                break
        handle.result()

    n = 1
    with Engine(LOOP, store=tmp_path / "runs.db") as engine:
        while (aim := interrupted_at(n, partial(use, engine, f"r{n}"))).has_hit:
            handle = engine.handle(f"r{n}")
            try:
                handle.result(timeout=60, check=False)
            except UnknownRunError:  # interrupted before it was created
                pass
            else:
                assert engine.resume(handle.run_id)["n"] == 3, (n, aim.where)
            n += 11
    assert n > 100


PROGRAM = """
import os, sys
from clew import Context, Engine, Graph, node

@node(output="m")
def wait(n, ctx: Context):
    print("reached", flush=True)
    while not ctx.cancelled:
        os.sched_yield()

@node(output="k")
def then(m):
    return m

engine = Engine(Graph([wait, then]), store=sys.argv[1])
handle = engine.start({"n": 1}, run_id="r")
if sys.argv[2] == "events":
    list(handle.events())
elif sys.argv[2] == "result":
    handle.result()
"""


@pytest.mark.parametrize("waits", ["events", "result", "nothing"])
def test_a_program_that_is_interrupted_or_ends_leaves_a_cancelled_run(tmp_path: Path, waits: str) -> None:
    file = tmp_path / "runs.db"
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(file), waits],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert process.stdout is not None
    if waits != "nothing":
        assert process.stdout.readline() == "reached\n"
        process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=300)
    assert ("KeyboardInterrupt" in errors) == (waits != "nothing"), errors
    with Engine(store=SQLiteStore(file)) as engine:
        assert engine.handle("r").status == "cancelled"


def test_a_failure_of_the_store_is_raised_by_the_handle(tmp_path: Path) -> None:
    gate = Gate()
    store = SQLiteStore(tmp_path / "runs.db")
    engine = Engine(gate.graph(), store=store)
    handle = engine.start({"n": 0}, run_id="r")
    assert gate.reached.get() == 0
    store.close()
    gate.passes.put(None)
    from clew.errors import StoreError

    with pytest.raises(StoreError):
        handle.result()
    with pytest.raises(StoreError):
        list(handle.events())


def test_a_forked_process_does_not_execute_the_runs_of_its_parent(tmp_path: Path) -> None:
    gate = Gate()
    with Engine(gate.graph(), store=tmp_path / "runs.db") as engine:
        handle = engine.start({"n": 2}, run_id="r")
        assert gate.reached.get() == 2
        child = os.fork()
        if not child:
            background = handle._handles.background
            is_left = background.job("r") is None and not background.is_here("r")
            background.close()
            os._exit(0 if is_left and handle.status == "running" else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        gate.passes.put(None)
        assert handle.result().status == "completed"


def test_a_run_in_a_read_only_file_can_be_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Engine(LOOP, store=tmp_path / "runs.db") as engine:
        engine.run({"n": 0}, run_id="r")
    monkeypatch.setattr("clew.stores.sqlite.file._is_writable", lambda path: False)
    with Engine(store=SQLiteStore(tmp_path / "runs.db")) as engine:
        assert steps(engine.handle("r").events()) == list(range(1, 8))


def test_an_error_that_no_handle_reports_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    gate = Gate()
    store = SQLiteStore(tmp_path / "runs.db")
    engine = Engine(gate.graph(), store=store)
    thread = engine.start({"n": 0}, run_id="r")._job.thread
    assert gate.reached.get() == 0
    store.close()
    gate.passes.put(None)
    assert thread is not None
    thread.join()
    gc.collect()
    assert [record.name for record in caplog.records] == ["clew.runs"]


def test_a_result_is_not_that_of_a_run_that_was_taken_while_it_was_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from clew.runtime.handles import handle as handles

    engine = Engine(ORDER, store=SQLiteStore(tmp_path / "runs.db"))
    engine.run({}, run_id="r")
    opener, fences, is_moving = engine._opener, list[int](), handles.is_moving

    def taken_meanwhile(*row: Any) -> bool:
        moves = is_moving(*row)
        if not fences:  # after the row was read, and before the result is
            fences.append(opener.claim("r")[0])
            opener.repository.begin("r", fences[0], 1.0)
        else:
            opener.repository.close("r", fences[0], "cancelled", 2.0, ())
        return moves

    monkeypatch.setattr(handles, "is_moving", taken_meanwhile)
    with engine:
        assert engine.handle("r").result(timeout=60, check=False).status == "cancelled"
