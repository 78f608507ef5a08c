"""Deltas: the recorded results of custom reducers, so that reading a run never calls them again.

A step stores its updates as given. For values of the library's own reducers (`clew.state.reducers.is_own`) that is
enough: applying the updates again gives the same value. The result of a custom reducer does not follow from the log:
the reducer may generate ids, read a clock, or change between versions. The commit is therefore the only place that
calls it, and records one `Delta` from the value before the step to the value after it. Chains, resume, fork and replay
apply this delta.

A delta is one of:

=========  ============================================================================================================
``same``   the value did not change
``list``   the first `keep` items of the list (or tuple), then the items of `value`
``dict``   the entries of the dict without the keys `removed`, then the entries of `value` in order
``whole``  `value`
=========  ============================================================================================================

If `value` equals what outcomes of the step gave for this name, the delta refers to them instead of repeating it: `refs`
are the indexes of these outcomes in the step, and `value` is None. For a ``list``, their updates are concatenated or,
without `spread`, each one is an item. For a ``dict``, they are merged. The size of a step thus grows only with its new
data.

Rules:

- Applying a delta gives exactly what the reducer returned, including the order of dict keys. If a dict delta would
  change that order, the whole value is recorded.
- Two items are equal if they are the same object or have the same encoding. Identity alone would make digests depend on
  whether a value came from memory or from a store.
- Lists, tuples and dicts are compared by exact type; keys of user classes are never compared. Sets, strings and numbers
  are ``same`` or ``whole``. Any other value is ``whole``, because the reducer may have mutated the object it returned.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from operator import is_
from types import MappingProxyType
from typing import Any, Literal

import msgspec

from clew.errors import EncodeError
from clew.state import encode
from clew.state.reducers import PLAIN_KEYS
from clew.state.type_names import a

Kind = Literal["same", "list", "dict", "whole"]


class Delta(msgspec.Struct, frozen=True):
    """The difference between the values before and after a step."""

    kind: Kind
    keep: int = 0
    value: Any = None
    refs: tuple[int, ...] = ()
    spread: bool = True
    removed: tuple[Any, ...] = ()


NO_DELTAS: Mapping[str, Delta] = MappingProxyType({})
"""The deltas of a step in which no custom reducer ran."""

SAME = Delta("same")

_ATOMS = frozenset({str, bytes, int, bool, type(None)})
_UNCHANGING = frozenset({str, bytes, int, float, bool, complex, type(None), frozenset, set})


def delta_of(before: Any, after: Any, updates: Sequence[tuple[int, Any]]) -> Delta:
    """Return the delta between two values; `updates` are those of the step, each with the index of its outcome."""
    kind = type(after)
    if kind is type(before):
        if kind is list or kind is tuple:
            return _list_delta(before, after, updates)
        if (
            kind is dict
            and PLAIN_KEYS.issuperset(map(type, before))
            and PLAIN_KEYS.issuperset(map(type, after))
        ):
            return _dict_delta(before, after, updates)
        if kind in _UNCHANGING and _are_alike(before, after):
            return SAME
    return Delta("whole", value=after)


def apply_delta(before: Any, delta: Delta, updates: Mapping[int, Any]) -> Any:
    """Return the value after a step; `updates` are those for this value, by outcome.

    Raises ValueError if the delta does not match the value.
    """
    if delta.kind == "same":
        return before
    if delta.kind == "whole":
        return delta.value
    try:
        if delta.kind == "list":
            return _applied_list(before, delta, updates)
        return _applied_dict(before, delta, updates)
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"a {delta.kind} delta does not match {a(type(before))}") from error


def tail_of(delta: Delta, updates: Mapping[int, Any]) -> list[Any]:
    """Return the items that a ``list`` delta adds."""
    if not delta.refs:
        return list(delta.value)
    if not delta.spread:
        return [updates[ref] for ref in delta.refs]
    return [item for ref in delta.refs for item in updates[ref]]


def _applied_list(before: Any, delta: Delta, updates: Mapping[int, Any]) -> Any:
    if type(before) not in (list, tuple) or not 0 <= delta.keep <= len(before):
        raise ValueError(
            f"a delta keeps {delta.keep} items, but the {type(before).__name__} before it has fewer"
        )
    made = [*before[: delta.keep], *tail_of(delta, updates)]
    return made if type(before) is list else tuple(made)


def _applied_dict(before: Any, delta: Delta, updates: Mapping[int, Any]) -> Any:
    if type(before) is not dict:
        raise ValueError(f"a dict delta does not match {a(type(before))}")
    made = dict(before)
    for key in delta.removed:
        del made[key]
    for entries in [updates[ref] for ref in delta.refs] if delta.refs else [delta.value]:
        made.update(entries)
    return made


# -- comparing -----------------------------------------------------------------------------------------------------


def _list_delta(before: Any, after: Any, updates: Sequence[tuple[int, Any]]) -> Delta:
    keep = _prefix(before, after)
    if keep == len(before) == len(after):
        return SAME
    tail = list(after[keep:])
    for spread in (True, False):
        refs = _list_refs(tail, updates, spread)
        if refs:
            return Delta("list", keep, refs=refs, spread=spread)
    return Delta("list", keep, tail)


def _prefix(before: Sequence[Any], after: Sequence[Any]) -> int:
    """Return the length of the common prefix."""
    most = min(len(before), len(after))
    if all(map(is_, before, after)):  # a fast path in C: most reducers keep the items
        return most
    pairs = zip(before, after, strict=False)
    return next((place for place, pair in enumerate(pairs) if not _are_alike(*pair)), most)


def _list_refs(tail: list[Any], updates: Sequence[tuple[int, Any]], spread: bool) -> tuple[int, ...]:
    """Return the outcomes whose concatenated updates equal the tail, or an empty tuple."""
    refs: list[int] = []
    place = 0
    for ref, update in updates:
        if place == len(tail):
            break
        if spread and type(update) not in (list, tuple):
            return ()
        items = update if spread else (update,)
        if items and _all_alike(tail[place : place + len(items)], items):
            refs.append(ref)
            place += len(items)
    return tuple(refs) if place == len(tail) else ()


def _dict_delta(before: dict[Any, Any], after: dict[Any, Any], updates: Sequence[tuple[int, Any]]) -> Delta:
    removed = tuple(key for key in before if key not in after)
    changed = {
        key: value for key, value in after.items() if key not in before or not _are_alike(before[key], value)
    }
    if not changed and not removed:
        return SAME if _same_keys(before, after) else Delta("whole", value=after)
    given = dict(updates)
    if given and all(
        type(update) is dict and PLAIN_KEYS.issuperset(map(type, update)) for update in given.values()
    ):
        merged = Delta("dict", refs=tuple(given), removed=removed)
        made = _applied_dict(before, merged, given)
        if _same_keys(made, after) and _all_alike(made.values(), after.values()):
            return merged
    delta = Delta("dict", value=changed, removed=removed)
    return delta if _same_keys(_applied_dict(before, delta, {}), after) else Delta("whole", value=after)


def _same_keys(one: dict[Any, Any], other: dict[Any, Any]) -> bool:
    """Return whether two dicts with plain keys have the same keys in the same order; 1 and True differ."""
    return list(one) == list(other) and list(map(type, one)) == list(map(type, other))


def _all_alike(some: Collection[Any], others: Collection[Any]) -> bool:
    return len(some) == len(others) and all(map(_are_alike, some, others))


def _are_alike(one: Any, other: Any) -> bool:
    """Return whether two values are the same object or have the same encoding, including the order of dicts."""
    if one is other:
        return True
    kind = type(one)
    if kind is not type(other):
        return False
    if kind in _ATOMS:
        return bool(one == other)
    try:
        return encode(one, ordered=True) == encode(other, ordered=True)
    except EncodeError:
        return False


# -- as plain data -------------------------------------------------------------------------------------------------


def plain_deltas(deltas: Mapping[str, Delta]) -> dict[str, list[Any]]:
    """Return deltas as lists of plain data and user values, which is how they are stored and digested.

    ``["same"]``, ``["whole", value]``, ``["list", keep, tail]``, ``["dict", entries, removed]``; and with references
    ``["list of", keep, refs, spread]`` and ``["dict of", refs, removed]``.
    """
    return {name: _plain(delta) for name, delta in deltas.items()}


def _plain(delta: Delta) -> list[Any]:
    match delta.kind:
        case "same":
            return ["same"]
        case "whole":
            return ["whole", delta.value]
        case "list" if delta.refs:
            return ["list of", delta.keep, list(delta.refs), delta.spread]
        case "list":
            return ["list", delta.keep, delta.value]
        case "dict" if delta.refs:
            return ["dict of", list(delta.refs), list(delta.removed)]
    return ["dict", delta.value, list(delta.removed)]


def deltas_from(plain: Any) -> Mapping[str, Delta]:
    """Return the deltas that `plain_deltas` encoded; raises ValueError for anything else."""
    if not isinstance(plain, dict):
        raise ValueError(f"expected deltas as a mapping by name, got {a(type(plain))}")
    return {name: _delta(form) for name, form in plain.items()}


def _delta(form: Any) -> Delta:
    match form:
        case ["same"]:
            return SAME
        case ["whole", value]:
            return Delta("whole", value=value)
        case ["list", int(keep), list(tail)]:
            return Delta("list", keep, tail)
        case ["list of", int(keep), list(refs), bool(spread)] if _are_numbers(refs):
            return Delta("list", keep, refs=tuple(refs), spread=spread)
        case ["dict", dict(entries), list(removed)]:
            return Delta("dict", value=entries, removed=tuple(removed))
        case ["dict of", list(refs), list(removed)] if _are_numbers(refs):
            return Delta("dict", refs=tuple(refs), removed=tuple(removed))
    raise ValueError(f"{str(form)[:60]} is not a delta")


def _are_numbers(refs: list[Any]) -> bool:
    return bool(refs) and all(type(ref) is int for ref in refs)
