"""Queries that no question asks for, in any words. They are not candidates.

- The sum or average of a key, of a reference or of a date.
- A number, a flag or a word compared with a date.
- A month of any year: "in April" has two readings.
- The order of a single row, such as a count without groups.
- Groups of one row: by a column that identifies the rows of the only table, or by the key of a table whose rows the
  join does not repeat.
- Only values that the question names: the number of "invoice 0020123".
- Groups of more rows than any table has.
- A column that is missing, and has a value at the same time.
- A count, sum or average of all rows next to a column of one of them.
- Groups by something that is neither shown nor counted, or in the order of a column of any of their rows.
- Different ones of sorted groups, which differ anyway.
- The number of values of a flag, which has two.
- Rows whose reference does not occur among all the rows that it refers to.
"""

from __future__ import annotations

import re

from clew_nl2sql.planner.building.joins import multiplies
from clew_nl2sql.planner.building.render import needed_tables, tree_of
from clew_nl2sql.planner.linking.predicates import flag_words
from clew_nl2sql.planner.linking.schema_index import SchemaColumn, SchemaIndex
from clew_nl2sql.planner.query import Condition, Query, SelectItem

_MONTH = re.compile(r"%-\d\d-%")
_DATE = re.compile(r"\d{4}-\d{1,2}-\d{1,2}")


def makes_sense(query: Query, schema: SchemaIndex) -> bool:
    """Return whether a question could ask for a query."""
    return not any(is_nonsense(query, schema) for is_nonsense in _NONSENSE)


def _adds_up(query: Query, schema: SchemaIndex) -> bool:
    items = [*query.select, *(item for item, _ in query.order), *(c.item for c in query.having)]
    return any(_adds_up_keys(item, schema) for item in items)


def _misreads_dates(query: Query, schema: SchemaIndex) -> bool:
    return any(_compares_with_date(c, schema) or _is_month_of_any_year(c) for c in query.where)


def _adds_up_keys(item: SelectItem, schema: SchemaIndex) -> bool:
    if item.agg not in ("sum", "avg") or item.column is None:
        return False
    column = schema.columns[item.column]
    return column.is_id or column.kind == "date"


def _compares_with_date(condition: Condition, schema: SchemaIndex) -> bool:
    if condition.item.column is None or condition.item.agg:
        return False
    given = condition.value if type(condition.value) is tuple else (condition.value,)
    dated = any(isinstance(one, str) and _DATE.match(one) for one in given)
    return dated and not _holds_dates(schema.columns[condition.item.column])


def _holds_dates(column: SchemaColumn) -> bool:
    if column.kind != "text":
        return column.kind == "date"
    texts = [value for value in column.source.values if isinstance(value, str)]
    return not texts or any(value[:4].isdigit() for value in texts)


def _is_month_of_any_year(condition: Condition) -> bool:
    return condition.op == "like" and bool(_MONTH.fullmatch(str(condition.value)))


def _sorts_single_row(query: Query, _: SchemaIndex) -> bool:
    return bool(query.order) and not query.group and all(item.agg for item in query.select)


def _groups_single_rows(query: Query, schema: SchemaIndex) -> bool:
    groups = [schema.columns[column] for column in query.group]
    if not any(column.identifies for column in groups):
        return False
    if len(needed_tables(query, schema)) == 1:
        return True
    key = groups[0].id == schema.tables[groups[0].table].key
    tree = tree_of(query, schema) if key and len(groups) == 1 and query.picks_by_count else None
    return tree is not None and not multiplies(schema, tree, groups[0].table)


def _repeats_question(query: Query, _: SchemaIndex) -> bool:
    given = {c.item.column for c in query.where if c.op == "=" and isinstance(c.value, str) and not c.either}
    return not query.compound and all(item.column in given and not item.agg for item in query.select)


def _counts_beyond_rows(query: Query, schema: SchemaIndex) -> bool:
    """Return whether groups must have more rows than there are."""
    rows = [schema.tables[table].rows for table in needed_tables(query, schema)] if query.having else []
    most = max((count for count in rows if count is not None), default=None)
    return most is not None and any(
        c.item.agg == "count" and c.op in (">", ">=") and isinstance(c.value, int) and c.value > most
        for c in query.having
    )


def _is_missing_and_known(query: Query, _: SchemaIndex) -> bool:
    """Return whether a column must be NULL and something else, in one row or in two rows of an intersection."""
    together = [*query.where]
    if query.compound is not None and query.compound[0] == "intersect":
        together += query.compound[1].where
    missing = {c.item for c in together if c.op == "is"}
    return not any(c.either for c in together) and any(
        c.item in missing and c.op != "is" and not isinstance(c.value, Query) for c in together
    )


def _shows_one_of_all(query: Query, _: SchemaIndex) -> bool:
    """Return whether a figure over all rows stands next to a column of any of them."""
    figures = any(item.agg in ("count", "sum", "avg") for item in query.select)
    return figures and not query.group and any(not item.agg for item in query.select)


def _groups_for_nothing(query: Query, _: SchemaIndex) -> bool:
    """Return whether rows are grouped, without a figure, by a column that is not shown."""
    items = [*query.select, *(item for item, _ in query.order), *(c.item for c in query.having)]
    shown = {item.column for item in query.select}
    return bool(query.group) and not any(i.agg for i in items) and not shown.issuperset(query.group)


def _sorts_by_any_row(query: Query, schema: SchemaIndex) -> bool:
    """Return whether groups are sorted by a column that has many values for each of them."""
    groups = [schema.columns[column] for column in query.group]
    tables = {column.table for column in groups}
    sorted_by = [schema.columns[i.column] for i, _ in query.order if i.column is not None and not i.agg]
    many = {schema.columns[a].table for a, b in schema.edges if schema.columns[b].table in tables}
    if any(column.identifies or column.unique for column in groups):
        many -= tables
    else:
        many |= tables
    return bool(groups) and any(c.table in many and c.id not in query.group for c in sorted_by)


def _excludes_all(query: Query, schema: SchemaIndex) -> bool:
    """Return whether a reference must be none of all the keys that it refers to."""
    return any(
        c.op == "not in"
        and isinstance(c.value, Query)
        and not c.value.where
        and (c.item.column, c.value.select[0].column) in schema.edges
        for c in query.where
    )


def _sorts_different_groups(query: Query, _: SchemaIndex) -> bool:
    return query.distinct and bool(query.order) and bool(query.group)


def _counts_flag(query: Query, schema: SchemaIndex) -> bool:
    """Return whether the values of a flag are counted: "how many warranty jobs" are the jobs that have it."""
    items = [*query.select, *(item for item, _ in query.order), *(c.item for c in query.having)]
    counted = [schema.columns[i.column] for i in items if i.agg == "count" and i.column is not None]
    return any(column.kind == "boolean" or flag_words(column, schema) for column in counted)


_NONSENSE = (
    _adds_up, _misreads_dates, _sorts_single_row, _groups_single_rows, _repeats_question, _counts_beyond_rows,
    _is_missing_and_known, _shows_one_of_all, _groups_for_nothing, _sorts_by_any_row, _excludes_all,
    _sorts_different_groups, _counts_flag,
)  # fmt: skip
