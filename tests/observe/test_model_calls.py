"""Model calls have the attributes of the semantic conventions for generative AI."""

from __future__ import annotations

from typing import Any

import anthropic
import openai
import pytest
from anthropic.types import Message, TextBlock, Usage
from openai.types.chat import ChatCompletion
from openai.types.create_embedding_response import CreateEmbeddingResponse
from opentelemetry.trace import StatusCode

from clew import Context, Engine, Graph, node
from clew.observe import describe_model_call
from clew.observe.model_calls import attributes_of
from tests.observe.spans import Traces, about

COMPLETION = ChatCompletion.model_validate(
    {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "gpt-x-2026",
        "choices": [
            {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "secret"}}
        ],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
    }
)
MESSAGE = Message(
    id="msg_1",
    type="message",
    role="assistant",
    model="claude-x",
    content=[TextBlock(type="text", text="secret")],
    stop_reason="end_turn",
    stop_sequence=None,
    usage=Usage(input_tokens=5, output_tokens=2),
)
EMBEDDING = CreateEmbeddingResponse.model_validate(
    {
        "object": "list",
        "model": "embed-x",
        "data": [{"object": "embedding", "index": 0, "embedding": [0.5]}],
        "usage": {"prompt_tokens": 4, "total_tokens": 4},
    }
)
RESPONSE = {
    "object": "response",
    "id": "resp_1",
    "model": "gpt-x",
    "usage": {"input_tokens": 1, "output_tokens": 2},
}


@pytest.mark.parametrize("as_dict", [False, True])
def test_responses_of_known_clients_are_recognised(as_dict: bool) -> None:
    def made(response: Any) -> Any:
        return response.model_dump() if as_dict else response

    assert attributes_of({"model": "gpt-x", "temperature": 1, "max_tokens": 9}, made(COMPLETION)) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-x",
        "gen_ai.request.temperature": 1.0,
        "gen_ai.request.max_tokens": 9,
        "gen_ai.response.model": "gpt-x-2026",
        "gen_ai.response.id": "chatcmpl-1",
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.usage.output_tokens": 3,
    }
    found = attributes_of({}, made(MESSAGE))
    assert (found["gen_ai.provider.name"], found["gen_ai.request.model"]) == ("anthropic", "claude-x")
    assert (found["gen_ai.usage.input_tokens"], found["gen_ai.usage.output_tokens"]) == (5, 2)
    assert found["gen_ai.response.finish_reasons"] == ["end_turn"]
    assert attributes_of({}, made(EMBEDDING))["gen_ai.operation.name"] == "embeddings"


def test_a_response_of_the_responses_api_is_recognised() -> None:
    assert attributes_of({}, RESPONSE)["gen_ai.usage.output_tokens"] == 2


@pytest.mark.parametrize(
    "other", [None, 3, "text", {}, {"object": "list"}, {"type": "message"}, {"object": "list", "model": "m"}]
)
def test_other_responses_are_not(other: Any) -> None:
    assert attributes_of({"model": "m"}, other) == {}


def test_the_span_of_a_recorded_call_becomes_that_of_a_model_call() -> None:
    @node(output="text")
    def ask(question: str, ctx: Context) -> Any:
        return ctx.record(
            "model", lambda **given: COMPLETION.model_dump(), model="gpt-x", messages=[question]
        )

    with Traces() as traces:
        Engine(Graph([ask]), listeners=[traces.tracing()]).run({"question": "secret"})
        span = traces.one("chat gpt-x")
    assert about(span)["clew.call.name"] == "model"
    assert about(span)["gen_ai.usage.input_tokens"] == 7
    assert "secret" not in str(about(span))


def test_an_async_call_too() -> None:
    @node(output="text")
    async def ask(question: str, ctx: Context) -> Any:
        async def complete(**given: Any) -> Any:
            return COMPLETION.model_dump()

        return await ctx.record("model", complete, model="gpt-x")

    with Traces() as traces:
        Engine(Graph([ask]), listeners=[traces.tracing()]).run({"question": "?"})
        assert len(traces.named("chat gpt-x")) == 1


@pytest.mark.parametrize(
    "error, name",
    [
        (openai.OpenAIError("limited"), "chat gpt-x"),
        (anthropic.AnthropicError("limited"), "chat gpt-x"),
        (ValueError("limited"), "model"),
    ],
)
def test_a_model_call_that_raises_has_its_request(error: Exception, name: str) -> None:
    @node(output="text")
    def ask(question: str, ctx: Context) -> Any:
        def complete(**given: Any) -> Any:
            raise error

        return ctx.record("model", complete, model="gpt-x", messages=[question], temperature=0)

    with Traces() as traces:
        engine = Engine(Graph([ask]), listeners=[traces.tracing()], check=False)
        assert engine.run({"question": "secret"}).error is error
        span = traces.one(name)
    assert span.status.status_code is StatusCode.ERROR
    assert about(span)["clew.call.name"] == "model"
    if name != "model":
        provider = about(span)["gen_ai.provider.name"]
        assert (provider, about(span)["gen_ai.request.temperature"]) == (
            type(error).__module__.split(".")[0],
            0,
        )
    assert "secret" not in str(about(span))


def test_a_function_can_describe_its_call() -> None:
    def complete(prompt: str) -> str:
        describe_model_call(provider="mistral_ai", model="small", input_tokens=3, output_tokens=1)
        return "text"

    @node(output="text")
    def ask(question: str, ctx: Context) -> str:
        return str(ctx.record("model", complete, question))

    with Traces() as traces:
        Engine(Graph([ask]), listeners=[traces.tracing()]).run({"question": "?"})
        assert about(traces.one("chat small")) == {
            "clew.call.name": "model",
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "mistral_ai",
            "gen_ai.request.model": "small",
            "gen_ai.usage.input_tokens": 3,
            "gen_ai.usage.output_tokens": 1,
        }
    assert complete("without tracing") == "text"
