"""Which function answers which address of the API.

A run id may contain a slash, so addresses are split before they are decoded. A segment that begins with ``~`` stands
for the text after it: browsers would resolve ``.`` and ``..``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar
from urllib.parse import unquote_to_bytes

from clew.web.answers import ApiError

H = TypeVar("H", bound=Callable[..., Any])

_DEEPEST = 8


def segments_of(raw_path: bytes) -> list[str]:
    """Return the decoded segments of an address after ``/api``. Raise ApiError if they are not UTF-8."""
    found = []
    for part in raw_path.split(b"/")[2:]:
        try:
            text = unquote_to_bytes(part).decode()
        except UnicodeDecodeError:
            raise ApiError(400, "InputError", "the address is not UTF-8") from None
        if "\0" in text:
            raise ApiError(400, "InputError", "the address contains a NUL")
        found.append(text[1:] if text.startswith("~") else text)
    return found


class Routes(Generic[H]):
    """A table of methods and patterns: ``GET runs/*/state/*``. A star is one segment."""

    def __init__(self) -> None:
        self._table: dict[int, list[tuple[str, Sequence[str], H]]] = {}

    def add(self, method: str, pattern: str, handler: H) -> None:
        """Add a function."""
        parts = pattern.split("/") if pattern else []
        self._table.setdefault(len(parts), []).append((method, parts, handler))

    def find(self, method: str, segments: Sequence[str]) -> tuple[H, list[str]] | set[str]:
        """Return the function and the segments for its stars; otherwise the methods that the address has."""
        if segments and not segments[-1]:
            segments = segments[:-1]
        methods = set[str]()
        for known, parts, handler in self._table.get(len(segments), ()) if len(segments) <= _DEEPEST else ():
            if all(part in ("*", segment) for part, segment in zip(parts, segments)):
                if known == method:
                    return handler, [s for part, s in zip(parts, segments) if part == "*"]
                methods.add(known)
        return methods
