"""What an exception says, whatever its class does: type, message, notes.

A program may raise an exception of any class: one whose ``__str__`` raises, whose ``__getattr__`` raises `KeyError`
(``urllib.error.HTTPError``), that is frozen and rejects notes. Code that shows or stores an exception asks here and
always gets text. Half a surrogate pair, which has no encoding, comes out escaped.

The attributes that all exceptions have are read and set by the interpreter's own descriptors, past the class.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_TYPE_FIELDS = {name: vars(type)[name] for name in ("__module__", "__qualname__", "__mro__")}


def type_name(error: BaseException) -> str:
    """The name of an error's class, as in a traceback."""
    return kind_of(type(error)).rpartition(":")[2].rpartition(".")[2]


def kind_of(cls: type) -> str:
    """A class as ``module:qualified.name``."""
    module, name = _TYPE_FIELDS["__module__"].__get__(cls), _TYPE_FIELDS["__qualname__"].__get__(cls)
    return f"{module if type(module) is str else '?'}:{encodable(name)}"


def bases_of(cls: type) -> tuple[type, ...]:
    """The classes that a class derives from, itself first."""
    found: tuple[type, ...] = _TYPE_FIELDS["__mro__"].__get__(cls)
    return found


def message_of(error: BaseException) -> str:
    """What an error says; where its class cannot tell, that and why."""
    try:
        text = str(error)
        return encodable(text)
    except BaseException as raised:
        if type(raised) is KeyboardInterrupt:
            raise
        return f"(its message is unknown: __str__ raised {type_name(raised)})"


def line_of(error: BaseException) -> str:
    """An error as one line: its class, and what it says if it says something."""
    said = " ".join(message_of(error).split())
    return f"{type_name(error)}: {said}" if said else type_name(error)


def notes_of(error: BaseException) -> list[str]:
    """The notes of an error, as far as they are text."""
    notes = attributes_of(error).get("__notes__")
    return [encodable(note) for note in notes if isinstance(note, str)] if type(notes) is list else []


def add_note(error: BaseException, text: str) -> None:
    """Add a note once, also to an error whose class rejects that."""
    if text not in notes_of(error):
        attributes = attributes_of(error)
        known = attributes.get("__notes__")
        attributes["__notes__"] = [*known, text] if type(known) is list else [text]


def attributes_of(error: BaseException) -> dict[str, Any]:
    """The attributes of an error itself: the dictionary that holds them."""
    found: dict[str, Any] = vars(BaseException)["__dict__"].__get__(error)
    return found


def native(error: BaseException, name: str) -> Any:
    """What every exception has: ``__cause__``, ``__traceback__``, ``args``."""
    return vars(BaseException)[name].__get__(error)


def set_native(error: BaseException, name: str, value: Any) -> None:
    """Set what every exception has, past a class that rejects it."""
    vars(BaseException)[name].__set__(error, value)


def encodable(text: str) -> str:
    """Text without half surrogate pairs: they are escaped."""
    text = str.__str__(text)
    if text.isascii():
        return text
    return text.encode("utf-8", "backslashreplace").decode()


def safely(read: Callable[[], Any], default: Any) -> Any:
    """What `read` gives; `default` if code of the error's class gets in the way."""
    try:
        return read()
    except BaseException as raised:
        if type(raised) is KeyboardInterrupt:
            raise
        return default
