"""Requests to a chat endpoint that return JSON of a given schema, or raise `ModelError` or `ModelRefusedError`.

Temporary failures are retried a few times: too many requests (after the delay that the server requests), a
server error, a timeout, a reply that is not JSON of that schema. A refusal is not retried: any other status from 400 to
499, and a model that declines. There is one exception: if the endpoint does not know the form of the reply, the next
form is used, and remembered for later requests: a JSON schema, any JSON object, text.

Replies are untrusted text. They are parsed and validated, and proposed queries pass the same guard as all
others. The API key is sent but never stored; no recorded request contains it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from clew_nl2sql.errors import ModelError, ModelRefusedError, UsageError
from clew_nl2sql.models.protocols import AnthropicProtocol, ChatProtocol, ChatRequest, OpenAIProtocol
from clew_nl2sql.models.reply import Accept, needed_by, read_reply, strict_schema

T = TypeVar("T")
Record = Callable[..., Any]

LONGEST_WAIT = 30.0  # seconds; the limit for a delay that a server requests
LARGEST_REPLY = 1_000_000  # bytes
# Words in the error of an endpoint that does not know a form.
_ABOUT_FORM = re.compile(
    rb"response_format|json_schema|json_object|json schema|tool|structured|grammar", re.I
)


class ChatModel:
    """A model behind an endpoint.

    Args:
        base_url: URL of the API without ``/chat/completions``: ``https://host/v1``. A URL that ends with
            ``/messages`` speaks the protocol of Anthropic.
        model: Name of the model.
        api_key: Sent with every request, if given.
        temperature, max_tokens: Sent if given.
        timeout: Time limit of one request, in seconds, until its reply is complete.
        attempts: Number of requests before giving up.
        wait: Called with the seconds to wait between two requests; tests replace it.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        api_key: str | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
        timeout: float = 60.0,
        attempts: int = 3,
        wait: Callable[[float], object] = time.sleep,
    ) -> None:
        if not base_url.lower().startswith(("http://", "https://")):
            raise UsageError(
                f"{base_url!r} is not the URL of a model; write http://host/v1 or https://host/v1"
            )
        url = base_url.rstrip("/")
        anthropic = url.lower().endswith("/messages")
        self._protocol: ChatProtocol = AnthropicProtocol() if anthropic else OpenAIProtocol()
        self._url = url if anthropic else f"{url}/chat/completions"
        self._model = model
        self._temperature, self._max_tokens = temperature, max_tokens
        self._headers = self._protocol.headers(api_key)
        self._form = 0  # the first form that the endpoint may know
        self._timeout = timeout
        self._attempts = attempts
        self._wait = wait

    def __repr__(self) -> str:
        return f"ChatModel({self._url!r}, {self._model!r})"

    def ask(
        self, record: Record | None, system: str, user: str, reply: type[T], accept: Accept | None = None
    ) -> T:
        """Ask once and return the reply as an instance of a msgspec struct.

        Args:
            record: Records the call in a run.
            accept: Returns the values of the struct from an object or a text that is not one, or None.
        """
        messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
        schema = strict_schema(reply)
        needed = needed_by(reply)

        def asked(messages: list[dict[str, str]], schema: dict[str, Any]) -> Any:
            return self._asked(messages, schema, needed, accept)

        answer: Any = record("chat", asked, messages, schema) if record else asked(messages, schema)
        try:
            return msgspec.convert(answer, reply)
        except msgspec.ValidationError as error:  # a recording made with another schema
            raise ModelError(f"the model's reply does not match the schema: {error}") from error

    def _asked(
        self,
        messages: list[dict[str, str]],
        schema: dict[str, Any],
        needed: frozenset[str],
        accept: Accept | None,
    ) -> Any:
        request = ChatRequest(self._model, messages, schema, self._temperature, self._max_tokens)
        reason = ""
        for attempt in range(self._attempts):
            try:
                return read_reply(self._protocol.reply(self._post_in_known_form(request)), needed, accept)
            except _RetryableError as error:
                reason = str(error)
                if attempt + 1 < self._attempts:
                    self._wait(
                        min(error.after if error.after is not None else 0.5 * 2**attempt, LONGEST_WAIT)
                    )
            except ValueError as error:
                reason = str(error)
        raise ModelError(f"the model gave no usable reply in {self._attempts} attempts: {reason}")

    def _post_in_known_form(self, request: ChatRequest) -> bytes:
        forms = self._protocol.forms
        for place in range(self._form, len(forms)):
            try:
                content = self._post(self._protocol.body(request, forms[place]))
            except _UnknownFormError as error:
                if place + 1 == len(forms):
                    raise ModelRefusedError(str(error)) from error
            else:
                self._form = place
                return content
        raise AssertionError("there is a form")

    def _post(self, body: dict[str, Any]) -> bytes:
        import httpx

        deadline = time.monotonic() + self._timeout
        try:
            with httpx.stream(
                "POST", self._url, json=body, headers=self._headers, timeout=self._timeout
            ) as response:
                content = _content(response, deadline)
        except (httpx.TimeoutException, TimeoutError) as error:
            raise _RetryableError(f"no reply within {self._timeout:g} s") from error
        except httpx.HTTPError as error:
            raise _RetryableError(f"the endpoint cannot be reached: {error}") from error
        except httpx.InvalidURL as error:
            raise ModelError(f"{self._url} is not a valid URL: {error}") from error
        if response.status_code == 429 or response.status_code >= 500:
            raise _RetryableError(
                f"the endpoint returned status {response.status_code}", after=_seconds(response.headers)
            )
        if response.status_code != 200:
            detail = content[:200].decode(errors="replace")
            refused = f"the endpoint rejected the request with status {response.status_code}: {detail}"
            if response.status_code in (400, 422) and _ABOUT_FORM.search(content):
                raise _UnknownFormError(refused)
            raise ModelRefusedError(refused)
        return content


def _content(response: Any, deadline: float) -> bytes:
    """Return a body; limit its size and duration, since a server may send a byte a second or never stop."""
    content = b""
    for chunk in response.iter_bytes():
        content += chunk
        if len(content) > LARGEST_REPLY:
            raise ModelError(f"the reply exceeds {LARGEST_REPLY:,} bytes")
        if time.monotonic() > deadline:
            raise TimeoutError
    return content


class _RetryableError(Exception):
    """A failure that may not occur again."""

    def __init__(self, message: str, *, after: float | None = None) -> None:
        super().__init__(message)
        self.after = after


class _UnknownFormError(Exception):
    """The endpoint does not know the form of the reply."""


def _seconds(headers: Any) -> float | None:
    try:
        return max(0.0, float(headers.get("Retry-After", "")))
    except ValueError:  # a date, or no header
        return None
