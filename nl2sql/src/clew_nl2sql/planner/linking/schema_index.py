"""A catalog prepared for linking: numbered tables and columns, the words of their names, the graph of keys.

Columns and tables are integers. The `core` words of a column are those that do not repeat its table's name
(`song_name` in `song`); a question with the core words names the column.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from itertools import chain, product
from typing import Any

from clew_nl2sql.planner.catalog import Catalog, Column, ForeignKey, Kind, Table
from clew_nl2sql.planner.catalog_cache import CatalogCache
from clew_nl2sql.planner.words.inflection import lemma, parts, split_joined
from clew_nl2sql.planner.words.lexicon import ABBREVIATIONS, IDENTIFIER_WORDS, word_set

NameReadings = tuple[
    tuple[str, tuple[str, ...]], ...
]  # abbreviations, each with the words that it stands for

MANY = 100  # in fewer rows, values differ by chance
_NAME_WORDS = ("name", "title")
_ROLES = word_set("manager supervisor boss coordinator lead leader mentor parent superior chief referrer")
_CODES = frozenset(["id", "code", "key", "number", "tag"])
GLUE = word_set("of in by to be per the a an and at on for with is or have has had can")
# Some schemas add prefixes and suffixes to every table name.
_NOT_TELLING = GLUE | word_set("tbl mst mstr vw dim")


class SchemaColumn:
    """A column with its words."""

    __slots__ = (
        "core", "id", "identifies", "is_key", "is_ref", "kind", "may_lack", "name", "nulls", "parts", "source",
        "table", "unique", "words",
    )  # fmt: skip

    def __init__(self, id: int, table: int, source: Column, words: tuple[str, ...], core: tuple[str, ...]):
        self.id = id
        self.table = table
        self.source = source
        self.name = source.name
        self.parts = parts(source.name)  # as spelled, but for the abbreviations that a question explains
        self.words = words
        self.core = core
        self.kind: Kind = source.kind
        self.is_key = source.primary_key
        self.is_ref = False
        self.unique = False
        self.identifies = self.is_key  # or many sampled rows, and no two of them have the same value
        self.nulls = False  # whether a sampled row lacks the value
        self.may_lack = False  # or a row that is not in the sample

    @property
    def is_id(self) -> bool:
        """Return whether the column is a key, or refers to one."""
        return self.is_key or self.is_ref


class SchemaTable:
    """A table with its words and columns."""

    __slots__ = (
        "columns", "comment", "display", "id", "key", "name", "own_name", "rows", "schema", "view", "words",
    )  # fmt: skip

    def __init__(self, id: int, source: Table, words: tuple[str, ...]):
        self.id = id
        self.name = source.name
        self.own_name, self.schema = source.own_name, source.schema
        self.comment = source.comment
        self.words = words
        self.rows = source.row_count
        self.view = source.view
        self.columns: list[int] = []
        self.key: int | None = None
        self.display: int | None = None


class SchemaIndex:
    """The prepared catalog."""

    def __init__(self, catalog: Catalog, readings: NameReadings = ()):
        self.dialect, self.timezone = catalog.dialect, catalog.timezone
        self.tables: list[SchemaTable] = []
        self.columns: list[SchemaColumn] = []
        vocabulary = _vocabulary(catalog)
        having = Counter(table.own_name.lower() for table in catalog.tables)
        for number, table in enumerate(catalog.tables):
            repeated = having[table.own_name.lower()] > 1  # its schema is then a part of what it is called
            name = table.name if repeated else table.own_name
            made = SchemaTable(number, table, _name_words(name, vocabulary, readings))
            self.tables.append(made)
            for at in range(len(table.columns)):
                entry = _column(len(self.columns), made, table, at, vocabulary, readings)
                made.columns.append(entry.id)
                self.columns.append(entry)
        self._by_name = {(self.tables[c.table].name.lower(), c.name.lower()): c.id for c in self.columns}
        self.edges = self._edges(catalog.foreign_keys)
        for column in self.columns:
            if column.is_ref:  # `customer_id` in a table of customer cards is more than the table's id
                column.core = column.words
        self.ends = frozenset(chain.from_iterable(self.edges))
        self.trees: dict[object, Any] = {}  # join trees, cached by joins.py
        for table_entry in self.tables:
            self._choose_key(table_entry)
        for table_entry in self.tables:
            self._choose_display(table_entry)

    def full_name(self, table: int) -> tuple[int, int] | None:
        """Return the first and the last name of a table of people."""
        columns = {self.columns[c].core: c for c in self.tables[table].columns}
        first, last = columns.get(("first", "name")), columns.get(("last", "name"))
        return (first, last) if first is not None and last is not None else None

    def refers(self, column: int, table: int) -> bool:
        """Return whether a column is a reference to a table."""
        return any(a == column and self.columns[b].table == table for a, b in self.edges)

    def key_of_same(self, column: int) -> int | None:
        """Return the key of its own table that a column refers to: the manager of an employee is one."""
        table = self.columns[column].table
        own = [b for a, b in self.edges if a == column and self.columns[b].table == table]
        return own[0] if own else self._undeclared_same(self.columns[column])

    def _undeclared_same(self, column: SchemaColumn) -> int | None:
        """Return the key for `mgr_no` next to `emp_no`: a role of the same people, with values of the key."""
        key, named = self.tables[column.table].key, self.tables[column.table].words
        if key is None or column.id == key:
            return None
        ends = self.columns[key].words[-1:]
        says_both = column.words[-len(named) - 1 :] == (*named, "id") and ends == (
            "id",
        )  # `mother_animal_id`
        if not says_both and (column.words[0] not in _ROLES or column.words[1:] != ends):
            return None
        values, known = column.source.values, set(self.columns[key].source.values)
        return key if values and known.issuperset(values) else None

    def repeats(self, column: SchemaColumn, times: int) -> bool:
        """Return whether a column has its values many times, on average."""
        rows, different = self.tables[column.table].rows, column.source.n_distinct
        return bool(rows and different and different * times <= rows)

    def namesakes(self, table: int) -> list[SchemaTable]:
        """Return the tables with the same name in other schemas."""
        own = self.tables[table]
        return [t for t in self.tables if t.own_name.lower() == own.own_name.lower() and t.id != table]

    def column_id(self, table: str, column: str) -> int | None:
        """Return the number of a column, by names in any case."""
        return self._by_name.get((table.lower(), column.lower()))

    def _edges(self, keys: tuple[ForeignKey, ...]) -> list[tuple[int, int]]:
        edges = []
        for key in keys:
            source = self.column_id(key.table, key.column)
            target = self.column_id(key.target_table, key.target_column)
            if source is not None and target is not None and source != target:
                self.columns[source].is_ref = True
                if (source, target) not in edges:
                    edges.append((source, target))
        return edges + self._undeclared_edges(edges)

    def _undeclared_edges(self, edges: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Return undeclared keys: a column with the name of another table's key, and with values from it.

        `customer_id` has the name of the `customer_id` of another table, or of the `id` of a table of
        customers.
        """
        joined = {frozenset((self.columns[a].table, self.columns[b].table)) for a, b in edges}
        declared = set().union(*joined)
        found = []
        for target, source in product(self.columns, self.columns):
            pair = frozenset((source.table, target.table))
            if len(pair) < 2 or pair in joined or not (target.unique or target.is_key):
                continue
            strict = not declared.isdisjoint(pair)
            named = self._says_table_and_key(source, target) or _same_key(source, target, strict)
            named = named or self._has_name_of_key(source, target)
            if named and _drawn_from(source, target):
                source.is_ref = True
                found.append((source.id, target.id))
        return found

    def _says_table_and_key(self, source: SchemaColumn, target: SchemaColumn) -> bool:
        """Return whether the name of a column consists of another table's name and its key."""
        plain = len(target.words) == 1 and target.words[0] in ("id", "code", "key", "number")
        return plain and source.words == (*self.tables[target.table].words, *target.words)

    def _has_name_of_key(self, source: SchemaColumn, target: SchemaColumn) -> bool:
        """Return whether a column repeats the name of a key that is called after its table: `tkt_no` of tickets."""
        after = _CODES.issuperset(target.core) and len(target.words) > len(target.core)
        return target.is_key and not source.is_key and after and source.name.lower() == target.name.lower()

    def _choose_key(self, table: SchemaTable) -> None:
        own = [self.columns[c] for c in table.columns]
        keys = [c for c in own if c.is_key]
        table.key = next((c.id for c in keys if not c.is_ref), keys[0].id) if keys else self._likely_key(own)

    def _likely_key(self, own: list[SchemaColumn]) -> int | None:
        """Return the first column that a key refers to, is called an id, or differs in every row."""
        numbers = [c.id for c in own]
        referred = [target for _, target in self.edges if target in numbers]
        named = [c.id for c in own if "id" in c.words and not c.is_ref]
        unique = [c.id for c in own if c.unique]
        return next(iter(referred + named + unique + numbers), None)

    def _choose_display(self, table: SchemaTable) -> None:
        """Choose the column that identifies a row for people: its name or title, else the first text, else the key."""

        def rank(column: SchemaColumn) -> tuple[int, int]:
            text = column.kind == "text"
            named = bool(column.core) and column.core[-1] in _NAME_WORDS
            whole = column.core in (("name",), ("title",)) or column.core == table.words
            last = column.core == ("last", "name")
            rows, different = table.rows or 0, column.source.n_distinct
            telling = text and (
                different is None or different * 2 >= rows
            )  # a status does not distinguish rows
            score = 8 * (whole and not column.is_ref) + 5 * named + 2 * telling - 4 * last - 3 * column.is_ref
            return (-score, column.id)

        ranked = sorted((self.columns[c] for c in table.columns), key=rank)
        if ranked:
            best = ranked[0]
            table.display = best.id if -rank(best)[0] >= 2 or table.key is None else table.key


def _column(
    number: int,
    table: SchemaTable,
    source: Table,
    at: int,
    vocabulary: frozenset[str],
    readings: NameReadings,
) -> SchemaColumn:
    """Return the column at a position of a table, with what the sampled rows say about it."""
    column, sampled, rows = source.columns[at], [row[at] for row in source.rows], source.row_count
    words = _name_words(column.name, vocabulary, readings)
    core = tuple(w for w in words if w not in table.words) or words
    entry = SchemaColumn(number, table.id, column, words, core)
    read = dict(readings)
    entry.parts = tuple(word for part in entry.parts for word in read.get(part, (part,)))
    entry.unique = column.n_distinct == (rows or -1)
    entry.nulls = None in sampled
    all_sampled = rows is not None and rows <= len(sampled)
    entry.may_lack = entry.nulls or not (all_sampled or column.primary_key)
    if len(sampled) >= MANY and column.kind == "text":
        entry.identifies |= len(set(sampled)) == len(sampled)
    return entry


def _same_key(source: SchemaColumn, target: SchemaColumn, strict: bool) -> bool:
    """Return whether a column has the name of a key; `strict` if other keys of one of the tables are declared."""
    is_id = "id" in target.words
    if source.name.lower() != target.name.lower():
        return False
    if len(parts(target.name)) < 2 and (is_id or strict):
        return False  # every table may name its own key `id`
    return not strict or is_id or "code" in target.words


def _drawn_from(source: SchemaColumn, target: SchemaColumn) -> bool:
    """Return whether most of a column's known values are values of another column."""
    values = source.source.values
    if not values or not target.source.values:
        return True
    known = set(target.source.values)
    shared = sum(v in known for v in values)
    if not target.source.complete and source.name.lower() == target.name.lower() and target.is_key:
        return shared > 0  # two samples of many values
    return shared * 10 >= len(values) * 7


def _vocabulary(catalog: Catalog) -> frozenset[str]:
    words = set(IDENTIFIER_WORDS)
    for table in catalog.tables:
        words.update(parts(table.name), (lemma(w) for w in parts(table.name)))
        for column in table.columns:
            if "_" in column.name:
                words.update(parts(column.name))
    return frozenset(w for w in words if len(w) > 2 or w in ("id", "in"))


@lru_cache(maxsize=20_000)
def _name_words(name: str, vocabulary: frozenset[str], readings: NameReadings) -> tuple[str, ...]:
    read = dict(readings)
    if name.lower() in ABBREVIATIONS and name.lower() not in read:
        return ABBREVIATIONS[name.lower()]
    words = [word for part in parts(name) for word in read.get(part) or _part_words(part, vocabulary)]
    telling = [w for w in words if (len(w) > 1 or w.isdigit()) and w not in _NOT_TELLING]
    return tuple(telling or words or [name.lower()])


def _part_words(part: str, vocabulary: frozenset[str]) -> list[str]:
    if part in ABBREVIATIONS:
        return list(ABBREVIATIONS[part])
    if part not in vocabulary and (part[1:] in vocabulary or part[1:] in ABBREVIATIONS):
        part = part[1:]  # the table's initial before the column's name: `pno`, `dnumber`
    pieces = split_joined(part, vocabulary)
    return [word for piece in pieces for word in ABBREVIATIONS.get(piece, (lemma(piece),))]


prepare: CatalogCache[SchemaIndex] = CatalogCache(SchemaIndex)  # cached for the next question
