"""Exceptions as data: an error that is stored says its type, message and notes, and comes back as far as is safe.

Only classes of the standard library's builtins and of ``clew.errors`` are built again, since building a class runs
its code. Any other error comes back as `RecordedError`, which says what it was.
"""

from __future__ import annotations

import builtins
import traceback
from collections.abc import Mapping
from typing import Any

from clew import errors
from clew.errors import ClewError


class RecordedError(ClewError):
    """An error of a stored run whose class is not built again: ``kind`` is its name."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.message = message


def plain_error(error: BaseException) -> dict[str, Any]:
    """An error as plain data."""
    if isinstance(error, RecordedError):
        kind, message = error.kind, error.message
    else:
        cls = type(error)
        kind, message = f"{cls.__module__}:{cls.__qualname__}", str(error)
    plain: dict[str, Any] = {"type": kind, "message": message}
    notes = [str(note) for note in getattr(error, "__notes__", ())]
    if notes:
        plain["notes"] = notes
    told = traceback.format_tb(error.__traceback__)
    if told:
        plain["traceback"] = "".join(told)
    return plain


def error_of(plain: Mapping[str, Any]) -> BaseException:
    """The error that `plain_error` wrote."""
    kind, message = plain["type"], plain["message"]
    module, _, name = kind.partition(":")
    cls = getattr({"builtins": builtins, "clew.errors": errors}.get(module), name, None)
    error: BaseException
    if isinstance(cls, type) and issubclass(cls, Exception) and cls not in _NEEDING_MORE:
        error = cls(message)
    else:
        error = RecordedError(kind, message)
    for note in plain.get("notes", ()):
        error.add_note(note)
    return error


_NEEDING_MORE = (
    UnicodeDecodeError,
    UnicodeEncodeError,
    UnicodeTranslateError,
    ExceptionGroup,
    BaseExceptionGroup,
)
