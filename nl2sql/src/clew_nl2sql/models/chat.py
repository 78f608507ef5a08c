"""Requests to a chat endpoint that return JSON of a given schema, or raise `ModelError`.

Temporary failures are retried a few times: too many requests (after the delay that the server requests), a
server error, a timeout, a reply that is not JSON of that schema. Other rejections (400, 401) are not retried.

Replies are untrusted text. They are parsed and validated, and proposed queries pass the same guard as all
others. The API key is sent but never stored; no recorded request contains it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from clew_nl2sql.errors import ModelError, UsageError
from clew_nl2sql.models.reply import needed_by, read_reply, strict_schema

T = TypeVar("T")
Record = Callable[..., Any]

LONGEST_WAIT = 30.0  # seconds; the limit for a delay that a server requests
LARGEST_REPLY = 1_000_000  # bytes


class ChatModel:
    """A model behind an endpoint.

    Args:
        base_url: URL of the API without ``/chat/completions``: ``https://host/v1``.
        model: Name of the model.
        api_key: Sent as a bearer token, if given.
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
        timeout: float = 60.0,
        attempts: int = 3,
        wait: Callable[[float], object] = time.sleep,
    ) -> None:
        if not base_url.lower().startswith(("http://", "https://")):
            raise UsageError(
                f"{base_url!r} is not the URL of a model; write http://host/v1 or https://host/v1"
            )
        self._url = f"{base_url.rstrip('/')}/chat/completions"
        self._model = model
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._timeout = timeout
        self._attempts = attempts
        self._wait = wait

    def __repr__(self) -> str:
        return f"ChatModel({self._url!r}, {self._model!r})"

    def ask(self, record: Record | None, system: str, user: str, reply: type[T]) -> T:
        """Ask once and return the reply as an instance of a msgspec struct. With `record`, record the call in
        the run.
        """
        messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
        schema = strict_schema(reply)
        needed = needed_by(reply)

        def asked(messages: list[dict[str, str]], schema: dict[str, Any]) -> Any:
            return self._asked(messages, schema, needed)

        answer: Any = record("chat", asked, messages, schema) if record else asked(messages, schema)
        try:
            return msgspec.convert(answer, reply)
        except msgspec.ValidationError as error:  # a recording made with another schema
            raise ModelError(f"the model's reply does not match the schema: {error}") from error

    def _asked(self, messages: list[dict[str, str]], schema: dict[str, Any], needed: frozenset[str]) -> Any:
        reason = ""
        for attempt in range(self._attempts):
            try:
                return read_reply(self._post(messages, schema), needed)
            except _RetryableError as error:
                reason = str(error)
                if attempt + 1 < self._attempts:
                    self._wait(
                        min(error.after if error.after is not None else 0.5 * 2**attempt, LONGEST_WAIT)
                    )
            except ValueError as error:
                reason = str(error)
        raise ModelError(f"the model gave no usable reply in {self._attempts} attempts: {reason}")

    def _post(self, messages: list[dict[str, str]], schema: dict[str, Any]) -> bytes:
        import httpx

        body = {
            "model": self._model,
            "messages": messages,
            "temperature": 0,
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "reply", "strict": True, "schema": schema},
            },
        }
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
            raise ModelError(
                f"the endpoint rejected the request with status {response.status_code}: {detail}"
            )
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


def _seconds(headers: Any) -> float | None:
    try:
        return max(0.0, float(headers.get("Retry-After", "")))
    except ValueError:  # a date, or no header
        return None
