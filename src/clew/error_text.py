"""Safe access to the type, message and notes of any exception.

An exception class may misbehave: its ``__str__`` may raise, its ``__getattr__`` may raise `KeyError`
(``urllib.error.HTTPError``), and it may be frozen and reject notes. The functions here always return text. Lone
surrogates, which have no encoding, are escaped.

Attributes that all exceptions have are read and set through the interpreter's descriptors, bypassing the class.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from clew.module_names import stored_module_name

_TYPE_FIELDS = {name: vars(type)[name] for name in ("__module__", "__qualname__", "__mro__")}


def type_name(error: BaseException) -> str:
    """Return the name of an error's class, as in a traceback."""
    return kind_of(type(error)).rpartition(":")[2].rpartition(".")[2]


def kind_of(cls: type) -> str:
    """Return a class as ``module:qualified.name``; a script has the name by which others import it."""
    module, name = _TYPE_FIELDS["__module__"].__get__(cls), _TYPE_FIELDS["__qualname__"].__get__(cls)
    return f"{stored_module_name(module) if type(module) is str else '?'}:{encodable(name)}"


def bases_of(cls: type) -> tuple[type, ...]:
    """Return the method resolution order of a class."""
    found: tuple[type, ...] = _TYPE_FIELDS["__mro__"].__get__(cls)
    return found


def message_of(error: BaseException) -> str:
    """Return the message of an error, or a note that its class could not produce one."""
    try:
        text = str(error)
        return encodable(text)
    except BaseException as raised:
        if type(raised) is KeyboardInterrupt:
            raise
        return f"(its message is unknown: __str__ raised {type_name(raised)})"


def line_of(error: BaseException) -> str:
    """Return an error as one line: its class, and its message if it has one."""
    message = " ".join(message_of(error).split())
    return f"{type_name(error)}: {message}" if message else type_name(error)


def notes_of(error: BaseException) -> list[str]:
    """Return the notes of an error that are text."""
    notes = attributes_of(error).get("__notes__")
    return [encodable(note) for note in notes if isinstance(note, str)] if type(notes) is list else []


def add_note(error: BaseException, text: str) -> None:
    """Add a note once, even if the class rejects notes."""
    if text not in notes_of(error):
        attributes = attributes_of(error)
        known = attributes.get("__notes__")
        attributes["__notes__"] = [*known, text] if type(known) is list else [text]


def attributes_of(error: BaseException) -> dict[str, Any]:
    """Return the attribute dictionary of an error."""
    found: dict[str, Any] = vars(BaseException)["__dict__"].__get__(error)
    return found


def native(error: BaseException, name: str) -> Any:
    """Return an attribute that every exception has: ``__cause__``, ``__traceback__``, ``args``."""
    return vars(BaseException)[name].__get__(error)


def set_native(error: BaseException, name: str, value: Any) -> None:
    """Set an attribute that every exception has, even if the class rejects it."""
    vars(BaseException)[name].__set__(error, value)


def encodable(text: str) -> str:
    """Return text with lone surrogates escaped."""
    text = str.__str__(text)
    if text.isascii():
        return text
    return text.encode("utf-8", "backslashreplace").decode()


def safely(read: Callable[[], Any], default: Any) -> Any:
    """Return the result of `read`, or `default` if code of the error's class raises."""
    try:
        return read()
    except BaseException as raised:
        if type(raised) is KeyboardInterrupt:
            raise
        return default
