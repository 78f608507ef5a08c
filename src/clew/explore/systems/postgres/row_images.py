"""Row images and the values in them.

An image is the text that PostgreSQL itself writes for a row, `(1,"two words",)`: the one form that keeps everything,
the text of a json, the bounds of an array, −0, and a null in a json beside the NULL of SQL. Images are compared and
stored as they are. They are taken apart only to leave columns out and to show rows to people and invariants.

Values are shown as Python's own where a type has one: bool, int, float, Decimal, str, bytes, UUID, date, time,
datetime, lists, and what json holds. Everything else, and a value that Python cannot hold (the day `infinity`, an
array that does not start at 1), is shown as PostgreSQL writes it. All of them have a canonical encoding.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

_FIELD = re.compile(r'("[^"]*(?:""[^"]*)*"|[^,"]*),')
_ITEM = re.compile(r'([{}])|"((?:[^"\\]|\\.)*)"|([^,{}"]+)', re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)

Load = Callable[[str], Any]


def fields(image: str) -> list[str]:
    """The fields of an image as they are written in it, quotes and all."""
    return _FIELD.findall(image[1:-1] + ",")


def without(image: str, kept: Sequence[int]) -> str:
    """The image that the row would have without some columns; `kept` are the positions that stay."""
    written = fields(image)
    return "(" + ",".join([written[position] for position in kept]) + ")"


def text(field: str) -> str | None:
    """The text of a written field; None for NULL."""
    if not field:
        return None
    if field[0] != '"':
        return field
    return field[1:-1].replace('""', '"').replace("\\\\", "\\")


def values(image: str, loads: Sequence[Load]) -> list[Any]:
    """The values of an image, one for each column."""
    if not loads:
        return []
    return [_value(text(field), load) for field, load in zip(fields(image), loads)]


def _value(written: str | None, load: Load) -> Any:
    if written is None:
        return None
    try:
        return load(written)
    except (ValueError, ArithmeticError, RecursionError):
        return written


def _bool(written: str) -> bool:
    return written == "t"


def _bytes(written: str) -> bytes:
    return bytes.fromhex(written[2:])


def _list(load: Load) -> Load:
    """Reads an array whose items one can read; nested ones too."""

    def read(written: str) -> list[Any]:
        if written[:1] != "{":  # "[0:1]={…}": lists of Python start at one place only
            raise ValueError("an array with bounds of its own")
        stack: list[list[Any]] = [[]]
        for brace, quoted, bare in _ITEM.findall(written):
            if brace == "{":
                stack.append([])
            elif brace:
                done = stack.pop()
                stack[-1].append(done)
            elif bare:
                stack[-1].append(None if bare.upper() == "NULL" else load(bare))
            else:
                stack[-1].append(load(_ESCAPED.sub(r"\1", quoted)))
        ((items,),) = stack
        return list(items)

    return read


# By the oid of a type and of its arrays; PostgreSQL never changes those of its own types.
_SCALARS: tuple[tuple[int, int, Load], ...] = (
    (16, 1000, _bool),
    (17, 1001, _bytes),
    (20, 1016, int),
    (21, 1005, int),
    (23, 1007, int),
    (26, 1028, int),  # oid
    (25, 1009, str),
    (1042, 1014, str),
    (1043, 1015, str),
    (114, 199, json.loads),
    (3802, 3807, json.loads),
    (700, 1021, float),
    (701, 1022, float),
    (1700, 1231, Decimal),
    (1082, 1182, date.fromisoformat),
    (1083, 1183, time.fromisoformat),
    (1266, 1270, time.fromisoformat),
    (1114, 1115, datetime.fromisoformat),
    (1184, 1185, datetime.fromisoformat),
    (2950, 2951, UUID),
)
_LOADS: dict[int, Load] = {}
for _scalar, _array, _load in _SCALARS:
    _LOADS |= {_scalar: _load, _array: _list(_load)}

# Types whose values can be changed in place; whoever hands out a row twice copies them.
MUTABLE = frozenset({114, 3802} | {array for _, array, _ in _SCALARS})
# Types whose values sort as people expect: whole numbers, text, days and moments, UUIDs, bytes.
ORDERED = frozenset({17, 20, 21, 23, 25, 26, 1043, 1082, 1114, 1184, 2950})


def loader(type_oid: int) -> Load:
    """What reads the text of a type."""
    return _LOADS.get(type_oid, str)
