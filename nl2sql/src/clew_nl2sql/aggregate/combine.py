"""Combine results: standalone, compare, join, union.

Each operation is one SELECT over the inputs. A join without keys searches for columns with matching values
(`clew_nl2sql.aggregate.join_keys`). Results that cannot be combined as planned are listed one below the
other, with a note, so that nothing is lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import compress
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from clew_nl2sql.aggregate.join_keys import find_key
from clew_nl2sql.schemas import ColumnRef, CombineGroup

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

ORDER = "__order"  # position of a row in its own result


@dataclass(frozen=True)
class ResultInput:
    """One result: its name in DuckDB, its source and its content."""

    name: str
    source: str
    table: pa.Table
    columns: tuple[ColumnRef, ...]


def combine(inputs: Sequence[ResultInput], group: CombineGroup) -> tuple[Any, list[str]]:
    """Return the query that combines the inputs, and notes for the user."""
    compares = group.operation == "compare"
    if len(inputs) == 1:
        return _alone(inputs[0]), []
    if group.operation == "union":
        return _union(inputs)
    if compares and _are_single_values(inputs):
        return _side_by_side(inputs)
    keys = [find_key(inputs[0], other, group) for other in inputs[1:]]
    if None in keys:
        lone = compress(inputs[1:], [key is None for key in keys])
        apart = ", ".join(one.source for one in lone)
        note = f"{apart} shares no values with {inputs[0].source}: shown one below the other"
        return _union(inputs)[0], [note]
    how = "full" if compares else group.how
    return _join(inputs, list(filter(None, keys)), how, difference=compares)


def _alone(one: ResultInput) -> Any:
    names = [exp.column(name, quoted=True) for name in one.table.column_names]
    return exp.select(*names).from_(one.name).order_by(exp.column(ORDER, quoted=True))


# -- join ------------------------------------------------------------------------------------------------------


def _join(
    inputs: Sequence[ResultInput], keys: Sequence[tuple[str, str]], how: str, *, difference: bool
) -> tuple[Any, list[str]]:
    first, others = inputs[0], list(zip(inputs[1:], keys))
    # In a full join, a row may start in any of the inputs.
    merges = how == "full" and len({left for left, _ in keys}) == 1
    sides = [_column(first, keys[0][0]), *(_column(other, right) for other, (_, right) in others)]
    merged = {(first.name, keys[0][0]): _first_known(sides)} if merges else {}
    labels = _labels(inputs, keys)
    projections: list[Any] = []
    for one, column in _visible(inputs, keys):
        it = merged.get((one.name, column.name), _column(one, column.name))
        projections.append(_labelled(_counted(it, column), labels[one.name, column.name]))
    projections += _difference(inputs) if difference else []
    select = exp.select(*projections).from_(first.name)
    for number, (other, (left, _)) in enumerate(others, 1):
        here = _first_known(sides[:number]) if merges else _column(first, left)
        on = exp.EQ(this=here, expression=sides[number].copy())
        select = select.join(other.name, on=on, join_type=how)
    notes = [f"joined {first.source}.{left} with {other.source}.{right}" for other, (left, right) in others]
    return select.order_by(*(_ordered(_column(one, ORDER)) for one in inputs)), notes


def _first_known(sides: Sequence[Any]) -> Any:
    return exp.Coalesce(this=sides[0].copy(), expressions=[side.copy() for side in sides[1:]])


def _column(one: ResultInput, name: str) -> Any:
    return exp.column(name, table=one.name, quoted=True)


def _counted(it: Any, column: ColumnRef) -> Any:
    # An entity that is missing from the groups of a count has a count of 0.
    return exp.Coalesce(this=it, expressions=[exp.Literal.number(0)]) if column.role == "count" else it


def _labelled(it: Any, label: str) -> Any:
    return exp.alias_(it, label, quoted=True)


def _ordered(it: Any) -> Any:
    return exp.Ordered(this=it, desc=False, nulls_first=False)


def _visible(
    inputs: Sequence[ResultInput], keys: Sequence[tuple[str, str]]
) -> list[tuple[ResultInput, ColumnRef]]:
    """Return the columns of a join; the second column of a key repeats the first."""
    dropped = {(other.name, right) for other, (_, right) in zip(inputs[1:], keys)}
    return [(one, c) for one in inputs for c in one.columns if (one.name, c.name) not in dropped]


def _labels(inputs: Sequence[ResultInput], keys: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Return a label for each visible column; the source is prefixed to computed columns and repeated names."""
    shown = _visible(inputs, keys)
    names = [column.name.lower() for _, column in shown]
    labels: dict[tuple[str, str], str] = {}
    for one, column in shown:
        is_key = one is inputs[0] and any(column.name == left for left, _ in keys)
        plain = is_key or (column.role == "attribute" and names.count(column.name.lower()) == 1)
        label = column.name if plain else f"{one.source}_{column.name}"
        while label.lower() in {other.lower() for other in labels.values()}:
            label += "_2"
        labels[one.name, column.name] = label
    return labels


# -- compare ---------------------------------------------------------------------------------------------------


def _are_single_values(inputs: Sequence[ResultInput]) -> bool:
    return all(one.table.num_rows == 1 == len(one.columns) for one in inputs)


def _side_by_side(inputs: Sequence[ResultInput]) -> tuple[Any, list[str]]:
    """Select single values in one row, and their difference if there are two."""
    labels = _labels(inputs, ())
    columns = [(one, one.columns[0].name) for one in inputs]
    projections = [_labelled(_column(one, name), labels[one.name, name]) for one, name in columns]
    projections += _difference(inputs)
    select = exp.select(*projections).from_(inputs[0].name)
    for other in inputs[1:]:
        select = select.join(other.name, join_type="cross")
    return select, []


def _difference(inputs: Sequence[ResultInput]) -> list[Any]:
    numbers = [[c for c in one.columns if c.role != "attribute" and _is_number(c)] for one in inputs]
    if len(inputs) != 2 or any(len(found) != 1 for found in numbers):
        return []
    left, right = (_counted(_column(one, found[0].name), found[0]) for one, found in zip(inputs, numbers))
    return [_labelled(exp.Sub(this=left, expression=right), "difference")]


def _is_number(column: ColumnRef) -> bool:
    return column.type.startswith(("int", "double", "float", "decimal"))


# -- union -----------------------------------------------------------------------------------------------------


def _union(inputs: Sequence[ResultInput]) -> tuple[Any, list[str]]:
    """List the results one below the other, with the source in front: by position if they match, else by name."""
    alike = len({len(one.columns) for one in inputs}) == 1
    names = [c.name for c in inputs[0].columns] if alike else _all_names(inputs)
    rows = [_matching(one, names, alike) for one in inputs]
    types = [_common_type(columns) for columns in zip(*rows)]
    labels = [_free(name) for name in names]
    parts = [
        exp.select(
            _labelled(exp.Literal.string(one.source), "source"),
            *map(_labelled, map(_cast, columns, types), labels),
            _labelled(exp.Literal.number(number), "__part"),
            exp.column(ORDER, quoted=True),
        ).from_(one.name)
        for number, (one, columns) in enumerate(zip(inputs, rows))
    ]
    whole = reduce(_below, parts)
    shown = [exp.column("source"), *(exp.column(label, quoted=True) for label in labels)]
    ordered = [exp.column("__part", quoted=True), exp.column(ORDER, quoted=True)]
    return exp.select(*shown).from_(whole.subquery("together")).order_by(*ordered), []


def _below(upper: Any, lower: Any) -> Any:
    return upper.union(lower, distinct=False)


def _cast(column: ColumnRef | None, kind: str) -> Any:
    it = exp.column(column.name, quoted=True) if column else exp.null()
    return exp.cast(it, kind) if kind else it


def _free(name: str) -> str:
    return f"{name}_2" if name.lower() == "source" else name


def _all_names(inputs: Sequence[ResultInput]) -> list[str]:
    found: dict[str, str] = {}
    for one in inputs:
        for column in one.columns:
            found.setdefault(column.name.lower(), column.name)
    return list(found.values())


def _matching(one: ResultInput, names: Sequence[str], alike: bool) -> list[ColumnRef | None]:
    """Return the columns of an input for some names: all of them, if all inputs have as many, or by name."""
    own = {column.name.lower(): column for column in one.columns}
    return [*one.columns] if alike else [own.get(name.lower()) for name in names]


def _common_type(columns: Sequence[ColumnRef | None]) -> str:
    """Return an empty string if the types agree or are numeric; otherwise text, which holds every value."""
    given = {column.type for column in columns if column and column.type}
    if len(given) <= 1 or all(kind.startswith(("int", "double", "decimal")) for kind in given):
        return ""
    return "text"
