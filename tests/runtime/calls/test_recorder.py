"""Recorded calls: what succeeded is not called again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from clew import Context, Engine, Graph, RetryPolicy, node
from clew.runtime.log.entries.call_records import RecordedCall

TWICE = RetryPolicy(max_attempts=2, base_delay=1e-9)


class Service:
    """Counts its calls; answers differ from call to call."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def ask(self, prompt: Any = "hi", **more: Any) -> str:
        self.calls.append(prompt)
        return f"answer {len(self.calls)}"

    async def aask(self, prompt: Any = "hi", **more: Any) -> str:
        await asyncio.sleep(0)
        return self.ask(prompt)


class Awaited:
    """A callable whose answers are awaited, and which is no coroutine function."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def __call__(self, prompt: str) -> str:
        return self._service.ask(prompt)


def failing_once(function: Any) -> Any:
    """A node whose first attempt fails after `function` has returned."""

    if asyncio.iscoroutinefunction(function):

        async def act(a: int, ctx: Context) -> Any:
            found = await function(ctx)
            if ctx.attempt == 0:
                raise ValueError
            return found

    else:

        def act(a: int, ctx: Context) -> Any:
            found = function(ctx)
            if ctx.attempt == 0:
                raise ValueError
            return found

    return node(act, name="act", output="x", retry=TWICE)


def test_a_success_of_an_earlier_attempt_is_used_again() -> None:
    service = Service()
    result = Graph([failing_once(lambda ctx: ctx.record("llm", service.ask, "hi"))]).run(a=1)
    assert (result["x"], service.calls) == ("answer 1", ["hi"])


def test_a_success_of_an_async_call_is_used_again() -> None:
    service = Service()

    async def call(ctx: Context) -> Any:
        return await ctx.record("llm", service.aask, "hi")

    result = Graph([failing_once(call)]).run(a=1)
    assert (result["x"], service.calls) == ("answer 1", ["hi"])


def test_a_success_of_a_callable_that_returns_an_awaitable_is_used_again() -> None:
    service = Service()

    async def call(ctx: Context) -> Any:
        return await ctx.record("llm", Awaited(service), "hi")

    result = Graph([failing_once(call)]).run(a=1)
    assert (result["x"], service.calls) == ("answer 1", ["hi"])


def test_several_calls_at_once_keep_their_places() -> None:
    service = Service()

    async def call(ctx: Context) -> Any:
        prompts = ["a", "b", "c"]
        return await asyncio.gather(*(ctx.record("llm", service.aask, prompt) for prompt in prompts))

    result = Graph([failing_once(call)]).run(a=1)
    assert (result["x"], service.calls) == (["answer 1", "answer 2", "answer 3"], ["a", "b", "c"])


def test_a_changed_request_is_called_again() -> None:
    service = Service()
    graph = Graph([failing_once(lambda ctx: ctx.record("llm", service.ask, ctx.attempt))])
    assert (graph.run(a=1)["x"], service.calls) == ("answer 2", [0, 1])


def test_a_changed_keyword_is_called_again() -> None:
    service = Service()
    graph = Graph([failing_once(lambda ctx: ctx.record("llm", service.ask, key=ctx.attempt))])
    assert graph.run(a=1)["x"] == "answer 2"


def test_a_changed_name_is_called_again() -> None:
    service = Service()
    graph = Graph([failing_once(lambda ctx: ctx.record(f"llm {ctx.attempt}", service.ask))])
    assert graph.run(a=1)["x"] == "answer 2"


def test_requests_that_cannot_be_encoded_are_compared() -> None:
    service, client = Service(), object()
    graph = Graph([failing_once(lambda ctx: ctx.record("llm", service.ask, client))])
    assert (graph.run(a=1)["x"], service.calls) == ("answer 1", [client])


@pytest.mark.parametrize("kind", ["sync", "async", "awaitable"])
def test_an_exception_belongs_to_its_attempt(kind: str) -> None:
    calls: list[int] = []

    def flaky() -> str:
        calls.append(1)
        if len(calls) == 1:
            raise OSError("down")
        return "up"

    async def aflaky() -> str:
        return flaky()

    class Flaky:
        async def __call__(self) -> str:
            return flaky()

    async def call(ctx: Context) -> Any:
        if kind == "sync":
            return ctx.record("call", flaky)
        return await ctx.record("call", aflaky if kind == "async" else Flaky())

    @node(output="x", retry=TWICE)
    async def act(a: int, ctx: Context) -> Any:
        return await call(ctx)

    assert (Graph([act]).run(a=1)["x"], len(calls)) == ("up", 2)


def test_a_resumed_run_uses_what_was_recorded() -> None:
    service, fail = Service(), True

    @node(output="x")
    def act(a: int, ctx: Context) -> Any:
        found = ctx.record("llm", service.ask)
        if fail:
            raise ValueError
        return found

    engine = Engine(Graph([act]))
    engine.run({"a": 1}, run_id="r", check=False)
    fail = False
    assert (engine.resume("r")["x"], len(service.calls)) == ("answer 1", 1)


def test_recordings_are_kept_with_request_response_and_error() -> None:
    def fails() -> None:
        raise OSError("down")

    @node(output="x")
    def act(a: int, ctx: Context) -> None:
        ctx.record("good", lambda n, k: n + k, 1, k=2)
        ctx.record("bad", fails)

    engine = Engine(Graph([act]))
    error = engine.run({"a": 1}, run_id="r", check=False).error
    good, bad = [entry for entry in engine.store.entries("r") if isinstance(entry, RecordedCall)]
    assert (good.path, good.attempt, good.number, good.name) == ("act#0", 0, 0, "good")
    assert (good.request, good.response, good.error) == (((1,), {"k": 2}), 3, None)
    assert (bad.number, bad.name, bad.response, bad.error) == (1, "bad", None, error)


def test_a_call_that_was_made_already_is_refused() -> None:
    @node(output="x")
    def act(a: int, ctx: Context) -> Any:
        return ctx.record("llm", "the answer")

    result = Graph([act]).run({"a": 1}, check=False)
    assert "expects a function, got 'the answer'" in str(result.error)


def test_calls_are_told() -> None:
    service = Service()
    graph = Graph([failing_once(lambda ctx: ctx.record("llm", service.ask))])
    events = [event for event in Engine(graph).stream({"a": 1}) if event.kind == "call_recorded"]
    assert [(event.name, event.reused) for event in events] == [("llm", False), ("llm", True)]
