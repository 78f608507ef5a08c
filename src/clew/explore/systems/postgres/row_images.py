"""Row images, and the values in them.

An image is the text that PostgreSQL writes for a row, such as `(1,"two words",)`. Only this form preserves everything:
the text of a json, the bounds of an array, -0, and the difference between a json null and an SQL NULL. Images are
compared and stored as text. They are parsed only to remove columns, and to show rows in observations.

Values are shown as Python objects where a type has an equivalent: bool, int, float, Decimal, str, bytes, UUID, date,
time, datetime, lists and json. Other values, and those that Python cannot represent (the date `infinity`, an array that
does not start at 1), are shown as PostgreSQL writes them. All of them have a canonical encoding.
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
    """Return the fields of an image, including their quotes."""
    return _FIELD.findall(image[1:-1] + ",")


def without(image: str, kept: Sequence[int]) -> str:
    """Return the image with only the columns at the positions `kept`."""
    written = fields(image)
    return "(" + ",".join([written[position] for position in kept]) + ")"


def text(field: str) -> str | None:
    """Return the text of a field; None for NULL."""
    if not field:
        return None
    if field[0] != '"':
        return field
    return field[1:-1].replace('""', '"').replace("\\\\", "\\")


def values(image: str, loads: Sequence[Load]) -> list[Any]:
    """Return the values of an image, one for each column."""
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


def _list(load: Load) -> Load:
    """Return a function that reads an array, also a nested one."""

    def read(written: str) -> list[Any]:
        if written[:1] != "{":  # "[0:1]={...}": the bounds of a Python list are fixed
            raise ValueError("an array with explicit bounds")
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


# The oid of a type and of its array type. PostgreSQL never changes the oids of built-in types.
_SCALARS: tuple[tuple[int, int, Load], ...] = (
    (16, 1000, lambda written: written == "t"),
    (17, 1001, lambda written: bytes.fromhex(written[2:])),
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

# Types with mutable values; a row with one of them is copied before it is returned.
MUTABLE = frozenset({114, 3802} | {array for _, array, _ in _SCALARS})
# Types that sort in Python as in PostgreSQL.
ORDERED = frozenset({17, 20, 21, 23, 25, 26, 1043, 1082, 1114, 1184, 2950})


def loader(type_oid: int) -> Load:
    """Return the function that reads the text of a type."""
    return _LOADS.get(type_oid, str)
