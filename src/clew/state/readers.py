"""From trees to values: the reading half of the canonical codec (the forms are listed in ``codec``).

Rules: only classes of the registry are built, nothing is imported by name, and whatever is wrong with a
tree is a ``DecodeError``, also when the tree comes from somebody who means harm. A tree need not be
canonical to be read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from clew.errors import DecodeError
from clew.state import scalars
from clew.state.registry import entry_named

_PLAIN = frozenset({str, int, float, bool, type(None)})


def read(tree: Any) -> Any:
    kind = type(tree)
    if kind in _PLAIN:
        return tree
    if kind is list:
        return _read_items(tree)
    if kind is not dict:
        raise DecodeError(f"a {kind.__name__} is no part of a canonical encoding")
    if len(tree) == 1:
        ((tag, payload),) = tree.items()
        if type(tag) is str and tag.startswith("$"):
            return _read_form(tag, payload)
    values = {}
    for key, item in tree.items():
        if type(key) is not str:
            raise DecodeError(f"a {type(key).__name__} as a key is no part of a canonical encoding")
        values[key] = item if type(item) in _PLAIN else read(item)
    return values


def _read_items(tree: Any) -> list[Any]:
    if type(tree) is not list:
        raise DecodeError(f"expected a list, found a {type(tree).__name__}")
    values = []
    for item in tree:
        values.append(item if type(item) in _PLAIN else read(item))
    return values


def _read_form(tag: str, payload: Any) -> Any:
    reader = _READERS.get(tag)
    if reader is None:
        raise DecodeError(
            f"{tag} is no form of the canonical encoding; a newer version of clew may have written it"
        )
    try:
        return reader(payload)
    except (DecodeError, RecursionError):
        raise
    except Exception as error:  # whatever a constructor has to say about what it was given
        raise DecodeError(f"a {tag} cannot be read: {type(error).__name__}: {error}") from error


def _read_pairs(payload: Any) -> dict[Any, Any]:
    values = {}
    for key, item in payload:
        values[read(key)] = read(item)
    return values


def _read_object(payload: Any) -> Any:
    name, parts = payload
    entry = entry_named(name)
    if entry is None:
        raise DecodeError(
            f"the class {name!r} is not registered; call clew.register_type on it before reading"
        )
    values = read(parts)
    try:
        return entry.decode(values)
    except Exception as error:
        raise DecodeError(f"a {name!r} cannot be put together: {type(error).__name__}: {error}") from error


_READERS: dict[str, Callable[[Any], Any]] = {
    "$tuple": lambda payload: tuple(_read_items(payload)),
    "$set": lambda payload: set(_read_items(payload)),
    "$frozenset": lambda payload: frozenset(_read_items(payload)),
    "$dict": _read_pairs,
    "$object": _read_object,
    **scalars.READERS,
}
