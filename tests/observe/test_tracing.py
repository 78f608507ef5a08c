"""The spans of a run: their tree, their ids, and which of them is current where."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import baggage, context, trace
from opentelemetry.sdk.trace.sampling import (
    ALWAYS_OFF,
    Decision,
    ParentBased,
    Sampler,
    SamplingResult,
    TraceIdRatioBased,
)
from opentelemetry.trace import StatusCode

from clew import END, Cache, Context, Engine, Graph, RetryPolicy, Send, Worker, interrupt, node, route
from clew.errors import DefinitionError
from clew.observe import Tracing
from clew.observe.trace_ids import ids_of
from clew.runtime.executors import processes
from clew.runtime.reporting.observers import ObservedRun
from clew.stores import MemoryStore, SQLiteStore, Store
from tests.observe.spans import (
    Traces,
    about,
    achat,
    ask_in_vain,
    chat,
    describe,
    fetch,
    look,
    look_too,
    outside,
    sampled,
    span_id,
    trace_id,
)


@pytest.fixture
def traces() -> Iterator[Traces]:
    made = Traces()
    yield made
    made.provider.shutdown()


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made: Store = MemoryStore() if request.param == "memory" else SQLiteStore(tmp_path / "runs.db")
    yield made
    made.close()


def current() -> int:
    return trace.get_current_span().get_span_context().span_id


@node(output="b")
def up(a: int) -> int:
    return a + 1


@node(output="c")
def call(b: int, ctx: Context) -> int:
    return int(ctx.record("fetch", lambda n: n * 2, b))


# -- the tree --------------------------------------------------------------------------------------------


def test_run_step_item_and_call_are_nested(store: Store, traces: Traces) -> None:
    engine = Engine(Graph([up, call], name="shop"), store=store, listeners=[traces.tracing()])
    result = engine.run({"a": 1}, run_id="r")
    assert result["c"] == 4
    assert traces.tree() == ["run shop", "  step", "    up", "  step", "    call", "      fetch"]
    run, item, made = traces.one("run shop"), traces.one("call"), traces.one("fetch")
    assert about(run) == {
        "clew.run.id": "r",
        "clew.graph.name": "shop",
        "clew.take.first": True,
        "clew.run.status": "completed",
    }
    assert about(item) == {
        "clew.item.path": "call#0",
        "clew.item.attempt": 0,
        "clew.node.name": "call",
        "code.function.name": f"{__name__}.call",
    }
    assert [about(step)["clew.step.number"] for step in traces.named("step")] == [1, 2]
    assert (about(made), made.kind) == ({"clew.call.name": "fetch"}, trace.SpanKind.CLIENT)
    assert {span.status.status_code for span in traces.spans} == {StatusCode.UNSET}
    for span in traces.spans:
        parent = traces.parent(span)
        assert span.start_time
        assert span.end_time
        assert span.start_time <= span.end_time
        assert parent is None or (parent.start_time or 0) <= span.start_time


def test_async_nodes_have_the_same_tree(store: Store, traces: Traces) -> None:
    @node(output="b")
    async def later(a: int) -> int:
        await asyncio.sleep(0)
        assert current() != 0
        return a + 1

    @node(output="c")
    async def fetches(b: int, ctx: Context) -> int:
        async def fetch(n: int) -> int:
            await asyncio.sleep(0)
            with traces.tracer.start_as_current_span("inside"):
                return n

        both = await asyncio.gather(ctx.record("one", fetch, b), ctx.record("two", fetch, b))
        return sum(both)

    engine = Engine(Graph([later, fetches], name="g"), store=store, listeners=[traces.tracing()])

    async def main() -> None:
        before = current()
        with traces.tracer.start_as_current_span("caller"):
            here = current()
            await engine.arun({"a": 1})
            assert current() == here
        assert current() == before

    asyncio.run(main())
    tree = [line for line in traces.tree() if "caller" not in line]
    assert tree[:4] == ["run g", "  step", "    later", "  step"]
    assert sorted(tree[5:]) == ["        inside", "        inside", "      one", "      two"]


def test_a_subgraph_is_below_its_item(traces: Traces) -> None:
    inner = Graph([up], name="inner")
    graph = Graph([inner.as_node(name="sub"), call], name="outer")
    Engine(graph, listeners=[traces.tracing()]).run({"a": 1})
    assert traces.lineage("up") == ["up", "step", "sub", "step", "run outer"]
    assert about(traces.one("up"))["clew.item.path"] == "sub#0/up#0"


def test_concurrent_items_of_mapped_subgraphs_have_one_step_each(traces: Traces) -> None:
    inner = Graph([up], name="inner")
    graph = inner.map_over("a", name="sub")
    Engine(graph, listeners=[traces.tracing()]).run({"a": list(range(20))})
    assert len(traces.named("up")) == 20
    assert len(traces.named("sub")) == 1
    assert len(traces.named("step")) == 21


def test_a_fan_out_is_one_step(traces: Traces) -> None:
    @route(targets=["work"])
    def spread(n: int) -> list[Send]:
        return [Send("work", {"x": each}) for each in range(n)]

    @node(output="out")
    def work(x: int) -> int:
        return x

    graph = Graph([spread, work], name="fan")
    Engine(graph, listeners=[traces.tracing()], on_conflict="last").run({"n": 8})
    parents = {span_id(traces.parent(span)) for span in traces.named("work")}
    assert (len(traces.named("work")), len(parents)) == (8, 1)


# -- the current span -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "made",
    [
        lambda: nullcontext(None),
        lambda: ThreadPoolExecutor(2),
        lambda: processes(1),
    ],
    ids=["own threads", "threads", "processes"],
)
def test_the_span_of_the_item_is_current_in_every_executor(made: Any, traces: Traces) -> None:
    graph = Graph([look, look_too], name="two")
    executor: Executor | None
    with made() as executor:
        result = Engine(graph, executor=executor, listeners=[traces.tracing()], default_node_timeout=120).run(
            {"a": 1}
        )
    for name, seen in (("look", result["seen"]), ("look_too", result["seen2"])):
        span = traces.one(name)
        assert seen == [trace_id(span), span_id(span)]
    assert current() == 0


def test_a_call_of_a_node_in_another_process_is_below_its_item(traces: Traces) -> None:
    with processes(1) as executor:
        engine = Engine(Graph([fetch], name="remote"), executor=executor, listeners=[traces.tracing()])
        assert engine.run({"a": -1})["fetched"] == 1
    assert traces.parent(traces.one("service")) is traces.one("fetch")


def test_a_child_of_a_node_in_another_process_is_below_its_item(traces: Traces) -> None:
    with processes(1) as executor:
        engine = Engine(Graph([outside], name="g"), executor=executor, listeners=[traces.tracing()])
        assert engine.run({"a": -1})["outside"] == 1
    assert traces.parent(traces.one("run inner")) is traces.one("outside")
    assert len(traces.traces) == 1


def test_a_node_in_another_process_can_describe_its_span(traces: Traces) -> None:
    with processes(1) as executor:
        engine = Engine(Graph([describe], name="remote"), executor=executor, listeners=[traces.tracing()])
        assert engine.run({"a": 1})["described"] == 1
    span = traces.one("described")
    assert (about(span)["customer"], about(span)["sizes"]) == ("ann", (1, 2))
    assert about(span)["clew.item.path"] == "describe#0"
    assert "unknown" not in about(span)
    assert [event.name for event in span.events] == ["packed", "exception"]
    assert dict(span.events[0].attributes or {}) == {"boxes": 3}
    assert (span.events[1].attributes or {})["exception.type"] == "KeyError"
    assert span.status.status_code is StatusCode.OK


@pytest.mark.parametrize("body", [chat, achat], ids=["sync", "async"])
def test_a_recorded_call_in_another_process_can_describe_its_span(body: Any, traces: Traces) -> None:
    with processes(1) as executor:
        engine = Engine(Graph([body], name="remote"), executor=executor, listeners=[traces.tracing()])
        result = engine.run({"a": 1})
    call = traces.one("chat tiny")
    assert result["answer"] == [span_id(call)]
    assert about(call)["gen_ai.usage.input_tokens"] == 3
    assert traces.parent(call) is traces.one(body.name)


def test_a_recorded_call_that_raises_in_another_process_has_what_it_set(traces: Traces) -> None:
    with processes(1) as executor:
        engine = Engine(Graph([ask_in_vain], name="remote"), executor=executor, listeners=[traces.tracing()])
        assert engine.run({"a": 1})["refused"]
    call = traces.one("model")
    assert about(call)["prompts"] == 1
    assert about(call)["error.type"] == "ValueError"


def test_baggage_of_the_caller_reaches_the_nodes(traces: Traces) -> None:
    @node(output="who")
    def ask(a: int) -> Any:
        return baggage.get_baggage("tenant")

    token = context.attach(baggage.set_baggage("tenant", "ann"))
    try:
        assert Engine(Graph([ask]), listeners=[traces.tracing()]).run({"a": 1})["who"] == "ann"
    finally:
        context.detach(token)


def test_a_node_can_describe_its_span(traces: Traces) -> None:
    @node(output="b")
    def describe(a: int) -> int:
        trace.get_current_span().set_attribute("customer", "ann")
        return a

    Engine(Graph([describe]), listeners=[traces.tracing()]).run({"a": 1})
    assert about(traces.one("describe"))["customer"] == "ann"


def test_requests_are_recorded_as_without_tracing(tmp_path: Path, traces: Traces) -> None:
    digests = []
    for number, listeners in enumerate(([], [traces.tracing()])):
        with Engine(
            Graph([up, call]), store=tmp_path / f"{number}.db", listeners=listeners, seed=1
        ) as engine:
            result = engine.run({"a": 1}, run_id="r")
            digests.append(result.state.digest)
            assert engine.replay("r").ok
    assert digests[0] == digests[1]


# -- ids and takes ----------------------------------------------------------------------------------------


def test_ids_follow_from_the_id_and_the_creation_time(store: Store, traces: Traces) -> None:
    engine = Engine(Graph([up], name="g"), store=store, listeners=[traces.tracing()])
    engine.run({"a": 1}, run_id="r")
    created = store.row("r").created
    ids = ids_of(ObservedRun(run_id="r", created=created, graph="g"))
    span = traces.one("run g")
    assert (trace_id(span), span_id(span), span.parent) == (*ids, None)
    assert ids != ids_of(ObservedRun(run_id="r", created=created + 1, graph="g"))
    assert ids != ids_of(ObservedRun(run_id="s", created=created, graph="g"))


def test_each_take_has_a_span_in_the_trace_of_the_run(store: Store, traces: Traces) -> None:
    approve = interrupt(output="ok", name="approve")(lambda b: f"is {b} right?")
    graph = Graph([up, approve], name="g")
    Engine(graph, store=store, listeners=[traces.tracing()]).run({"a": 1}, run_id="r")
    assert traces.tree() == ["run g", "  step", "    up", "  step", "    approve"]
    first = traces.one("run g")
    traces.clear()
    with Traces() as other:  # another process has its own tracer
        Engine(graph, store=store, listeners=[other.tracing()]).resume("r", answer=True)
        (again,) = other.named("run g")
        assert trace_id(again) == trace_id(first)
        assert again.parent is not None
        assert again.parent.span_id == span_id(first)
        assert about(again)["clew.take.first"] is False
        assert not other.named("up")  # it was finished in the first take


def test_a_worker_continues_the_trace_of_a_submitted_run(store: Store, traces: Traces) -> None:
    engine = Engine(Graph([up], name="g"), store=store, listeners=[traces.tracing()])
    with traces.tracer.start_as_current_span("request"):
        engine.submit({"a": 1}, run_id="r")
    assert [span.name for span in traces.spans] == ["request"]
    Worker(engine.graph, store=store, listeners=[traces.tracing()]).run(until_idle=True)
    run, (link,) = traces.one("run g"), traces.one("request").links
    assert (link.context.trace_id, link.context.span_id) == (trace_id(run), span_id(run))
    assert about(run)["clew.take.first"] is True


def test_caller_and_run_are_linked(traces: Traces) -> None:
    engine = Engine(Graph([up], name="g"), listeners=[traces.tracing()])
    with traces.tracer.start_as_current_span("request"):
        engine.run({"a": 1})
    run, request = traces.one("run g"), traces.one("request")
    assert trace_id(run) != trace_id(request)
    assert [link.context.span_id for link in run.links] == [span_id(request)]
    assert [link.context.span_id for link in request.links] == [span_id(run)]


def test_a_joined_run_is_a_part_of_the_trace_of_its_caller(traces: Traces) -> None:
    engine = Engine(Graph([up], name="g"), listeners=[traces.tracing(join=True)])
    with traces.tracer.start_as_current_span("request"):
        engine.run({"a": 1}, run_id="r")
    assert traces.lineage("up") == ["up", "step", "run g", "request"]
    engine.run({"a": 1}, run_id="alone")
    assert len(traces.traces) == 2


# -- children ---------------------------------------------------------------------------------------------


def test_a_child_is_below_the_node_that_runs_it(store: Store, traces: Traces) -> None:
    child = Graph([up], name="child")

    @node(output="out")
    def outer(x: int, ctx: Context) -> Any:
        return ctx.run(child, {"a": x})["b"]

    Engine(Graph([outer], name="g"), store=store, listeners=[traces.tracing()]).run({"x": 1})
    assert traces.lineage("up") == ["up", "step", "run child", "outer", "step", "run g"]
    assert len(traces.traces) == 1


def test_async_children_that_run_together_are_below_their_node(store: Store, traces: Traces) -> None:
    @node(output="b")
    async def slow(a: int) -> int:
        await asyncio.sleep(0)
        return a

    child = Graph([slow], name="child")

    @node(output="out")
    async def outer(x: int, ctx: Context) -> Any:
        found = await asyncio.gather(*(ctx.run(child, {"a": each}, key=str(each)) for each in range(3)))
        return [each["b"] for each in found]

    engine = Engine(Graph([outer], name="g"), store=store, listeners=[traces.tracing()])
    asyncio.run(engine.arun({"x": 1}))
    item = traces.one("outer")
    assert [traces.parent(each) for each in traces.named("run child")] == [item] * 3


# -- failures ---------------------------------------------------------------------------------------------


class Strange(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize("error", [ValueError("too much"), Strange()])
def test_a_failure_is_on_the_item_and_the_run(store: Store, traces: Traces, error: Exception) -> None:
    @node(output="b")
    def fails(a: int) -> int:
        raise error

    engine = Engine(Graph([fails], name="g"), store=store, listeners=[traces.tracing()], check=False)
    assert engine.run({"a": 1}).status == "failed"
    item, run = traces.one("fails"), traces.one("run g")
    assert (item.status.status_code, run.status.status_code) == (StatusCode.ERROR, StatusCode.ERROR)
    assert about(run)["clew.run.status"] == "failed"
    assert about(item)["error.type"] == about(run)["error.type"]
    assert [event.name for event in item.events] == ["exception"]
    assert not run.events  # the item has it


def test_text_without_an_encoding_reaches_the_collector(traces: Traces) -> None:
    @node(output="b")
    def fails(a: int, ctx: Context) -> int:
        ctx.record("read \udcfe", abs, a)
        raise ValueError("bad file name: \udcff")

    engine = Engine(Graph([fails], name="g"), listeners=[traces.tracing()], check=False)
    assert engine.run({"a": 1}).status == "failed"
    for span in traces.spans:
        texts = [span.name, str(span.status.description), *map(str, about(span).values())]
        texts += [str(value) for event in span.events for value in (event.attributes or {}).values()]
        for text in texts:
            text.encode()


def test_each_attempt_is_a_span(store: Store, traces: Traces) -> None:
    @node(output="b", retry=RetryPolicy(max_attempts=3, base_delay=0))
    def flaky(a: int, ctx: Context) -> int:
        if ctx.attempt < 2:
            raise ConnectionError(ctx.attempt)
        return a

    Engine(Graph([flaky]), store=store, listeners=[traces.tracing()]).run({"a": 1})
    spans = traces.named("flaky")
    assert [about(span)["clew.item.attempt"] for span in spans] == [0, 1, 2]
    assert [span.status.is_ok for span in spans] == [False, False, True]
    assert len(traces.named("step")) == 1


def test_an_invalid_output_fails_the_span(traces: Traces) -> None:
    @node(output=("b", "c"))
    def wrong(a: int) -> Any:
        return 1

    Engine(Graph([wrong]), listeners=[traces.tracing()], check=False).run({"a": 1})
    assert not traces.one("wrong").status.is_ok


def test_a_timeout_ends_the_span_of_the_item(traces: Traces) -> None:
    from threading import Event

    released = Event()

    @node(output="b", timeout=1.0)  # it has begun by then
    def stuck(a: int) -> int:
        released.wait(60)
        return a

    Engine(Graph([stuck]), listeners=[traces.tracing()], check=False).run({"a": 1})
    assert about(traces.one("stuck"))["error.type"] == "clew.errors.NodeTimeoutError"
    released.set()


def test_a_rescue_is_a_span_of_the_item(traces: Traces) -> None:
    @node(output="b", rescue=lambda error: -1)
    def fails(a: int) -> int:
        raise ValueError(a)

    result = Engine(Graph([fails], name="g"), listeners=[traces.tracing()]).run({"a": 1})
    assert result["b"] == -1
    assert [span.status.is_ok for span in traces.named("fails")] == [False, True]
    assert traces.one("run g").status.is_ok


def test_a_failed_call_is_on_its_span(traces: Traces) -> None:
    @node(output="b")
    def fetches(a: int, ctx: Context) -> int:
        def fetch() -> int:
            raise ConnectionError("down")

        try:
            return int(ctx.record("fetch", fetch))
        except ConnectionError:
            return -1

    Engine(Graph([fetches]), listeners=[traces.tracing()]).run({"a": 1})
    assert about(traces.one("fetch"))["error.type"] == "ConnectionError"
    assert traces.one("fetches").status.is_ok


# -- what has no span -------------------------------------------------------------------------------------


def test_a_replay_emits_nothing(store: Store, traces: Traces) -> None:
    engine = Engine(Graph([up, call]), store=store, listeners=[traces.tracing()])
    engine.run({"a": 1}, run_id="r")
    traces.clear()
    assert engine.replay("r").ok
    assert traces.spans == ()


def test_a_recorded_response_that_is_used_again_has_no_span(store: Store, traces: Traces) -> None:
    broken = [True]

    @node(output="b")
    def fetches(a: int, ctx: Context) -> int:
        found = ctx.record("fetch", lambda: 1)
        if broken:
            raise ValueError("broken")
        return int(found)

    engine = Engine(Graph([fetches]), store=store, listeners=[traces.tracing()], check=False)
    engine.run({"a": 1}, run_id="r")
    assert len(traces.named("fetch")) == 1
    traces.clear()
    broken.clear()
    assert engine.resume("r").status == "completed"
    assert (len(traces.named("fetches")), len(traces.named("fetch"))) == (1, 0)


def test_a_cached_result_is_a_span_without_duration(store: Store, traces: Traces) -> None:
    @node(output="b", cache=Cache())
    def slow(a: int) -> int:
        return a

    engine = Engine(Graph([slow]), store=store, listeners=[traces.tracing()])
    engine.run({"a": 1})
    traces.clear()
    engine.run({"a": 1})
    span = traces.one("slow")
    assert about(span)["clew.item.cached"] is True
    assert span.start_time == span.end_time


def test_clocks_and_sleeps_of_clew_have_no_span(traces: Traces) -> None:
    @node(output="b")
    def when(a: int, ctx: Context) -> str:
        ctx.sleep(0)
        return ctx.now().isoformat()

    Engine(Graph([when], name="g"), listeners=[traces.tracing()]).run({"a": 1})
    assert traces.tree() == ["run g", "  step", "    when"]


# -- sampling and configuration ---------------------------------------------------------------------------


def test_a_run_that_is_not_sampled_has_no_spans_inside(store: Store) -> None:
    class NoRuns(Sampler):
        """Samples all traces but those of runs."""

        def should_sample(
            self, parent_context: Any, trace_id: int, name: str, *about: Any, **more: Any
        ) -> Any:
            return SamplingResult(Decision.DROP if name == "run" else Decision.RECORD_AND_SAMPLE)

        def get_description(self) -> str:
            return "no runs"

    with Traces(sampler=ParentBased(NoRuns())) as traces:

        @node(output="b")
        def work(a: int) -> int:
            with traces.tracer.start_as_current_span("inside"):
                return a

        engine = Engine(Graph([work]), store=store, listeners=[traces.tracing()])
        assert engine.run({"a": 1})["b"] == 1
        assert len(list(engine.stream({"a": 1}))) > 3
        assert traces.spans == ()
    assert current() == 0


def test_nothing_is_sampled_in_the_processes_of_a_run_that_is_not_sampled() -> None:
    with Traces(sampler=ParentBased(ALWAYS_OFF)) as traces, processes(1) as executor:
        graph = Graph([sampled, outside], name="g")
        result = Engine(graph, executor=executor, listeners=[traces.tracing()]).run({"a": -1})
        assert result["flags"] == [1, 0]  # spans there have a parent, which is not sampled
        assert result["outside"] == 1
        assert traces.spans == ()


def test_all_takes_of_a_run_are_sampled_alike(store: Store) -> None:
    approve = interrupt(output="ok", name="approve")(lambda a: "right?")
    graph = Graph([approve], name="g")
    with Traces(sampler=ParentBased(TraceIdRatioBased(0.5))) as traces:
        for number in range(40):
            engine = Engine(graph, store=store, listeners=[traces.tracing()])
            engine.run({"a": 1}, run_id=f"r{number}")
            engine.resume(f"r{number}", answer=True)
        counts: dict[int, int] = {}
        for span in traces.named("run g"):
            counts[trace_id(span)] = counts.get(trace_id(span), 0) + 1
    assert 0 < len(counts) < 40
    assert set(counts.values()) == {2}


def test_without_a_provider_nothing_is_traced_and_a_warning_says_so(caplog: pytest.LogCaptureFixture) -> None:
    engine = Engine(Graph([up]), listeners=[Tracing()])
    for _ in range(3):
        assert engine.run({"a": 1})["b"] == 2
    assert [record.name for record in caplog.records if record.name.startswith("clew")] == ["clew.tracing"]


@pytest.mark.parametrize("wrong", [{"provider": 3}, {"join": "yes"}])
def test_a_wrong_option_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError):
        Tracing(**wrong)


def test_a_broken_processor_breaks_no_run(store: Store, traces: Traces) -> None:
    class Broken:
        def on_start(self, span: Any, parent_context: Any = None) -> None:
            raise RuntimeError("broken")

        def _on_ending(self, span: Any) -> None: ...
        def on_end(self, span: Any) -> None: ...
        def shutdown(self) -> None: ...
        def force_flush(self, timeout_millis: int = 0) -> bool:
            return True

    traces.provider.add_span_processor(Broken())
    engine = Engine(Graph([up, call]), store=store, listeners=[traces.tracing()])
    assert engine.run({"a": 1})["c"] == 4
    assert current() == 0


def test_a_stream_leaves_the_context_of_its_reader_alone(traces: Traces) -> None:
    engine = Engine(Graph([up, call], name="g"), listeners=[traces.tracing()])
    for _ in engine.stream({"a": 1}):
        assert current() == 0
    assert traces.lineage("up") == ["up", "step", "run g"]


def test_a_loop_has_a_step_for_each_round(traces: Traces) -> None:
    @node(output="n")
    def count(n: int) -> int:
        return n + 1

    @route(targets=["count", END])
    def more(n: int) -> Any:
        return "count" if n < 3 else END

    Engine(Graph([count, more], name="g"), listeners=[traces.tracing()]).run({"n": 0})
    assert [about(each)["clew.item.path"] for each in traces.named("count")] == [
        "count#0",
        "count#1",
        "count#2",
    ]
