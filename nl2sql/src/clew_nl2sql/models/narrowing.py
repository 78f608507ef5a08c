"""Choose the tables that a prompt has room for.

A schema with hundreds of tables exceeds what a model reads, and costs as much. Tables are ranked by the words that they
share with the question: in their names, comments, columns and sample values. A word that few tables have counts more.
Tables that a chosen one refers to come along, because joins need them.
"""

from __future__ import annotations

import math
from collections import Counter

import msgspec

from clew_nl2sql.decompose.normalization import content, name_words, stem
from clew_nl2sql.planner.catalog import Catalog, Table

CHARACTERS_PER_TOKEN = 4


def narrowed(question: str, catalog: Catalog, tokens: int, values: int) -> Catalog:
    """Return the part of a catalog that fits into a number of tokens; at least one table."""
    room = tokens * CHARACTERS_PER_TOKEN
    sizes = {table.name: _size(table, values) for table in catalog.tables}
    if sum(sizes.values()) <= room:
        return catalog
    kept = _kept(question, catalog, sizes, room)
    tables = tuple(table for table in catalog.tables if table.name in kept)
    keys = tuple(key for key in catalog.foreign_keys if kept.issuperset((key.table, key.target_table)))
    return msgspec.structs.replace(catalog, tables=tables, foreign_keys=keys)


def _kept(question: str, catalog: Catalog, sizes: dict[str, int], room: int) -> set[str]:
    kept: set[str] = set()
    for table in _ranked(question, catalog):
        for name in (table.name, *_referred(table.name, catalog)):
            if name not in kept and (not kept or room >= sizes[name]):
                kept.add(name)
                room -= sizes[name]
    return kept


def _ranked(question: str, catalog: Catalog) -> list[Table]:
    wanted = {stem(word) for word in content(question)}
    found = {table.name: _words(table) for table in catalog.tables}
    having = Counter(word for words in found.values() for word in words & wanted)
    many = len(catalog.tables)

    def score(table: Table) -> float:
        own = {stem(word) for word in name_words(table.name)}
        return sum(
            math.log(1 + many / having[word]) * (1 + (word in own)) for word in found[table.name] & wanted
        )

    return sorted(catalog.tables, key=lambda table: (-score(table), table.name))


def _words(table: Table) -> set[str]:
    words = [*name_words(table.name), *content(table.comment)]
    for column in table.columns:
        words += [*name_words(column.name), *content(column.comment)]
        words += [word for value in column.values if isinstance(value, str) for word in content(value)]
    return {stem(word) for word in words}


def _referred(name: str, catalog: Catalog) -> list[str]:
    return [key.target_table for key in catalog.foreign_keys if key.table == name]


def _size(table: Table, values: int) -> int:
    """Return about how many characters a table takes in a prompt."""
    size = len(table.name) + len(table.comment) + 10
    for column in table.columns:
        samples = sum(len(str(value)) + 4 for value in column.values[:values] if column.kind == "text")
        size += len(column.name) + len(column.type) + len(column.comment) + samples + 8
    return size
