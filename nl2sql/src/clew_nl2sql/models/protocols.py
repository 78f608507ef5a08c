"""The two chat protocols: of OpenAI, which most servers speak, and of Anthropic.

A protocol builds the body of a request and finds the reply in a response. A *form* is how the reply is requested: by a
JSON schema, as any JSON object, or as text. Nothing is sent that was not given: some servers refuse a temperature,
others a limit of tokens.

`ValueError` describes a response that a retry may improve, `ModelRefusedError` one that it will not.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, Protocol

import msgspec

from clew_nl2sql.errors import ModelRefusedError

Form = Literal["json_schema", "json_object", "text"]
ANTHROPIC_TOKENS = 4_096  # this protocol requires a limit


class ChatRequest(NamedTuple):
    """What is asked, independent of the protocol."""

    model: str
    messages: list[dict[str, str]]
    schema: dict[str, Any]
    temperature: float | None
    max_tokens: int | None


class ChatProtocol(Protocol):
    """How to ask an endpoint."""

    forms: tuple[Form, ...]

    def headers(self, api_key: str | None) -> dict[str, str]:
        """Return the headers that authenticate."""
        ...

    def body(self, request: ChatRequest, form: Form) -> dict[str, Any]:
        """Return the body of a request."""
        ...

    def reply(self, body: bytes) -> str | dict[str, Any]:
        """Return the text of a response, or its object."""
        ...


class OpenAIProtocol:
    """``/chat/completions``."""

    forms: tuple[Form, ...] = ("json_schema", "json_object", "text")

    def headers(self, api_key: str | None) -> dict[str, str]:
        """Return the headers that authenticate."""
        return {"Authorization": f"Bearer {api_key}"} if api_key else {}

    def body(self, request: ChatRequest, form: Form) -> dict[str, Any]:
        """Return the body of a request."""
        body: dict[str, Any] = {"model": request.model, "messages": _messages(request, form)}
        if form == "json_schema":
            strict = {"name": "reply", "strict": True, "schema": request.schema}
            body["response_format"] = {"type": "json_schema", "json_schema": strict}
        elif form == "json_object":
            body["response_format"] = {"type": "json_object"}
        return body | _given(request)

    def reply(self, body: bytes) -> str | dict[str, Any]:
        """Return the text of the first choice."""
        completion = _decoded(body)
        try:
            choice = completion["choices"][0]
            message = choice["message"]
        except (KeyError, IndexError, TypeError) as error:
            raise ValueError("the endpoint did not send a completion") from error
        if message.get("refusal") or choice.get("finish_reason") == "content_filter":
            raise ModelRefusedError(f"the model refused: {message.get('refusal') or 'content filter'}")
        if choice.get("finish_reason") == "length":
            raise ValueError("the reply was cut off at the limit of tokens")
        return _text(message.get("content"))


class AnthropicProtocol:
    """``/messages``. The schema is the input of a tool that the model must use."""

    forms: tuple[Form, ...] = ("json_schema", "text")

    def headers(self, api_key: str | None) -> dict[str, str]:
        """Return the headers that authenticate, and the version of the protocol."""
        return {"anthropic-version": "2023-06-01", **({"x-api-key": api_key} if api_key else {})}

    def body(self, request: ChatRequest, form: Form) -> dict[str, Any]:
        """Return the body of a request."""
        messages = _messages(request, form)
        body: dict[str, Any] = {
            "model": request.model,
            "system": "\n".join(m["content"] for m in messages if m["role"] == "system"),
            "messages": [m for m in messages if m["role"] != "system"],
            "max_tokens": ANTHROPIC_TOKENS,
        }
        if form == "json_schema":
            body["tools"] = [{"name": "reply", "description": "The reply.", "input_schema": request.schema}]
            body["tool_choice"] = {"type": "tool", "name": "reply"}
        return body | _given(request)

    def reply(self, body: bytes) -> str | dict[str, Any]:
        """Return the input of the tool, or the text."""
        message = _decoded(body)
        if not isinstance(message, dict) or not isinstance(message.get("content"), list):
            raise ValueError("the endpoint did not send a message")
        if message.get("stop_reason") == "refusal":
            raise ModelRefusedError("the model refused")
        if message.get("stop_reason") == "max_tokens":
            raise ValueError("the reply was cut off at the limit of tokens")
        for part in message["content"]:
            if (
                isinstance(part, dict)
                and part.get("type") == "tool_use"
                and isinstance(part.get("input"), dict)
            ):
                found: dict[str, Any] = part["input"]
                return found
        return _text(message["content"])


def _messages(request: ChatRequest, form: Form) -> list[dict[str, str]]:
    """Return the messages. Where the schema is not enforced, the instructions contain it."""
    if form == "json_schema":
        return request.messages
    schema = msgspec.json.encode(request.schema).decode()
    wanted = f"\nReply with one JSON object of this JSON schema, and nothing else:\n{schema}"
    first, *others = request.messages
    return [{**first, "content": first["content"] + wanted}, *others]


def _given(request: ChatRequest) -> dict[str, Any]:
    given = {"temperature": request.temperature, "max_tokens": request.max_tokens}
    return {name: value for name, value in given.items() if value is not None}


def _decoded(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"the endpoint did not send JSON: {error}") from error


def _text(content: Any) -> str:
    """Return a text, which some servers send in parts."""
    if isinstance(content, list):
        content = "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    if not isinstance(content, str) or not content.strip():
        raise ValueError("the reply has no text")
    return content
