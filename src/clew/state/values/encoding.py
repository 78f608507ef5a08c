"""Encode values to trees: the writing half of the canonical codec (``codec`` lists the forms).

A tree consists of dict, list, str, int, float, bool and None. It may share lists with the value, so it is converted to
bytes immediately and never changed.

Rules:

- The manner selects the kind of tree. ``CANONICAL`` sorts the pairs of ``$dict``; other dicts are sorted when the tree
  becomes bytes. ``ORDERED`` keeps the order of dicts. A dict of blobs is ``ORDERED`` too; large leaves are moved into
  it (see ``stored``).
- Sets are unordered: in every manner they are sorted by their canonical encoding.
- Only exact types count: a subclass of ``str`` is not text, because it would be decoded as another type.
- Nesting is limited, so a value that contains itself does not cause a ``RecursionError``.
- An error collects its path while it propagates, so valid values have no extra cost.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, MappingView
from hashlib import sha256
from itertools import islice
from math import isfinite
from types import AsyncGeneratorType, CoroutineType
from typing import Any, Final

import msgspec

from clew.state.registry import adopt, entry_of
from clew.state.stored_object import StoredContent, StoredObject
from clew.state.type_names import a
from clew.state.values import scalars
from clew.state.values.libraries import BY_TAG, Format, format_of
from clew.state.values.scalars import INT_MAX, INT_MIN, escaped, float_tree, large_int_tree, text_tree

Manner = dict[str, bytes] | str
Writer = Callable[[Any, int, Manner], Any]

CANONICAL: Final = "canonical"
ORDERED: Final = "ordered"

# Larger content is stored separately, under its digest.
LARGE = 64 * 1024

# Enough for any data; a third of what the interpreter's recursion limit allows.
MAX_DEPTH = 128

# Parts of a path that an error shows.
_SHOWN = 16

# From this length on, checking all items at once in C is faster than checking each.
_MANY = 16

ordered_json = msgspec.json.Encoder().encode
canonical_json = msgspec.json.Encoder(order="deterministic").encode


class EncodingFailure(Exception):
    """A value has no encoding: why, and the path to it, innermost part first."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path: list[str] = []

    def at(self, root: str) -> str:
        parts = self.path[::-1]
        if len(parts) > _SHOWN:  # the start of a path says where to look
            parts = [*parts[:_SHOWN], "..."]
        return f"{root}{''.join(parts)}: {self.reason}"


def write(value: Any, depth: int, manner: Manner) -> Any:
    return _WRITERS.get(type(value), _write_other)(value, depth, manner)


def apart(kind: str, content: bytes, blobs: dict[str, bytes]) -> dict[str, list[str]]:
    """Add content to ``blobs`` under its digest; return the form that refers to it."""
    name = sha256(content).hexdigest()
    blobs[name] = content
    return {"$blob": [kind, name]}


def sorted_pairs(tree: Any) -> Any:
    """Turn an ordered tree into the canonical one: sort the pairs of each ``$dict``."""
    kind = type(tree)
    if kind is list:
        return [sorted_pairs(item) if type(item) in _NESTED else item for item in tree]
    if kind is not dict:
        return tree
    if len(tree) == 1 and "$dict" in tree:
        return {"$dict": sorted(map(sorted_pairs, tree["$dict"]), key=canonical_json)}
    return {key: sorted_pairs(item) if type(item) in _NESTED else item for key, item in tree.items()}


_NESTED = frozenset({list, dict})


def _same(value: Any, depth: int, manner: Manner) -> Any:
    return value


def _write_text(value: str, depth: int, manner: Manner) -> Any:
    if value.isascii() and len(value) <= LARGE:
        return value
    if type(manner) is not dict:
        return text_tree(value)
    try:
        content = value.encode()
    except UnicodeEncodeError:  # UTF-8 cannot encode lone surrogates, so the content is their stored form
        form = escaped(value)
        content = ordered_json(form)
        return form if len(content) <= LARGE else apart("json", content, manner)
    return value if len(content) <= LARGE else apart("str", content, manner)


def _bytes_writer(kind: str) -> Writer:
    tag = f"${kind}"

    def write_bytes(value: Any, depth: int, manner: Manner) -> Any:
        if type(manner) is dict and len(value) > LARGE:
            return apart(kind, bytes(value), manner)  # no copy, unless it is a bytearray
        return {tag: scalars.base64(value)}

    return write_bytes


def _write_int(value: int, depth: int, manner: Manner) -> Any:
    return value if INT_MIN <= value <= INT_MAX else large_int_tree(value)


def _write_float(value: float, depth: int, manner: Manner) -> Any:
    return float_tree(value)


def _write_list(value: list[Any], depth: int, manner: Manner) -> Any:
    if len(value) >= _MANY and _all_plain(value):
        return value
    return _items(value, depth, manner)


def _write_tuple(value: tuple[Any, ...], depth: int, manner: Manner) -> Any:
    if len(value) >= _MANY and _all_plain(value):
        return {"$tuple": list(value)}
    return {"$tuple": _items(value, depth, manner)}


def _all_plain(items: list[Any] | tuple[Any, ...]) -> bool:
    """Return whether all items have the same plain type, are small, and are encoded as themselves."""
    kinds = set(map(type, items))
    if len(kinds) > 1:
        return False
    kind = kinds.pop()
    if kind is str:
        text = "".join(items)  # faster than a call for each
        return text.isascii() and (len(text) <= LARGE or len(max(items, key=len)) <= LARGE)
    if kind is float:
        return all(map(isfinite, items))
    return kind is int and min(items) >= INT_MIN and max(items) <= INT_MAX


def _items(value: Iterable[Any], depth: int, manner: Manner) -> list[Any]:
    _check(depth)
    depth += 1
    tree: list[Any] = []
    try:
        for item in value:
            kind = type(item)
            # the most frequent case, without a call
            if kind is str and item.isascii() and len(item) <= LARGE:
                tree.append(item)
            else:
                tree.append(_WRITERS.get(kind, _write_other)(item, depth, manner))
    except EncodingFailure as refusal:
        refusal.path.append(f"[{len(tree)}]")
        raise
    return tree


def _write_dict(value: dict[Any, Any], depth: int, manner: Manner) -> Any:
    _check(depth)
    depth += 1
    tree: dict[str, Any] = {}
    key = ""
    try:
        for key, item in value.items():
            if type(key) is not str or not (key.isascii() or text_tree(key) is key):
                break
            kind = type(item)
            if kind is str and item.isascii() and len(item) <= LARGE:
                tree[key] = item
            else:
                tree[key] = _WRITERS.get(kind, _write_other)(item, depth, manner)
    except EncodingFailure as refusal:
        refusal.path.append(_step(key))
        raise
    if len(tree) < len(value):
        return _pairs(value, tree, depth, manner)
    if len(tree) == 1 and key.startswith("$"):  # it would be read as a form
        return {"$dict": [[key, tree[key]]]}
    return tree


def _pairs(value: dict[Any, Any], written: dict[str, Any], depth: int, manner: Manner) -> Any:
    """Write a dict as pairs; ``written`` has those before the first key that is not plain text."""
    pairs: list[Any] = [[_write_text(key, depth, manner), item] for key, item in written.items()]
    for key, item in islice(value.items(), len(pairs), None):
        try:
            key_tree = write(key, depth, manner)
        except EncodingFailure as refusal:
            refusal.path.append(".keys()")
            raise
        try:
            pairs.append([key_tree, write(item, depth, manner)])
        except EncodingFailure as refusal:
            refusal.path.append(_step(key))
            raise
    if manner == CANONICAL:
        pairs.sort(key=canonical_json)
    return {"$dict": pairs}


def _step(key: Any) -> str:
    return f".{key}" if type(key) is str and key.isidentifier() else f"[{key!r}]"


def _set_writer(tag: str) -> Writer:
    def write_set(value: Iterable[Any], depth: int, manner: Manner) -> Any:
        _check(depth)
        depth += 1
        trees = [write(item, depth, manner) for item in value]
        if manner == CANONICAL:
            return {tag: sorted(trees, key=canonical_json)}
        return {tag: sorted(trees, key=lambda tree: canonical_json(sorted_pairs(tree)))}

    return write_set


def _scalar_writer(tag: str, form: Callable[[Any], Any]) -> Writer:
    def write_scalar(value: Any, depth: int, manner: Manner) -> Any:
        try:
            return {tag: form(value)}
        except ValueError as error:
            raise EncodingFailure(f"{a(type(value))} cannot be stored: {error}") from error

    return write_scalar


def _write_stored(value: StoredObject, depth: int, manner: Manner) -> Any:
    _check(depth)
    return {"$object": [value.name, write(value.fields, depth + 1, manner)]}


def _library_writer(cls: type, form: Format) -> Writer:
    def write_library(value: Any, depth: int, manner: Manner) -> Any:
        try:
            content = form.encoded(value)
        except Exception as error:  # the library may raise anything
            raise EncodingFailure(f"{a(cls)} cannot be stored: {error}") from error
        return _content_tree(form, content, manner)

    return write_library


def _write_content(value: StoredContent, depth: int, manner: Manner) -> Any:
    return _content_tree(BY_TAG[value.name], value.fields, manner)


def _content_tree(form: Format, content: Any, manner: Manner) -> Any:
    if form.is_tree:
        return {f"${form.tag}": content}
    if type(manner) is dict and len(content) > LARGE:
        return apart(form.tag, content, manner)
    return {f"${form.tag}": scalars.base64(content)}


def _write_other(value: Any, depth: int, manner: Manner) -> Any:
    cls = type(value)
    entry = entry_of(cls) or adopt(cls)
    if entry is not None:
        _check(depth)
        try:
            parts = entry.encode(value)
        except Exception as error:
            raise EncodingFailure(f"{a(cls)} cannot be encoded: {type(error).__name__}: {error}") from error
        return {"$object": [entry.name, write(parts, depth + 1, manner)]}
    late = scalars.late_writer(cls)
    form = format_of(cls) if late is None else None
    if late is not None:
        _WRITERS[cls] = _scalar_writer(*late)
    elif form is not None:
        _WRITERS[cls] = _library_writer(cls, form)
    else:
        raise EncodingFailure(_why_not(cls))
    return _WRITERS[cls](value, depth, manner)


def _check(depth: int) -> None:
    if depth >= MAX_DEPTH:
        raise EncodingFailure(TOO_DEEP)


TOO_DEEP = f"it contains itself, or is nested more than {MAX_DEPTH} levels deep"
NO_ROOM = "the stack has no room left to encode it; the caller is nested too deep"


_INSTEAD = {  # of single values of pandas
    "NAType": "pandas.NA cannot be stored outside of a frame; give None instead",
    "NaTType": "pandas.NaT cannot be stored outside of a frame; give None instead",
    "Timestamp": "a Timestamp cannot be stored outside of a frame; give .to_pydatetime() or .isoformat() instead",
    "Timedelta": "a Timedelta cannot be stored outside of a frame; give .to_pytimedelta() or .isoformat() instead",
    "Period": "a Period cannot be stored outside of a frame; give its str instead",
    "Interval": "an Interval cannot be stored outside of a frame; give (left, right, closed) instead",
}


def _why_not(cls: type) -> str:
    if cls in (CoroutineType, AsyncGeneratorType) or cls.__module__ == "_asyncio":
        return f"{a(cls)} cannot be stored; await it"
    if cls.__module__.partition(".")[0] == "pandas" and cls.__name__ in _INSTEAD:
        return _INSTEAD[cls.__name__]
    if cls.__module__ == "pydantic.types" and cls.__name__.startswith("Secret"):
        return (
            f"{a(cls)} cannot be stored, because a store keeps values as they are; pass it with Graph.bind, "
            "or store a name by which a node finds the secret"
        )
    if issubclass(cls, (Iterator, MappingView, range, deque)):
        return f"{a(cls)} cannot be stored; convert it to a list"
    if (instead := vars(cls).get("__store_instead__")) is not None:
        return f"{a(cls)} cannot be stored; {instead}"
    for plain in cls.__mro__[1:]:
        if plain in _WRITERS or format_of(plain) is not None:
            return (
                f"{a(cls)} cannot be stored as the {plain.__name__} that it extends; "
                f"convert it to {plain.__name__}, or register it with clew.register_type"
            )
    return (
        f"{a(cls)} cannot be stored; register it with clew.register_type, "
        "or keep it out of the state with Graph.bind"
    )


_WRITERS: dict[type, Writer] = {
    type(None): _same,
    bool: _same,
    str: _write_text,
    int: _write_int,
    float: _write_float,
    list: _write_list,
    tuple: _write_tuple,
    dict: _write_dict,
    set: _set_writer("$set"),
    frozenset: _set_writer("$frozenset"),
    bytes: _bytes_writer("bytes"),
    bytearray: _bytes_writer("bytearray"),
    StoredObject: _write_stored,
    StoredContent: _write_content,
    **{cls: _scalar_writer(tag, form) for cls, (tag, form) in scalars.WRITERS.items()},
}
