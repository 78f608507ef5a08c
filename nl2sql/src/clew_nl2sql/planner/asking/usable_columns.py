"""What the readings next to a candidate have in common: the columns that they may use, and the words that are said."""

from __future__ import annotations

from clew_nl2sql.planner.linking.parsed_question import ParsedQuestion
from clew_nl2sql.planner.linking.predicates import flag_words
from clew_nl2sql.planner.linking.schema_index import SchemaColumn, SchemaIndex
from clew_nl2sql.planner.query import Condition, Query, SelectItem
from clew_nl2sql.planner.words.inflection import stem
from clew_nl2sql.planner.words.lexicon import IDENTIFIERS, word_set

COUNT = SelectItem(None, "count")
_BIRTHS = word_set("birth born dob birthdate birthday")


def columns_of_tables(schema: SchemaIndex, tables: list[int]) -> list[SchemaColumn]:
    """Return the columns of some tables, table by table."""
    return [schema.columns[column] for table in tables for column in schema.tables[table].columns]


def names(schema: SchemaIndex, table: int) -> tuple[SelectItem, ...]:
    """Return the columns that identify a row of a table for people."""
    full, display = schema.full_name(table), schema.tables[table].display
    columns = full if full is not None else () if display is None else (display,)
    return tuple(map(SelectItem, columns))


def numbers_rows(schema: SchemaIndex, column: SchemaColumn) -> bool:
    """Return whether a column is a key or refers to one, declared or not."""
    is_key = column.is_id or column.id == schema.tables[column.table].key
    return is_key or (column.kind == "number" and column.words[-1] in IDENTIFIERS)


def measures(schema: SchemaIndex, tables: list[int]) -> list[SchemaColumn]:
    """Return the columns that may be added up."""
    return [
        column
        for column in columns_of_tables(schema, tables)
        if column.kind == "number"
        and not numbers_rows(schema, column)
        and "year" not in column.words
        and not flag_words(column, schema)
    ]


def dates(parsed: ParsedQuestion, tables: list[int]) -> list[SchemaColumn]:
    """Return the dates of some tables; those of births only if the question is about births."""
    born = not _BIRTHS.isdisjoint(parsed.low)
    found = [column for column in columns_of_tables(parsed.schema, tables) if column.kind == "date"]
    return [column for column in found if born != _BIRTHS.isdisjoint(column.words)]


def is_said(parsed: ParsedQuestion, column: SchemaColumn) -> bool:
    """Return whether the question has a word of a column."""
    return not {stem(word) for word in column.words}.isdisjoint(map(stem, parsed.low))


def said_first(parsed: ParsedQuestion, columns: list[SchemaColumn], most: int) -> list[SchemaColumn]:
    """Return the first few columns, before all those that the question names."""
    return sorted(columns, key=lambda column: not is_said(parsed, column))[:most]


def denies(parsed: ParsedQuestion) -> bool:
    """Return whether the question denies something."""
    return bool(parsed.denials) or parsed.negates


def where(query: Query, condition: Condition) -> Query:
    """Return a query with another condition."""
    return query._replace(where=(*query.where, condition))


def shown_of(schema: SchemaIndex, query: Query, table: int) -> tuple[SelectItem, ...]:
    """Return a number of rows if a query has a figure, else the names of the rows of a table."""
    return (COUNT,) if any(item.agg for item in query.select) else names(schema, table)


def conditions_on(schema: SchemaIndex, query: Query, table: int) -> tuple[Condition, ...]:
    """Return the conditions of a query on the columns of one table."""
    return tuple(c for c in query.where if c.item.column in schema.tables[table].columns)
