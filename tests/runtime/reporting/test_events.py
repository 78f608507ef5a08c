"""Events: their order and content, who is told, and streams."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from clew import (
    END,
    Context,
    Engine,
    Event,
    Graph,
    RetryPolicy,
    SchedulerMetrics,
    Send,
    interrupt,
    node,
    route,
)
from clew.testing import VirtualClock


@node(output="n")
def up(a: int) -> int:
    return a + 1


@route(targets=["up", END])
def enough(n: int) -> Any:
    return END if n >= 1 else "up"


LOOP = Graph([up, enough], name="loop")

GOLDEN = [
    ("run_started", 0, "", {"graph": "loop", "values": {"a": 0}}),
    ("step_planned", 1, "", {"nodes": ["up"]}),
    ("item_queued", 1, "up#0", {"node": "up", "items": 1}),
    ("item_started", 1, "up#0", {"node": "up", "attempt": 0}),
    ("item_finished", 1, "up#0", {"node": "up", "duration": 0.0, "update": {"n": 1}}),
    ("step_committed", 1, "", {"items": 1}),
    ("step_planned", 2, "", {"nodes": ["enough"]}),
    ("item_queued", 2, "enough#0", {"node": "enough", "items": 1}),
    ("item_started", 2, "enough#0", {"node": "enough", "attempt": 0}),
    ("item_finished", 2, "enough#0", {"node": "enough", "duration": 0.0, "update": {}}),
    ("gate_decided", 2, "enough#0", {"node": "enough", "decision": ("END",)}),
    ("step_committed", 2, "", {"items": 1}),
    (
        "run_finished",
        2,
        "",
        {
            "status": "completed",
            "error": None,
            "metrics": SchedulerMetrics(total_steps=2, total_nodes_executed=2, max_queue_depth=1),
        },
    ),
]


def shown(events: list[Event]) -> list[tuple[Any, ...]]:
    return [(e.kind, e.step, e.path, dict(e.data)) for e in events]


def test_the_events_of_a_small_run() -> None:
    told: list[Event] = []
    Engine(LOOP, listeners=[told.append], clock=VirtualClock(5.0)).run({"a": 0}, run_id="r")
    assert shown(told) == GOLDEN
    assert {(event.run_id, event.time) for event in told} == {("r", 5.0)}


def test_a_stream_yields_the_same_events() -> None:
    assert shown(list(Engine(LOOP, clock=VirtualClock()).stream({"a": 0}))) == GOLDEN


def test_an_async_stream_yields_the_same_events() -> None:
    async def collect() -> list[Event]:
        return [event async for event in Engine(LOOP, clock=VirtualClock()).astream({"a": 0})]

    assert shown(asyncio.run(collect())) == GOLDEN


def test_a_stream_of_async_nodes_yields_the_same_events() -> None:
    @node(output="n", name="up")
    async def aup(a: int) -> int:
        return a + 1

    graph = Graph([aup, enough], name="loop")
    assert shown(list(Engine(graph, clock=VirtualClock()).stream({"a": 0}))) == GOLDEN


def test_the_events_of_failures_retries_and_questions() -> None:
    @node(output="x", retry=RetryPolicy(max_attempts=2, base_delay=1e-9))
    def flaky(a: int, ctx: Context) -> int:
        raise ValueError(ctx.attempt)

    @interrupt(output="y")
    def ask(a: int) -> str:
        return "well?"

    told: list[Event] = []
    engine = Engine(
        Graph([flaky, ask]), listeners=[told.append], max_concurrent_nodes=1, clock=VirtualClock()
    )
    engine.run({"a": 1}, check=False)
    wanted = ("item_failed", "item_retried", "interrupted", "run_finished")
    shown_of = [(e.kind, e.path) for e in told if e.kind in wanted]
    assert sorted(shown_of) == [
        ("interrupted", "ask#0"),
        ("item_failed", "flaky#0"),
        ("item_failed", "flaky#0"),
        ("item_retried", "flaky#0"),
        ("run_finished", ""),
    ]
    assert [e.question for e in told if e.kind == "interrupted"] == ["well?"]
    assert [(e.attempt, str(e.error)) for e in told if e.kind == "item_failed"] == [(0, "0"), (1, "1")]
    assert told[-1].status == "failed"


def test_backpressure_is_told() -> None:
    @route(targets=["part"])
    def split(a: int) -> list[Send]:
        return [Send("part", {"n": n}) for n in range(5)]

    @node(output="last")
    def part(n: int) -> int:
        return n

    events = Engine(Graph([split, part]), queue_depth=2, on_conflict="last").stream({"a": 1})
    assert [event.depth for event in events if event.kind == "backpressure"] == [2]


def test_a_label_is_told() -> None:
    told: list[Event] = []
    engine = Engine(LOOP, listeners=[told.append])
    engine.run({"a": 0}, run_id="r")
    engine.label_checkpoint("r", "half", step=1)
    assert shown(told[-1:]) == [("checkpoint", 1, "", {"label": "half"})]


def test_a_resumed_run_tells_that_it_goes_on() -> None:
    told: list[Event] = []

    @interrupt(output="y")
    def ask(a: int) -> str:
        return "well?"

    engine = Engine(Graph([ask]), listeners=[told.append])
    engine.run({"a": 1}, run_id="r")
    del told[:]
    engine.resume("r", answer=1)
    assert [event.kind for event in told][-2:] == ["step_committed", "run_finished"]


def test_events_are_made_only_when_somebody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    class Counted(Event, frozen=True):
        def __post_init__(self) -> None:
            made.append(self.kind)

    @node(output="x")
    def tell(a: int, ctx: Context) -> Iterator[int]:
        ctx.emit("something")
        yield a

    monkeypatch.setattr("clew.runtime.drivers.session.Event", Counted)
    Engine(Graph([tell])).run({"a": 1})
    assert made == []
    Engine(Graph([tell]), listeners=[lambda event: None]).run({"a": 1})
    assert "emitted" in made


# -- listeners


def test_a_listener_that_raises_is_logged_and_dropped(caplog: pytest.LogCaptureFixture) -> None:
    told: list[str] = []

    def bad(event: Event) -> None:
        told.append(event.kind)
        raise ValueError("mine")

    other: list[Event] = []
    with caplog.at_level(logging.ERROR, "clew.events"):
        result = Engine(LOOP, listeners=[bad, other.append], clock=VirtualClock()).run({"a": 0})
    assert (result.status, told) == ("completed", ["run_started"])
    assert shown(other) == GOLDEN
    (record,) = caplog.records
    assert "raised on run_started" in record.message


def test_a_run_goes_on_when_its_only_listener_is_dropped(caplog: pytest.LogCaptureFixture) -> None:
    def bad(event: Event) -> None:
        raise ValueError

    assert Engine(LOOP, listeners=[bad]).run({"a": 0}).status == "completed"
    assert len(caplog.records) == 1


def test_each_run_tells_the_listeners_anew(caplog: pytest.LogCaptureFixture) -> None:
    told: list[str] = []

    def bad(event: Event) -> None:
        told.append(event.run_id)
        raise ValueError

    engine = Engine(LOOP, listeners=[bad])
    engine.run({"a": 0}, run_id="one")
    engine.run({"a": 0}, run_id="two")
    assert told == ["one", "two"]


def test_what_is_told_is_committed() -> None:
    seen: list[int] = []

    def look(event: Event) -> None:
        if event.kind == "step_committed":
            seen.append(engine.state("r").step)

    engine = Engine(LOOP, listeners=[look])
    engine.run({"a": 0}, run_id="r")
    assert seen == [1, 2]


# -- chunks, while the node runs


def test_the_chunks_of_a_generator_are_streamed_while_it_runs() -> None:
    heard = threading.Event()

    @node(output="x")
    def chunks(a: int) -> Iterator[int]:
        yield 1
        assert heard.wait(300), "the first chunk was not heard while the node ran"
        yield 2

    found = []
    for event in Engine(Graph([chunks])).stream({"a": 1}):
        if event.kind == "chunk":
            found.append(event.chunk)
            heard.set()
    assert found == [1, 2]


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("asynchronously", [False, True])
def test_the_chunks_of_an_async_generator_are_streamed_while_it_runs(
    beside: bool, asynchronously: bool
) -> None:
    heard = threading.Event()

    @node(output="x")
    async def chunks(a: int) -> AsyncIterator[int]:
        yield 1
        for _ in range(1_000_000):
            if heard.is_set():
                break
            await asyncio.sleep(0)
        else:
            pytest.fail("the first chunk was not heard while the node ran")
        yield 2

    @node(output="y")
    async def other(a: int) -> int:
        return a

    engine = Engine(Graph([chunks, other] if beside else [chunks]))
    found = []

    def hear(event: Event) -> None:
        if event.kind == "chunk":
            found.append(event.chunk)
            heard.set()

    async def listen() -> None:
        async for event in engine.astream({"a": 1}):
            hear(event)

    if asynchronously:
        asyncio.run(listen())
    else:
        for event in engine.stream({"a": 1}):
            hear(event)
    assert found == [1, 2]


@pytest.mark.parametrize("beside", [False, True])
def test_the_chunks_of_a_sync_generator_are_streamed_to_the_loop_while_it_runs(beside: bool) -> None:
    heard = threading.Event()

    @node(output="x")
    def chunks(a: int) -> Iterator[int]:
        yield 1
        assert heard.wait(300), "the first chunk was not heard while the node ran"
        yield 2

    @node(output="y")
    async def other(a: int) -> int:
        return a

    async def listen() -> list[Any]:
        found = []
        async for event in Engine(Graph([chunks, other] if beside else [chunks])).astream({"a": 1}):
            if event.kind == "chunk":
                found.append(event.chunk)
                heard.set()
        return found

    assert asyncio.run(listen()) == [1, 2]


def test_a_listener_hears_the_chunks_of_an_inline_generator_while_it_runs() -> None:
    heard: list[int] = []
    counts: list[int] = []

    @node(output="x")
    def chunks(a: int) -> Iterator[int]:
        yield 1
        counts.append(len(heard))
        yield 2
        counts.append(len(heard))

    engine = Engine(
        Graph([chunks]), listeners=[lambda e: heard.append(e.chunk) if e.kind == "chunk" else None]
    )
    engine.run({"a": 1})
    assert counts == [1, 2]


def test_what_a_node_tells_comes_after_its_start_and_before_its_end() -> None:
    def telling(name: str) -> Any:
        def tell(a: int, ctx: Context) -> int:
            for i in range(20):
                ctx.emit(str(i))
            return a

        return node(tell, name=name, output=name)

    events = list(Engine(Graph([telling("x"), telling("y")])).stream({"a": 1}))
    for name in "xy":
        own = [e.kind for e in events if e.path == f"{name}#0"]
        assert own == ["item_queued", "item_started", *["emitted"] * 20, "item_finished"]
    assert [e.data["name"] for e in events if e.kind == "emitted" and e.path == "x#0"] == [
        *map(str, range(20))
    ]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_what_an_inline_node_tells_comes_after_its_start_too(asynchronous: bool) -> None:
    def tell(a: int, ctx: Context) -> int:
        ctx.emit("something")
        return a

    async def atell(a: int, ctx: Context) -> int:
        return tell(a, ctx)

    told: list[str] = []
    graph = Graph([node(atell if asynchronous else tell, name="x", output="x")])
    Engine(graph, listeners=[lambda event: told.append(event.kind)]).run({"a": 1})
    assert told[3:6] == ["item_started", "emitted", "item_finished"]


# -- streams that are left, and that fail


def test_a_stream_that_is_left_early_cancels_its_run() -> None:
    engine = Engine(LOOP)
    for event in engine.stream({"a": 0}, run_id="r"):
        if event.kind == "step_committed":
            break
    del event
    assert engine.runs()[0].status == "cancelled"
    assert engine.resume("r")["n"] == 1


def test_a_stream_of_async_nodes_that_is_left_early_cancels_its_run() -> None:
    cancelled = threading.Event()

    @node(output="x")
    async def wait(a: int, ctx: Context) -> None:
        ctx.emit("running")
        try:
            await asyncio.sleep(3600)
        finally:
            cancelled.set()

    engine = Engine(Graph([wait]))
    stream = engine.stream({"a": 1}, run_id="r")
    assert any(event.kind == "emitted" for event in stream)
    stream.close()
    assert cancelled.is_set()
    assert engine.runs()[0].status == "cancelled"


def test_an_async_stream_that_is_closed_has_cancelled_its_run() -> None:
    async def main() -> tuple[bool, str, int]:
        cancelled = False

        @node(output="x")
        async def wait(a: int, ctx: Context) -> None:
            nonlocal cancelled
            ctx.emit("running")
            try:
                await asyncio.sleep(3600)
            finally:
                cancelled = True

        engine = Engine(Graph([wait]))
        stream = engine.astream({"a": 1}, run_id="r")
        async for event in stream:
            if event.kind == "emitted":
                break
        await stream.aclose()
        return cancelled, engine.runs()[0].status, len(asyncio.all_tasks())

    assert asyncio.run(main()) == (True, "cancelled", 1)


def test_a_stream_of_a_failed_run_ends() -> None:
    @node(output="x")
    def fails(a: int) -> None:
        raise ValueError

    events = list(Engine(Graph([fails])).stream({"a": 1}, check=False))
    assert (events[-1].kind, events[-1].status) == ("run_finished", "failed")


def test_an_interrupt_from_the_keyboard_reaches_whoever_reads_the_stream() -> None:
    @node(output="x")
    async def interrupted(a: int) -> None:
        raise KeyboardInterrupt

    engine = Engine(Graph([interrupted]))
    with pytest.raises(KeyboardInterrupt):
        list(engine.stream({"a": 1}))
    assert engine.runs()[0].status == "cancelled"


def test_the_result_of_a_stream_is_there_afterwards() -> None:
    engine = Engine(LOOP)
    list(engine.stream({"a": 0}, run_id="r"))
    assert engine.result("r")["n"] == 1


# -- an event


def test_the_data_of_an_event_are_attributes() -> None:
    event = Event("chunk", "r", 1, "x#0", 0.0, {"node": "x", "chunk": 5})
    assert (event.kind, event.node, event.chunk) == ("chunk", "x", 5)


def test_an_attribute_that_an_event_does_not_have() -> None:
    event = Event("chunk", "r", 1, "x#0", 0.0, {"node": "x", "chunk": 5})
    with pytest.raises(AttributeError, match="'chunk' event has no 'chunks'"):
        event.chunks


def test_an_event_is_frozen() -> None:
    with pytest.raises(AttributeError):
        Event("chunk", "r", 1, "x#0", 0.0).step = 2
