"""Deltas: what a custom reducer made of a value, recorded so that nobody has to call the reducer again.

A step stores its updates as given. For a value that the library's own reducers made (`clew.state.reducers.is_own`) that
is enough: applying them again gives the same. What a custom reducer makes is not a function of the log: it may generate
ids, read a clock, or be another one tomorrow. So the commit, which is the only place that calls it, records one `Delta`
from the value before the step to the value after it. Chains, resume, fork and replay apply that.

A delta is one of:

=========  ============================================================================================================
``same``   the value is what it was
``list``   the first `keep` items of the list (or tuple), then the items of `value`
``dict``   the entries of the dict, without the keys `removed`, with the entries `value` set in order
``whole``  `value`
=========  ============================================================================================================

Where `value` is what outcomes of the step gave for this name, it is not repeated: `refs` are the indexes of these
outcomes in the step, and `value` is None. For a ``list`` their updates are lists that are joined or, without `spread`,
items of their own. For a ``dict`` they are dicts that are merged. So what a step takes grows with what is new in it.

Rules:

- Applying a delta gives the value that the reducer returned, with the order of a dict's keys. Where a delta of a dict
  would give another order, the whole is recorded.
- Items are alike if they are the same object or are encoded alike. Identity alone would depend on whether a value came
  from memory or from a store, and so would the digests.
- Lists, tuples and dicts are compared by their exact types; keys of a user's class are never compared. Sets, text and
  numbers are ``same`` or ``whole``. Any other value is ``whole``: an object that the reducer returned may have changed.
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

Kind = Literal["same", "list", "dict", "whole"]


class Delta(msgspec.Struct, frozen=True):
    """How the value after a step follows from the value before it."""

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
    """Return the delta between two values; `updates` are those of the step, each with its outcome's index."""
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
    """Return the value after a step; `updates` are those for this value, by outcome. `ValueError` if it misfits."""
    if delta.kind == "same":
        return before
    if delta.kind == "whole":
        return delta.value
    try:
        if delta.kind == "list":
            return _applied_list(before, delta, updates)
        return _applied_dict(before, delta, updates)
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"a {delta.kind} delta does not fit a {type(before).__name__}") from error


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
            f"a delta keeps {delta.keep} items of a {type(before).__name__} that does not have them"
        )
    made = [*before[: delta.keep], *tail_of(delta, updates)]
    return made if type(before) is list else tuple(made)


def _applied_dict(before: Any, delta: Delta, updates: Mapping[int, Any]) -> Any:
    if type(before) is not dict:
        raise ValueError(f"a dict delta does not fit a {type(before).__name__}")
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
    """The number of items at the beginning of both that are alike."""
    most = min(len(before), len(after))
    if all(map(is_, before, after)):  # at the speed of C: most reducers keep the items
        return most
    pairs = zip(before, after, strict=False)
    return next((place for place, pair in enumerate(pairs) if not _are_alike(*pair)), most)


def _list_refs(tail: list[Any], updates: Sequence[tuple[int, Any]], spread: bool) -> tuple[int, ...]:
    """The outcomes whose updates, one after the other, are the tail."""
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
    """Whether two dicts of plain keys have the same keys in the same order: 1 and True are not the same."""
    return list(one) == list(other) and list(map(type, one)) == list(map(type, other))


def _all_alike(some: Collection[Any], others: Collection[Any]) -> bool:
    return len(some) == len(others) and all(map(_are_alike, some, others))


def _are_alike(one: Any, other: Any) -> bool:
    """Whether two values are the same object, or encoded alike, with the order of dicts."""
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
    """Return deltas as lists that hold nothing but plain data and the user's values: how they are stored and digested.

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
    """Return the deltas that `plain_deltas` took apart; `ValueError` for anything else."""
    if not isinstance(plain, dict):
        raise ValueError(f"deltas are a mapping by name, not a {type(plain).__name__}")
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
