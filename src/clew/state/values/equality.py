"""Equality of values that never raises, also for arrays and frames, whose ``==`` does not return a bool.

- `equal` is Python's equality, except that library values are equal if their stored forms are equal (type, shape and
  content), that NaN equals NaN, and that values which cannot be compared are different.
- `same` compares the canonical forms: 1, 1.0 and True differ. Values without such a form are compared with `equal`.
- `fingerprint` is the canonical form with large content replaced by its digest: short, and as good for comparison.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec

from clew.errors import EncodeError
from clew.state.values.encoding import NO_ROOM, EncodingFailure, canonical_json, sorted_pairs, write
from clew.state.values.libraries import format_of

_CONTAINERS = frozenset({dict, list, tuple})
_PLAIN = frozenset({str, int, float, bool, bytes, type(None)})


def fingerprint(value: Any, *, at: str = "value") -> bytes:
    """Return bytes that are equal for values with the same canonical form. Raises EncodeError if it has none."""
    try:
        return canonical_json(sorted_pairs(write(value, 0, {})))
    except EncodingFailure as refusal:
        raise EncodeError(refusal.at(at)) from refusal.__cause__
    except RecursionError:
        raise EncodeError(f"{at}: {NO_ROOM}") from None


def same(one: Any, other: Any) -> bool:
    """Return whether two values have the same canonical form; without one, whether they are equal."""
    if one is other:
        return True
    try:
        return fingerprint(one) == fingerprint(other)
    except EncodeError:
        return equal(one, other)


def equal(one: Any, other: Any) -> bool:
    """Return whether two values are equal. Never raises."""
    try:
        return _equal(one, other)
    except Exception:  # a comparison may raise anything
        return False


def _equal(one: Any, other: Any) -> bool:
    if one is other:
        return True
    kind = type(one)
    if kind is float and type(other) is float:
        return bool(one == other or (one != one and other != other))
    if kind is type(other) and kind in _CONTAINERS:
        return len(one) == len(other) and _equal_items(one, other)
    form, its = format_of(kind), format_of(type(other))
    if (form is None or form.is_tree) and (its is None or its.is_tree):
        try:
            return bool(one == other)
        except Exception:  # an instance that holds an array
            return kind is type(other) and _equal(_fields(one), _fields(other))
    return form is not None and kind is type(other) and _equal_content(form, one, other)


def _equal_items(one: Any, other: Any) -> bool:
    if type(one) is dict:
        return all(name in other and _equal(value, other[name]) for name, value in one.items())
    return bool(_PLAIN.issuperset(map(type, one)) and one == other) or all(map(_equal, one, other))


def _equal_content(form: Any, one: Any, other: Any) -> bool:
    try:
        return bool(form.encoded(one) == form.encoded(other))
    except ValueError:  # it cannot be stored
        return bool(one.shape == other.shape) and bool((one == other).all())


def _fields(instance: Any) -> Any:
    """Return the fields of an instance by name; its canonical form if it has no fields."""
    if isinstance(instance, msgspec.Struct):
        return msgspec.structs.asdict(instance)
    if dataclasses.is_dataclass(instance):
        return {field.name: getattr(instance, field.name) for field in dataclasses.fields(instance)}
    return fingerprint(instance)
