"""One request to an endpoint that misbehaves in every way a server can."""

from __future__ import annotations

import msgspec
import pytest

from clew_nl2sql import ChatModel
from clew_nl2sql.errors import ModelError, UsageError
from clew_nl2sql.models.model_roles import DecompositionReply, PlanReply, SynthesisReply
from clew_nl2sql.models.reply import strict_schema
from nl2sql.tests.models.endpoint import (
    Endpoint,
    Reply,
    drips,
    endless,
    hangs,
    raw,
    refuses,
    says,
    serving,
)


class Word(msgspec.Struct, kw_only=True):
    word: str


def ask(endpoint: Endpoint, waits: list[float] | None = None, **options: object) -> str:
    waited = waits if waits is not None else []
    model = ChatModel(endpoint.url, "m", wait=waited.append, **options)
    return model.ask(None, "Say a word.", "Which?", Word).word


def ask_after_silence(endpoint: Endpoint) -> str:
    """Ask with little patience, and with much once that was over: a busy machine may be slow to answer, too."""

    def wait(_: float) -> None:
        model._timeout = 60.0

    model = ChatModel(endpoint.url, "m", wait=wait, timeout=0.5)
    return model.ask(None, "Say a word.", "Which?", Word).word


def test_it_asks_for_json_of_the_schema() -> None:
    with serving(Endpoint(says({"word": "rope"}))) as endpoint:
        assert ask(endpoint, api_key="secret") == "rope"
    (request,) = endpoint.requests
    assert request["model"] == "m"
    assert [message["role"] for message in request["messages"]] == ["system", "user"]
    assert request["response_format"]["type"] == "json_schema"
    assert endpoint.headers[0]["Authorization"] == "Bearer secret"


@pytest.mark.parametrize(
    "bad",
    [
        raw(b"<html>"),
        raw(b"{}"),
        raw(b'{"choices": []}'),
        raw(b'{"choices": [{"message": {"content": null}}]}'),
        says("no JSON"),
        says('{"word": '),
        says([1]),
        says({"other": 1}),
        refuses(500),
        refuses(503),
    ],
)
def test_what_may_be_better_the_next_time_is_asked_again(bad: Reply) -> None:
    with serving(Endpoint(bad, says({"word": "rope"}))) as endpoint:
        assert ask(endpoint) == "rope"
    assert len(endpoint.requests) == 2


def test_too_many_requests_are_waited_out_as_long_as_the_server_says() -> None:
    waits: list[float] = []
    with serving(Endpoint(refuses(429, Retry_After="7"), refuses(429), says({"word": "rope"}))) as endpoint:
        assert ask(endpoint, waits) == "rope"
    assert waits == [7.0, 1.0]


def test_no_server_makes_anybody_wait_for_hours() -> None:
    waits: list[float] = []
    with serving(Endpoint(refuses(429, Retry_After="86400"), says({"word": "rope"}))) as endpoint:
        ask(endpoint, waits)
    assert waits == [30.0]


def test_silence_is_given_up_on() -> None:
    endpoint = Endpoint()
    endpoint.replies = [hangs(endpoint), says({"word": "rope"})]
    with serving(endpoint):
        assert ask_after_silence(endpoint) == "rope"


def test_fenced_json_is_read() -> None:
    with serving(Endpoint(says('```json\n{"word": "rope"}\n```'))) as endpoint:
        assert ask(endpoint) == "rope"


@pytest.mark.parametrize("always", [refuses(429), raw(b"x"), says("no JSON")])
def test_after_a_few_attempts_it_is_an_error(always: Reply) -> None:
    with serving(Endpoint(always)) as endpoint, pytest.raises(ModelError, match="in 3 attempts"):
        ask(endpoint)
    assert len(endpoint.requests) == 3


@pytest.mark.parametrize("status", [400, 401, 404])
def test_a_refusal_is_final(status: int) -> None:
    with serving(Endpoint(refuses(status))) as endpoint, pytest.raises(ModelError, match=str(status)):
        ask(endpoint)
    assert len(endpoint.requests) == 1


def test_a_reply_of_the_wrong_type_is_an_error() -> None:
    with serving(Endpoint(says({"word": 7}))) as endpoint, pytest.raises(ModelError, match="does not match"):
        ask(endpoint)


def test_an_endpoint_that_is_not_there_is_an_error() -> None:
    model = ChatModel("http://127.0.0.1:1/v1", "m", wait=lambda _: None)
    with pytest.raises(ModelError, match="cannot be reached"):
        model.ask(None, "s", "u", Word)


def test_a_reply_that_comes_byte_by_byte_is_given_up_on() -> None:
    endpoint = Endpoint()
    endpoint.replies = [drips(endpoint), says({"word": "rope"})]
    with serving(endpoint):
        assert ask_after_silence(endpoint) == "rope"


def test_a_reply_without_end_is_not_kept() -> None:
    with serving(Endpoint(endless())) as endpoint, pytest.raises(ModelError, match="exceeds"):
        ask(endpoint)
    assert len(endpoint.requests) == 1


@pytest.mark.parametrize("url", ["localhost:8000/v1", "ftp://host", ""])
def test_what_is_no_address_is_said_at_once(url: str) -> None:
    with pytest.raises(UsageError, match="not the URL"):
        ChatModel(url, "m")


def test_an_address_that_cannot_be_read_is_an_error() -> None:
    with pytest.raises(ModelError, match="not a valid URL"):
        ChatModel("http://host:port/v1", "m", wait=lambda _: None).ask(None, "s", "u", Word)


@pytest.mark.parametrize("reply", [PlanReply, DecompositionReply, SynthesisReply])
def test_the_schema_is_one_that_strict_endpoints_take(reply: type) -> None:
    schema = strict_schema(reply)
    assert schema["type"] == "object"

    def look(part: object) -> None:
        if isinstance(part, list):
            for one in part:
                look(one)
        if isinstance(part, dict):
            assert "default" not in part
            assert "enum" not in part or part["type"] == "string"
            if "properties" in part:
                assert set(part["required"]) == set(part["properties"])
                assert part["additionalProperties"] is False
            for one in part.values():
                look(one)

    look(schema)


def test_what_has_a_default_may_be_left_out() -> None:
    with serving(Endpoint(says({"queries": []}))) as endpoint:
        model = ChatModel(endpoint.url, "m")
        assert model.ask(None, "s", "u", PlanReply) == PlanReply(queries=[])
