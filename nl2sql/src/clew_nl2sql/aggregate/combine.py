"""Combine results: standalone, compare, join, union.

Each operation is one SELECT over the inputs. A join without keys searches for columns with matching values
(`clew_nl2sql.aggregate.join_keys`). Results that cannot be combined as planned are listed one below the
other, with a note, so that nothing is lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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
    if len(inputs) == 1:
        only = inputs[0]
        names = [exp.column(name, quoted=True) for name in only.table.column_names]
        return exp.select(*names).from_(only.name).order_by(exp.column(ORDER, quoted=True)), []
    if group.operation == "union":
        return _union(inputs)
    if group.operation == "compare" and all(one.table.num_rows == 1 == len(one.columns) for one in inputs):
        return _side_by_side(inputs)
    how = "full" if group.operation == "compare" else group.how
    keys = [find_key(inputs[0], other, group) for other in inputs[1:]]
    if any(key is None for key in keys):
        select, notes = _union(inputs)
        lone = ", ".join(other.source for other, key in zip(inputs[1:], keys) if key is None)
        return select, [*notes, f"{lone} shares no values with {inputs[0].source}: shown one below the other"]
    return _join(inputs, [key for key in keys if key], how, difference=group.operation == "compare")


# -- join ------------------------------------------------------------------------------------------------------


def _join(
    inputs: Sequence[ResultInput], keys: Sequence[tuple[str, str]], how: str, *, difference: bool
) -> tuple[Any, list[str]]:
    first = inputs[0]
    labels = _labels(inputs, keys)
    shared = keys[0][0] if len({left for left, _ in keys}) == 1 else None
    projections: list[Any] = []
    for column in first.columns:
        it = _column(first, column.name)
        if column.name == shared and how == "full":
            others = [_column(other, right) for other, (_, right) in zip(inputs[1:], keys)]
            it = exp.Coalesce(this=it, expressions=others)
        projections.append(_labelled(_counted(it, column), labels[first.name, column.name]))
    for other, (_, right) in zip(inputs[1:], keys):
        for column in other.columns:
            if column.name != right:
                it = _counted(_column(other, column.name), column)
                projections.append(_labelled(it, labels[other.name, column.name]))
    if difference:
        projections += _difference(inputs)
    select = exp.select(*projections).from_(first.name)
    known: list[Any] = [_column(first, keys[0][0])]
    for other, (left, right) in zip(inputs[1:], keys):
        # In a full join, a row may start in any of the earlier inputs.
        here = (
            _column(first, left)
            if how != "full" or shared is None
            else exp.Coalesce(this=known[0], expressions=known[1:])
        )
        on = exp.EQ(this=here.copy(), expression=_column(other, right))
        select = select.join(other.name, on=on, join_type=how)
        known.append(_column(other, right))
    order = [_ordered(_column(one, ORDER)) for one in inputs]
    notes = [
        f"joined {first.source}.{left} with {other.source}.{right}"
        for other, (left, right) in zip(inputs[1:], keys)
    ]
    return select.order_by(*order), notes


def _column(one: ResultInput, name: str) -> Any:
    return exp.column(name, table=one.name, quoted=True)


def _counted(it: Any, column: ColumnRef) -> Any:
    # An entity that is missing from the groups of a count has a count of 0.
    return exp.Coalesce(this=it, expressions=[exp.Literal.number(0)]) if column.role == "count" else it


def _labelled(it: Any, label: str) -> Any:
    return exp.alias_(it, label, quoted=True)


def _ordered(it: Any) -> Any:
    return exp.Ordered(this=it, desc=False, nulls_first=False)


def _labels(inputs: Sequence[ResultInput], keys: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Return a label for each visible column; the source is prefixed to computed columns and repeated names."""
    dropped = {(other.name, right) for other, (_, right) in zip(inputs[1:], keys)}
    shown = [
        (one, column) for one in inputs for column in one.columns if (one.name, column.name) not in dropped
    ]
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
    """List the results one below the other, with the source in front: by position if they match, else by
    name.
    """
    alike = len({len(one.columns) for one in inputs}) == 1
    names = [c.name for c in inputs[0].columns] if alike else _all_names(inputs)
    types = [
        _common_type([_type_at(one, place, name, alike) for one in inputs])
        for place, name in enumerate(names)
    ]
    parts: list[exp.Select] = []
    for number, one in enumerate(inputs):
        own = {c.name.lower(): c.name for c in one.columns}
        projections: list[Any] = [_labelled(exp.Literal.string(one.source), "source")]
        for place, name in enumerate(names):
            found = one.columns[place].name if alike else own.get(name.lower())
            it: Any = exp.column(found, quoted=True) if found else exp.null()
            projections.append(_labelled(exp.cast(it, types[place]) if types[place] else it, _free(name)))
        projections.append(_labelled(exp.Literal.number(number), "__part"))
        projections.append(exp.column(ORDER, quoted=True))
        parts.append(exp.select(*projections).from_(one.name))
    whole: Any = parts[0]
    for part in parts[1:]:
        whole = whole.union(part, distinct=False)
    shown = [exp.column("source"), *(exp.column(_free(name), quoted=True) for name in names)]
    ordered = [exp.column("__part", quoted=True), exp.column(ORDER, quoted=True)]
    return exp.select(*shown).from_(whole.subquery("together")).order_by(*ordered), []


def _free(name: str) -> str:
    return f"{name}_2" if name.lower() == "source" else name


def _all_names(inputs: Sequence[ResultInput]) -> list[str]:
    found: dict[str, str] = {}
    for one in inputs:
        for column in one.columns:
            found.setdefault(column.name.lower(), column.name)
    return list(found.values())


def _type_at(one: ResultInput, place: int, name: str, alike: bool) -> str:
    if alike:
        return one.columns[place].type
    return next((c.type for c in one.columns if c.name.lower() == name.lower()), "")


def _common_type(types: Sequence[str]) -> str:
    """Return an empty string if the types agree or are numeric; otherwise text, which holds every value."""
    given = {kind for kind in types if kind}
    if len(given) <= 1 or all(kind.startswith(("int", "double", "decimal")) for kind in given):
        return ""
    return "text"
