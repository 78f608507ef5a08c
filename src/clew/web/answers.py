"""What the API receives and answers: bodies of a bounded size, JSON, and errors with a type, a message and a hint."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from clew.error_text import encodable, message_of
from clew.errors import (
    ClewError,
    InputError,
    RunExistsError,
    RunOwnedError,
    RunStateError,
    StoreCorruptError,
    StoreError,
    StoreUnavailableError,
    UnknownRunError,
    UnknownValueError,
)
from clew.web.access import HEADERS

VERSION = 1

_STATUS: tuple[tuple[type[ClewError], int], ...] = (
    (UnknownRunError, 404),
    (UnknownValueError, 404),
    (RunExistsError, 409),
    (RunOwnedError, 409),
    (RunStateError, 409),
    (StoreUnavailableError, 503),
    (StoreCorruptError, 500),
    (InputError, 400),
    (StoreError, 409),
    (ClewError, 409),
)


class ApiError(Exception):
    """An answer that is an error."""

    def __init__(
        self,
        status: int,
        type: str,
        message: str,
        *,
        hint: str | None = None,
        command: str | None = None,
        fields: list[dict[str, str]] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.body = {
            "type": type,
            "message": message,
            "hint": hint,
            "command": command,
            "fields": fields or [],
        }


def of_clew(error: ClewError) -> ApiError:
    """Return the answer for an error of the library: what happened, and after the last semicolon what to do."""
    status = next(code for cls, code in _STATUS if isinstance(error, cls))
    text = encodable(message_of(error))
    what, _, hint = text.rpartition("; ")
    return ApiError(status, type(error).__name__, what or hint, hint=hint if what else None)


def encoded(data: Any) -> bytes:
    """Return data as JSON. Text that has no encoding is escaped."""
    try:
        return msgspec.json.encode(data)
    except UnicodeEncodeError:
        return json.dumps(data).encode()


def answer(data: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return an answer of the API; `data` may be bytes that are JSON already."""
    content = data if isinstance(data, bytes) else encoded(data)
    given = {**HEADERS, "clew-api": str(VERSION), "cache-control": "no-store", **(headers or {})}
    return Response(content, status, given, "application/json")


def failure(error: ApiError) -> Response:
    return answer({"error": error.body}, error.status)


LARGEST = 1 << 20  # bytes
_DEEPEST = 100


async def read_body(request: Request) -> bytes:
    """Return the body of a request. Raise ApiError as soon as it is larger than `LARGEST`."""
    try:
        declared = int(request.headers.get("content-length", "0"))
    except ValueError:
        raise ApiError(400, "InputError", "the content length is not a number") from None
    if declared > LARGEST:
        raise _too_large()
    parts, size = list[bytes](), 0
    async for part in request.stream():
        size += len(part)
        if size > LARGEST:
            raise _too_large()
        parts.append(part)
    return b"".join(parts)


def _too_large() -> ApiError:
    return ApiError(
        413,
        "TooLarge",
        f"a request has at most {LARGEST:,} bytes",
        hint="use the command line for larger answers",
    )


def json_of(content: bytes) -> dict[str, Any]:
    """Return the object in a body. Raise ApiError if it is not one."""
    try:
        found = msgspec.json.decode(content)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        raise ApiError(400, "InputError", f"the body is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise ApiError(400, "InputError", "the body has to be a JSON object")
    return found
