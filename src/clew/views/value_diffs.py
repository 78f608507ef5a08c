"""What changed between two values, as rows: equal ones are counted, the others are listed.

Lists and tuples are compared by their longest common subsequence, dicts by key. A row is one of:

``["=", n]``                     n equal rows
``["+", value]``, ``["-", value]``  an item of a list that came or went
``["+", key, value]``, ``["-", key, value]``  an entry of a dict
``["~", key, diff, old, new]``    an entry that changed, with its own diff or None
``["…", n]``                     n more rows that are not listed

The work is bounded: equal ends are found first, and a longer middle part is shown as removed and added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from clew.error_text import encodable
from clew.runtime.log.entries.large_values import Kept
from clew.state import same
from clew.views.shown import shown

Row = list[Any]

MOST_ROWS = 60
_MOST_PAIRS = 40_000  # comparisons for one list
_ROW = 600  # bytes of a value in a row
_DEPTH = 3


def diff_of(old: Any, new: Any, *, depth: int = _DEPTH) -> list[Row] | None:
    """Return the rows that differ between two lists, tuples or dicts; None for other values."""
    if type(old) is not type(new) or isinstance(old, Kept):
        return None
    if type(old) in (list, tuple):
        return _cut(_sequence(old, new))
    if type(old) is dict and all(type(key) is str for key in (*old, *new)):
        return _cut(_entries(old, new, depth))
    return None


def grown(length: int, new: Sequence[Any]) -> list[Row]:
    """Return the rows of a list that was only appended to, and had this length before."""
    added = [_row("+", each) for each in new[length : length + MOST_ROWS]]
    more = len(new) - length - len(added)
    return [*([["=", length]] if length else []), *added, *([["…", more]] if more > 0 else [])]


def equal(one: Any, other: Any) -> bool:
    """Return whether two values are the same; values that cannot be compared are not."""
    try:
        return one is other or same(one, other)
    except Exception:  # a value of another library
        return False


def _row(sign: str, value: Any, *key: str) -> Row:
    return [sign, *key, shown(value, _ROW)[0]]


def _sequence(old: Sequence[Any], new: Sequence[Any]) -> Iterable[Row]:
    before = _common(old, new)
    after = _common(old[before:][::-1], new[before:][::-1])
    gone, came = old[before : len(old) - after], new[before : len(new) - after]
    if before:
        yield ["=", before]
    if len(gone) * len(came) > _MOST_PAIRS:
        yield from (_row("-", each) for each in gone)
        yield from (_row("+", each) for each in came)
    else:
        yield from _middle(gone, came)
    if after:
        yield ["=", after]


def _common(old: Sequence[Any], new: Sequence[Any]) -> int:
    number = 0
    for one, other in zip(old, new):
        if not equal(one, other):
            break
        number += 1
    return number


def _middle(old: Sequence[Any], new: Sequence[Any]) -> Iterable[Row]:
    """Yield the rows of the part that differs, by a longest common subsequence."""
    lengths = _lengths(old, new, equal)
    i = j = same_rows = 0
    while i < len(old) or j < len(new):
        if i < len(old) and j < len(new) and equal(old[i], new[j]):
            same_rows, i, j = same_rows + 1, i + 1, j + 1
            continue
        if same_rows:
            yield ["=", same_rows]
            same_rows = 0
        if j == len(new) or (i < len(old) and lengths[i + 1][j] >= lengths[i][j + 1]):
            yield _row("-", old[i])
            i += 1
        else:
            yield _row("+", new[j])
            j += 1
    if same_rows:
        yield ["=", same_rows]


def _lengths(old: Sequence[Any], new: Sequence[Any], alike: Callable[[Any, Any], bool]) -> list[list[int]]:
    """Return the lengths of the longest common subsequences of all pairs of endings."""
    table = [[0] * (len(new) + 1) for _ in range(len(old) + 1)]
    for i in range(len(old) - 1, -1, -1):
        for j in range(len(new) - 1, -1, -1):
            row = table[i + 1]
            table[i][j] = row[j + 1] + 1 if alike(old[i], new[j]) else max(row[j], table[i][j + 1])
    return table


def _entries(old: dict[str, Any], new: dict[str, Any], depth: int) -> Iterable[Row]:
    same_rows = 0
    for key, value in old.items():
        if key not in new:
            yield _row("-", value, encodable(key))
        elif equal(value, new[key]):
            same_rows += 1
        else:
            inner = diff_of(value, new[key], depth=depth - 1) if depth else None
            yield ["~", encodable(key), inner, shown(value, _ROW)[0], shown(new[key], _ROW)[0]]
    yield from (_row("+", value, encodable(key)) for key, value in new.items() if key not in old)
    if same_rows:
        yield ["=", same_rows]


def _cut(rows: Iterable[Row]) -> list[Row]:
    found: list[Row] = []
    more = 0
    for row in rows:
        if len(found) < MOST_ROWS:
            found.append(row)
        else:
            more += row[1] if row[0] == "=" else 1
    return [*found, ["…", more]] if more else found


def change(name: str, old: Any, new: Any, limit: int, *, missing: Any) -> dict[str, Any]:
    """Return what happened to a value: `missing` stands for one that does not exist."""
    found: dict[str, Any] = {"name": encodable(name), "kind": _kinds(old, new, missing)}
    is_cut = False
    for key, value in (("old", old), ("new", new)):
        if value is not missing:
            found[key], cut = shown(value, limit)
            is_cut = is_cut or cut
    is_both = old is not missing and new is not missing
    return {**found, "cut": is_cut, "diff": diff_of(old, new) if is_both else None}


def _kinds(old: Any, new: Any, missing: Any) -> str:
    names = [kind_of(each) for each in (old, new) if each is not missing]
    return names[0] if len(set(names)) == 1 else " → ".join(names)


def kind_of(value: Any) -> str:
    """Return what a value is, in words: ``list of 6``, ``text of 120 characters``."""
    kind = type(value)
    if kind in (list, tuple, set, frozenset):
        return f"{kind.__name__} of {len(value)}"
    if kind is dict:
        return f"mapping of {len(value)}"
    if kind is str:
        return f"text of {len(value)} characters"
    if kind is Kept:
        return "large value"
    return "nothing" if value is None else kind.__name__
