"""Exceptions as data: an error that is stored says its type, message and notes, and comes back as far as is safe.

An error comes back as its own class where this process has that class already, so that whoever handles it by its class
does so again. It is built without running the class's code: nothing is imported, and no ``__init__`` but that of the
builtin exception below it is called; its attributes are put back as far as they could be stored. Any other error comes
back as `RecordedError`, which says what it was.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Mapping
from typing import Any

from clew.errors import ClewError, EncodeError
from clew.state import encode


class RecordedError(ClewError):
    """An error of a stored run whose class is not built again: ``kind`` is its name."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.message = message


def plain_error(error: BaseException) -> dict[str, Any]:
    """An error as plain data."""
    kind, message = name_of(error)
    plain: dict[str, Any] = {"type": kind, "message": message}
    if not isinstance(error, RecordedError):
        args, attributes = _made_of(error)
        if args != [message]:
            plain["args"] = args
        if attributes:
            plain["attributes"] = attributes
    notes = [str(note) for note in getattr(error, "__notes__", ())]
    if notes:
        plain["notes"] = notes
    others = getattr(error, "others", ())
    if others:
        plain["others"] = [plain_error(other) for other in others]
    if error.__cause__ is not None and error.__cause__ is not error:
        plain["cause"] = plain_error(error.__cause__)
    told = traceback.format_tb(error.__traceback__)
    if told:
        plain["traceback"] = "".join(told)
    return plain


def error_of(plain: Mapping[str, Any]) -> BaseException:
    """The error that `plain_error` wrote."""
    kind, message = plain["type"], plain["message"]
    args = plain.get("args", [message])
    error = None
    cls = _class_of(kind)
    if cls is not None and args is not None:
        error = _built(cls, args, plain.get("attributes", {}), message)
    if error is None:
        error = RecordedError(kind, message)
    for note in plain.get("notes", ()):
        error.add_note(note)
    if "others" in plain:
        error.others = tuple(error_of(other) for other in plain["others"])  # type: ignore[attr-defined]
    if "cause" in plain:
        error.__cause__ = error_of(plain["cause"])
    return error


def name_of(error: BaseException) -> tuple[str, str]:
    """An error's class, as it is stored, and its message: what makes two errors the same."""
    if isinstance(error, RecordedError):
        return error.kind, error.message
    cls = type(error)
    return f"{cls.__module__}:{cls.__qualname__}", str(error)


def _made_of(error: BaseException) -> tuple[list[Any] | None, dict[str, Any]]:
    """Arguments (None if they cannot be stored) and attributes of an error, by the builtin class that it is of."""
    made = _native(type(error)).__reduce__(error)
    assert isinstance(made, tuple)
    state = made[2] if len(made) > 2 and isinstance(made[2], dict) else {}
    attributes = {
        name: value
        for name, value in state.items()
        if name not in ("__notes__", "others") and _is_storable(value)
    }
    args = list(made[1])
    return (args if _is_storable(args) else None), attributes


def _is_storable(value: Any) -> bool:
    try:
        encode(value, ordered=True)
    except EncodeError:
        return False
    return True


def _native(cls: type[BaseException]) -> type[BaseException]:
    """The builtin exception that a class is built on."""
    return next(each for each in cls.__mro__ if each.__module__ == "builtins" and each is not object)


def _class_of(kind: str) -> type[Exception] | None:
    """A class that this process knows, or None."""
    module, _, name = kind.partition(":")
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found if isinstance(found, type) and issubclass(found, Exception) else None


def _built(
    cls: type[Exception], args: list[Any], attributes: Mapping[str, Any], message: str
) -> BaseException | None:
    native = _native(cls)
    try:
        error: BaseException = native.__new__(cls, *args)
        native.__init__(error, *args)
        vars(error).update(attributes)
        return error if str(error) == message else None
    except Exception:  # it needs more than was stored
        return None
