"""Convert the rows of any database to columns of a few types.

Drivers return many types: Decimal, UUID, memoryview, a string in a column of numbers. Here a column is
boolean, 64-bit integer, double, decimal, date, timestamp or text. A column with mixed types becomes text, and
so does a column of integers that exceed every numeric type; no value is lost.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from clew_nl2sql.sources.protocol import QueryResult

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]


def to_table(result: QueryResult, *, ordered: bool) -> pa.Table:
    """Return a result as an Arrow table; sort the rows unless they are `ordered`."""
    import pyarrow as pa

    rows = list(result.rows)
    columns = [_column([row[place] for row in rows]) for place in range(len(result.columns))]
    table = pa.table(
        {name: pa.array(values, type=kind) for name, (kind, values) in zip(result.columns, columns)}
    )
    if ordered or table.num_rows < 2:
        return table
    order = sorted(range(table.num_rows), key=lambda row: [_key(values[row]) for _, values in columns])
    return table.take(pa.array(order))


def _column(values: Sequence[Any]) -> tuple[pa.DataType, list[Any]]:
    """Return the first type that holds every value, and the values in it."""
    import pyarrow as pa

    kinds = {type(value) for value in values if value is not None}
    scale = _scale(values) if kinds <= {int, Decimal} else None
    types: tuple[tuple[bool, pa.DataType, Callable[[Any], Any]], ...] = (
        (not kinds, pa.string(), str),
        (kinds == {bool}, pa.bool_(), bool),
        (kinds == {int} and _is_int64(values), pa.int64(), int),
        (kinds <= {int, float} and kinds != {int}, pa.float64(), float),
        (scale is not None, pa.decimal128(38, scale or 0), Decimal),
        (kinds <= {int, float, Decimal} and kinds != {int}, pa.float64(), float),
        (kinds == {date}, pa.date32(), _same),
        (kinds <= {date, datetime}, pa.timestamp("us"), _moment),
        (True, pa.string(), _text),
    )
    kind, convert = next((kind, convert) for holds, kind, convert in types if holds)
    return kind, [None if value is None else convert(value) for value in values]


def _is_int64(values: Sequence[Any]) -> bool:
    return all(value is None or -(2**63) <= value < 2**63 for value in values)


def _same(value: Any) -> Any:
    return value


def _scale(values: Sequence[Any]) -> int | None:
    """Return the number of decimal places that all values need; None if they exceed a decimal of 38 digits."""
    scale = whole = 0
    for value in values:
        if value is None:
            continue
        number = Decimal(value)
        if not number.is_finite():
            return None
        _, digits, exponent = number.as_tuple()
        scale = max(scale, -int(exponent))
        whole = max(whole, len(digits) + int(exponent))
    return scale if scale <= 18 and whole + scale <= 38 else None


def _moment(value: date | datetime) -> datetime:
    if not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day)
    return value.replace(tzinfo=None)  # drivers return a timestamp with a time zone in that of the source


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    if isinstance(value, list | dict | tuple):
        return json.dumps(value, default=str, sort_keys=True)
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _key(value: Any) -> tuple[bool, Any]:
    """Return a sort key: None comes first, and NaN, which does not compare with numbers, comes last."""
    if value is None:
        return False, 0
    if isinstance(value, float) and value != value:
        return True, float("inf")
    return True, value
