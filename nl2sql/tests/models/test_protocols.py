"""Endpoints as they are: what they refuse, what they send instead of JSON, and the protocol of Anthropic."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler
from typing import Any

import msgspec
import pytest

from clew_nl2sql import ChatModel
from clew_nl2sql.errors import ErrorCode, ModelError, ModelRefusedError
from clew_nl2sql.models.model_roles import PlanReply, accept_query
from clew_nl2sql.models.reply import without_reasoning
from nl2sql.tests.models.endpoint import Endpoint, Reply, raw, says, send, serving

ROPE = {"word": "rope"}


class Noun(msgspec.Struct, kw_only=True):
    word: str


def chat(endpoint: Endpoint, **options: Any) -> ChatModel:
    return ChatModel(endpoint.url, "m", wait=lambda _: None, **options)


def ask(endpoint: Endpoint, **options: Any) -> str:
    return chat(endpoint, **options).ask(None, "Say a word.", "Which?", Noun).word


def knows(*forms: str, message: str = "response_format is not supported") -> Reply:
    """An endpoint that knows only some forms of replies."""

    def reply(handler: BaseHTTPRequestHandler, request: dict[str, Any]) -> None:
        asked = request.get("response_format", {}).get("type", "text")
        if "tools" in request:
            asked = "json_schema"
        if asked in forms:
            says(ROPE)(handler, request)
        else:
            send(handler, json.dumps({"error": {"message": message}}).encode(), 400)

    return reply


def forms(endpoint: Endpoint) -> list[str]:
    return [request.get("response_format", {}).get("type", "text") for request in endpoint.requests]


def test_nothing_is_sent_that_was_not_given() -> None:
    with serving(Endpoint(says(ROPE))) as endpoint:
        ask(endpoint)
        ask(endpoint, temperature=0.0, max_tokens=50)
    assert {"temperature", "max_tokens"}.isdisjoint(endpoint.requests[0])
    assert (endpoint.requests[1]["temperature"], endpoint.requests[1]["max_tokens"]) == (0.0, 50)


@pytest.mark.parametrize(
    "known, tried",
    [
        ("json_schema", ["json_schema"]),
        ("json_object", ["json_schema", "json_object"]),
        ("text", ["json_schema", "json_object", "text"]),
    ],
)
def test_the_next_form_is_used_and_remembered(known: str, tried: list[str]) -> None:
    with serving(Endpoint(knows(known))) as endpoint:
        model = chat(endpoint)
        for _ in range(2):
            assert model.ask(None, "Say a word.", "Which?", Noun).word == "rope"
    assert forms(endpoint) == [*tried, known]
    if known != "json_schema":  # the model is told the schema, since nobody enforces it
        assert '"word"' in endpoint.requests[-1]["messages"][0]["content"]


def test_an_endpoint_that_knows_no_form_is_not_asked_again() -> None:
    with serving(Endpoint(knows())) as endpoint, pytest.raises(ModelRefusedError):
        ask(endpoint)
    assert len(endpoint.requests) == 3


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
def test_a_refused_request_is_sent_once(status: int) -> None:
    body = b'{"error": {"message": "your prompt was flagged"}}'
    refused = Endpoint(lambda h, _: send(h, body, status))
    with serving(refused) as endpoint, pytest.raises(ModelRefusedError) as raised:
        ask(endpoint)
    assert (len(endpoint.requests), raised.value.code) == (1, ErrorCode.MODEL_REFUSED)


@pytest.mark.parametrize(
    "choice",
    [
        {"message": {"content": None, "refusal": "I will not"}},
        {"message": {"content": ""}, "finish_reason": "content_filter"},
    ],
)
def test_a_model_that_refuses_is_not_asked_again(choice: dict[str, Any]) -> None:
    refused = Endpoint(raw(json.dumps({"choices": [choice]}).encode()))
    with serving(refused) as endpoint, pytest.raises(ModelRefusedError):
        ask(endpoint)
    assert len(endpoint.requests) == 1


def test_a_reply_that_was_cut_off_is_asked_for_again() -> None:
    cut = {"choices": [{"message": {"content": '{"word": "ro'}, "finish_reason": "length"}]}
    with serving(Endpoint(raw(json.dumps(cut).encode()), says(ROPE))) as endpoint:
        assert ask(endpoint) == "rope"


@pytest.mark.parametrize(
    "text",
    [
        '<think>{"word": "hemp"} or rope?</think>{"word": "rope"}',
        'Let me think. {"word": "hemp"}</think>\n\n{"word": "rope"}',
        '<THINKING>\nhm\n</THINKING>\n```json\n{"word": "rope"}\n```',
        'Here you are:\n```\n{"word": "rope"}\n```\nAnything else?',
        'Sure! {"other": 1} no, {"word": "rope"} {',
        '{"word": "rope"}<think>was that right?',
    ],
)
def test_the_object_is_found_in_what_a_model_says(text: str) -> None:
    with serving(Endpoint(says(text))) as endpoint:
        assert ask(endpoint) == "rope"


def test_a_reply_of_reasoning_alone_is_asked_for_again() -> None:
    with serving(Endpoint(says('<think>{"word": "hemp"}'), says(ROPE))) as endpoint:
        assert ask(endpoint) == "rope"
    assert without_reasoning("<think>only") == ""


def test_text_in_parts_is_read() -> None:
    parts = [{"type": "text", "text": '{"word": '}, {"type": "text", "text": '"rope"}'}]
    body = {"choices": [{"message": {"content": parts, "reasoning_content": '{"word": "hemp"}'}}]}
    with serving(Endpoint(raw(json.dumps(body).encode()))) as endpoint:
        assert ask(endpoint) == "rope"


@pytest.mark.parametrize(
    "said",
    [
        {"sql": "SELECT 1", "certainty": 1.0},
        "```sql\nSELECT 1\n```",
        "<think>SELECT 2</think>SELECT 1",
        "The query is:\n```\nSELECT 1\n```",
    ],
)
def test_a_single_query_is_accepted_from_a_planner(said: Any) -> None:
    with serving(Endpoint(says(said))) as endpoint:
        reply = chat(endpoint).ask(None, "s", "u", PlanReply, accept_query)
    assert [one.sql for one in reply.queries] == ["SELECT 1"]


def test_prose_is_not_a_query() -> None:
    with serving(Endpoint(says("I would select nothing."))) as endpoint, pytest.raises(ModelError):
        chat(endpoint).ask(None, "s", "u", PlanReply, accept_query)


# -- the protocol of Anthropic ---------------------------------------------------------------------------------


def message(*content: dict[str, Any], **more: Any) -> Reply:
    return raw(
        json.dumps({"type": "message", "role": "assistant", "content": list(content), **more}).encode()
    )


def ask_anthropic(endpoint: Endpoint, **options: Any) -> str:
    endpoint.url += "/messages"
    return ask(endpoint, **options)


def test_the_schema_is_a_tool_and_the_key_a_header() -> None:
    used = message({"type": "text", "text": "hm"}, {"type": "tool_use", "name": "reply", "input": ROPE})
    with serving(Endpoint(used)) as endpoint:
        assert ask_anthropic(endpoint, api_key="secret") == "rope"
    (request,) = endpoint.requests
    headers = {name.lower(): value for name, value in endpoint.headers[0].items()}
    assert headers["x-api-key"] == "secret"
    assert "authorization" not in headers
    assert headers["anthropic-version"]
    assert request["system"] == "Say a word."
    assert [m["role"] for m in request["messages"]] == ["user"]
    assert request["tools"][0]["input_schema"]["properties"]["word"]
    assert request["tool_choice"]["name"] == request["tools"][0]["name"]
    assert request["max_tokens"] > 0
    assert "temperature" not in request


def test_text_is_read_where_no_tool_was_used() -> None:
    with serving(Endpoint(message({"type": "text", "text": 'Well: {"word": "rope"}'}))) as endpoint:
        assert ask_anthropic(endpoint) == "rope"


def test_an_endpoint_without_tools_gets_the_schema_in_words() -> None:
    def reply(handler: BaseHTTPRequestHandler, request: dict[str, Any]) -> None:
        if "tools" in request:
            send(handler, b'{"error": {"message": "tools are not supported"}}', 400)
        else:
            message({"type": "text", "text": json.dumps(ROPE)})(handler, request)

    with serving(Endpoint(reply)) as endpoint:
        assert ask_anthropic(endpoint) == "rope"
    assert '"word"' in endpoint.requests[-1]["system"]


def test_an_overloaded_endpoint_is_asked_again_and_a_refusal_is_not() -> None:
    good = message({"type": "tool_use", "name": "reply", "input": ROPE})
    with serving(Endpoint(lambda h, _: send(h, b"{}", 529), good)) as endpoint:
        assert ask_anthropic(endpoint) == "rope"
    with serving(Endpoint(message(stop_reason="refusal"))) as endpoint, pytest.raises(ModelRefusedError):
        ask_anthropic(endpoint)
    assert len(endpoint.requests) == 1
    cut = message({"type": "text", "text": "{"}, stop_reason="max_tokens")
    with serving(Endpoint(cut, raw(b"[]"), good)) as endpoint:
        assert ask_anthropic(endpoint) == "rope"
