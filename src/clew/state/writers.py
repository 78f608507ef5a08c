"""From values to trees: the writing half of the canonical codec (the forms are listed in ``codec``).

A tree is made of dict, list, str, int, float, bool and None. Parts of it may be the value's own lists, so
it is encoded at once and never changed.

Rules:

- ``ordered=False`` gives the canonical tree: what has no order of its own is sorted by its encoding, and
  dicts are sorted when the tree becomes bytes. ``ordered=True`` keeps the order of dicts, for reading them
  back as they were.
- Only exact types count: a subclass of ``str`` is not text, or it would come back as another type.
- Nesting is bounded, so a value that contains itself ends here and not in a ``RecursionError``.
- A refusal collects its path on the way out, so that a value without faults pays nothing for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import isfinite
from typing import Any

import msgspec

from clew.state import scalars
from clew.state.registry import entry_of
from clew.state.scalars import INT_MAX, INT_MIN, float_tree, large_int_tree, text_tree

Writer = Callable[[Any, int, bool], Any]

# Deep enough for any data; a third of what the interpreter's own limit allows the largest form of it.
MAX_DEPTH = 128

# From this length on, looking at all items at once in C is faster than looking at each.
_MANY = 16

canonical_json = msgspec.json.Encoder(order="deterministic").encode


class Refusal(Exception):
    """A value has no encoding: why, and the path to it, innermost part first."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path: list[str] = []

    def at(self, root: str) -> str:
        return f"{root}{''.join(reversed(self.path))}: {self.reason}"


def write(value: Any, depth: int, ordered: bool) -> Any:
    return _WRITERS.get(type(value), _write_other)(value, depth, ordered)


def _same(value: Any, depth: int, ordered: bool) -> Any:
    return value


def _write_text(value: str, depth: int, ordered: bool) -> Any:
    return value if value.isascii() else text_tree(value)


def _write_int(value: int, depth: int, ordered: bool) -> Any:
    return value if INT_MIN <= value <= INT_MAX else large_int_tree(value)


def _write_float(value: float, depth: int, ordered: bool) -> Any:
    return float_tree(value)


def _write_list(value: list[Any], depth: int, ordered: bool) -> Any:
    if len(value) >= _MANY and _all_plain(value):
        return value
    return _items(value, depth, ordered)


def _write_tuple(value: tuple[Any, ...], depth: int, ordered: bool) -> Any:
    if len(value) >= _MANY and _all_plain(value):
        return {"$tuple": list(value)}
    return {"$tuple": _items(value, depth, ordered)}


def _all_plain(items: Iterable[Any]) -> bool:
    """Whether all items are of one plain type and stand for themselves."""
    kinds = set(map(type, items))
    if len(kinds) > 1:
        return False
    kind = kinds.pop()
    if kind is str:
        return all(map(str.isascii, items))
    if kind is float:
        return all(map(isfinite, items))
    return kind is int and min(items) >= INT_MIN and max(items) <= INT_MAX


def _items(value: Iterable[Any], depth: int, ordered: bool) -> list[Any]:
    _check(depth)
    depth += 1
    tree: list[Any] = []
    try:
        for item in value:
            kind = type(item)
            if kind is str and item.isascii():  # the most frequent case, without a call
                tree.append(item)
            else:
                tree.append(_WRITERS.get(kind, _write_other)(item, depth, ordered))
    except Refusal as refusal:
        refusal.path.append(f"[{len(tree)}]")
        raise
    return tree


def _write_dict(value: dict[Any, Any], depth: int, ordered: bool) -> Any:
    _check(depth)
    depth += 1
    for (
        key
    ) in value:  # before any item is written: writing some of them twice, at each level, would never end
        if type(key) is not str or not (key.isascii() or text_tree(key) is key):
            return _pairs(value, depth, ordered)
    tree: dict[str, Any] = {}
    key = ""
    try:
        for key, item in value.items():
            kind = type(item)
            if kind is str and item.isascii():
                tree[key] = item
            else:
                tree[key] = _WRITERS.get(kind, _write_other)(item, depth, ordered)
    except Refusal as refusal:
        refusal.path.append(_step(key))
        raise
    if len(tree) == 1 and key.startswith("$"):  # it would be read as a form
        return {"$dict": [[key, tree[key]]]}
    return tree


def _pairs(value: dict[Any, Any], depth: int, ordered: bool) -> Any:
    pairs: list[Any] = []
    for key, item in value.items():
        try:
            key_tree = write(key, depth, ordered)
        except Refusal as refusal:
            refusal.path.append(".keys()")
            raise
        try:
            pairs.append([key_tree, write(item, depth, ordered)])
        except Refusal as refusal:
            refusal.path.append(_step(key))
            raise
    if not ordered:
        pairs.sort(key=canonical_json)
    return {"$dict": pairs}


def _step(key: Any) -> str:
    return f".{key}" if type(key) is str and key.isidentifier() else f"[{key!r}]"


def _set_writer(tag: str) -> Writer:
    def write_set(value: Iterable[Any], depth: int, ordered: bool) -> Any:
        _check(depth)
        depth += 1
        if not ordered:
            return {tag: sorted([write(item, depth, False) for item in value], key=canonical_json)}
        # The order of a set means nothing, so here too it is the canonical one.
        canonical = sorted(value, key=lambda item: canonical_json(write(item, depth, False)))
        return {tag: [write(item, depth, True) for item in canonical]}

    return write_set


def _scalar_writer(tag: str, form: Callable[[Any], Any]) -> Writer:
    def write_scalar(value: Any, depth: int, ordered: bool) -> Any:
        try:
            return {tag: form(value)}
        except ValueError as error:
            raise Refusal(f"{_a(type(value))} cannot be stored: {error}") from error

    return write_scalar


def _write_other(value: Any, depth: int, ordered: bool) -> Any:
    cls = type(value)
    entry = entry_of(cls)
    if entry is not None:
        _check(depth)
        try:
            parts = entry.encode(value)
        except Exception as error:
            raise Refusal(f"{_a(cls)} cannot be taken apart: {type(error).__name__}: {error}") from error
        return {"$object": [entry.name, write(parts, depth + 1, ordered)]}
    late = scalars.late_writer(cls)
    if late is None:
        raise Refusal(_why_not(cls))
    _WRITERS[cls] = _scalar_writer(*late)
    return _WRITERS[cls](value, depth, ordered)


def _check(depth: int) -> None:
    if depth >= MAX_DEPTH:
        raise Refusal(TOO_DEEP)


TOO_DEEP = f"it contains itself, or is nested more than {MAX_DEPTH} levels deep"


def _why_not(cls: type) -> str:
    for plain in cls.__mro__[1:]:
        if plain in _WRITERS:
            return (
                f"{_a(cls)} cannot be stored as the {plain.__name__} that it extends; "
                f"convert it to {plain.__name__}, or register it with clew.register_type"
            )
    return (
        f"{_a(cls)} cannot be stored; register it with clew.register_type, "
        "or keep it out of the state with Graph.bind"
    )


def _a(cls: type) -> str:
    return f"{'an' if cls.__name__[0] in 'AEIOUaeiou' else 'a'} {cls.__name__}"


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
    **{cls: _scalar_writer(tag, form) for cls, (tag, form) in scalars.WRITERS.items()},
}
