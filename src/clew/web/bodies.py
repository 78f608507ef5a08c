"""Bodies of requests: JSON of a bounded size."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.requests import Request

from clew.web.answers import ApiError

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
