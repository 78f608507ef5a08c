"""Exceptions as data: an error that is stored says its type, message and notes, and comes back as far as is safe.

An error comes back as its own class where this process has that class already, so that whoever handles it by its class
does so again. It is built without running the class's code: nothing is imported, and no ``__init__`` but that of the
builtin exception below it is called; its attributes are put back as far as they could be stored, errors among them too,
and so are the members of a group.

Where that does not give the same message, because something of it could not be stored, the error comes back as a
stand-in: of a class with the same name, made for it and derived from its own class or the nearest of its bases that
this process has, and with the message that it had. The handlers that caught the one catch the other. An error of which
no base but ``Exception`` is known comes back as `RecordedError`, which says what it was, unless a node is to handle it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
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
    if isinstance(error, BaseExceptionGroup):
        plain["group"] = [error.message, [plain_error(each) for each in error.exceptions]]
    if not isinstance(error, RecordedError):
        args, attributes, within = _made_of(error)
        if args != [message]:
            plain["args"] = args
        if attributes:
            plain["attributes"] = attributes
        if within:
            plain["within"] = {name: plain_error(each) for name, each in within.items()}
        bases = [_kind(cls) for cls in type(error).__mro__[1:-1] if cls not in _COMMON]
        if bases:
            plain["bases"] = bases
    notes = [str(note) for note in getattr(error, "__notes__", ())]
    if notes:
        plain["notes"] = notes
    others = getattr(error, "others", ())
    if others:
        plain["others"] = [plain_error(other) for other in others]
    if error.__cause__ is not None and error.__cause__ is not error:
        plain["cause"] = plain_error(error.__cause__)
    if error.__traceback__ is not None:
        from traceback import format_tb

        plain["traceback"] = "".join(format_tb(error.__traceback__))
    return plain


def error_of(plain: Mapping[str, Any], *, to_handle: bool = False) -> BaseException:
    """The error that `plain_error` wrote; `to_handle` by code that saw it before, and must not see a difference."""
    kind, message = plain["type"], plain["message"]
    args = plain.get("args", [message])
    within = {name: error_of(each) for name, each in plain.get("within", {}).items()}
    attributes = {**plain.get("attributes", {}), **{n: e for n, e in within.items() if not n.isdecimal()}}
    if args is not None and within:
        args = [within.get(str(place), arg) for place, arg in enumerate(args)]
    if "group" in plain:
        args = [plain["group"][0], [error_of(each) for each in plain["group"][1]]]
    error = None
    cls = _class_of(kind)
    if cls is not None and args is not None:
        error = _built(cls, args, attributes, message)
    if error is None:
        error = _stand_in(kind, message, [kind, *plain.get("bases", ())], args, attributes, to_handle)
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
    return _kind(type(error)), str(error)


_COMMON = (Exception, BaseException)


def _kind(cls: type) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


def _made_of(error: BaseException) -> tuple[list[Any] | None, dict[str, Any], dict[str, BaseException]]:
    """What an error is made of, by the builtin class that it is of: its arguments (None if they cannot be stored), its
    attributes, and the errors among both, by place or name."""
    made = _native(type(error)).__reduce__(error)
    assert isinstance(made, tuple)
    state = made[2] if len(made) > 2 and isinstance(made[2], dict) else {}
    attributes: dict[str, Any] = {}
    within: dict[str, BaseException] = {}
    for name, value in state.items():
        if name in ("__notes__", "others"):
            continue
        if isinstance(value, Exception) and value is not error:
            within[name] = value
        elif _is_storable(value):
            attributes[name] = value
    args = list(made[1])
    for place, value in enumerate(args):
        if isinstance(value, Exception) and value is not error:
            within[str(place)], args[place] = value, None
    return (args if _is_storable(args) else None), attributes, within


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


def _stand_in(
    kind: str,
    message: str,
    bases: Sequence[str],
    args: list[Any] | None,
    attributes: Mapping[str, Any],
    to_handle: bool,
) -> Exception:
    """An error that handlers take for the one that was stored, with its message."""
    known = [cls for base in bases if (cls := _class_of(base)) is not None and cls not in _COMMON]
    for cls in [*known, Exception] if to_handle else known:
        module, _, name = kind.partition(":")
        body = {"__module__": module, "__qualname__": name, "__str__": lambda self: message}
        try:
            made: type[Exception] = type(name.rpartition(".")[2], (cls,), body)
            native = _native(made)
            try:
                error = native.__new__(made, *(args or ()))
            except Exception:  # it was made of something else
                error = native.__new__(made, message)
            error.args = tuple(args or (message,))
            vars(error).update(attributes)
        except Exception:  # nobody may derive from it, or it needs more than was stored
            continue
        if isinstance(error, Exception):
            return error
    return RecordedError(kind, message)
