"""Observations of the watched tables, kept up to date by the deltas of restores and changes.

The digest of a table is a sum over its rows, so a changed row adds or subtracts its own part, and the order of rows
does not matter. All rows are read once; later observations cost only the changes.

A table of up to `limit` rows is shown as a list of dicts, ordered by the key, or by their text if there is no key. A
larger table is shown as `{"rows": count, "digest": text}`. Both depend on the state alone.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from clew.explore.systems.postgres import row_images as rows
from clew.explore.systems.postgres.catalog import PostgresTable, WatchedObjects
from clew.explore.systems.postgres.restore import Delta
from clew.explore.systems.postgres.triggers import image_sql
from clew.state.values.codec import digest, encode

if TYPE_CHECKING:
    from clew.explore.systems.postgres.connection import Cursor

_LANES = 3  # of 60 bits, each summed separately, because a bigint holds 63
_LANE = 15  # hexadecimal digits


def row_number(image: str) -> int:
    """Return the part of a row in the digest of its table."""
    return int(sha256(image.encode()).hexdigest()[: _LANES * _LANE], 16)


def digest_sql(table: PostgresTable) -> str:
    """Return a statement for the number of rows and the lanes of their sum."""
    lanes = ", ".join(
        f"coalesce(sum(('x' || substr(h, {1 + lane * _LANE}, {_LANE}))::bit(60)::bigint), 0)"
        for lane in range(_LANES)
    )
    image = image_sql(table, "t", shown=True)
    return (
        f"SELECT count(*), {lanes} FROM (SELECT encode(sha256(convert_to({image}, 'UTF8')), 'hex') AS h "
        f"FROM ONLY {table.name} t OFFSET 0) hashed"
    )


def identity(digests: dict[str, str]) -> bytes:
    """Return the digest of all tables."""
    return bytes.fromhex(digest(encode(digests)))


class ObservedTable:
    """One table: the number of rows, the sum of their numbers and, up to the limit, the rows themselves."""

    def __init__(self, table: PostgresTable, limit: int) -> None:
        self.label = table.label
        self.count = 0
        self.total = 0
        self._limit = limit
        self._images: dict[str, int] | None = {}
        shown = [column for column in table.columns if column.shown]
        self._kept = [place for place, column in enumerate(table.columns) if column.shown]
        self._is_whole = len(shown) == len(table.columns)
        self._names = tuple(column.name for column in shown)
        self._loads = [rows.loader(column.type_oid) for column in shown]
        self._copy = copy.deepcopy if rows.MUTABLE & {c.type_oid for c in shown} else dict
        key = [name for name, _ in table.key.columns] if table.key and table.key.unique else []
        by_name = {column.name: column.type_oid for column in shown}
        self._key = key if key and all(by_name.get(name) in rows.ORDERED for name in key) else None
        self._read: dict[str, dict[str, Any]] = {}
        self._sorted: list[dict[str, Any]] | None = None
        self._digest: str | None = None

    def _add(self, shown: str, more: int) -> None:
        """Add rows with an image of the observed columns; remove rows if `more` is negative."""
        self._sorted = self._digest = None
        self.count += more
        self.total += more * row_number(shown)
        if self._images is not None:
            self._images[shown] = self._images.get(shown, 0) + more
            if not self._images[shown]:
                del self._images[shown]
            if self.count > self._limit:
                self._images, self._read = None, {}

    def change(self, image: str, more: int) -> None:
        self._add(image if self._is_whole else rows.without(image, self._kept), more)

    @property
    def is_behind(self) -> bool:
        """Return whether the rows must be read again: they were too many before, and can be shown now."""
        return self._images is None and self.count <= self._limit

    def load(self, cursor: Cursor, table: PostgresTable) -> None:
        """Read the table: its rows up to the limit, otherwise the digest from the server."""
        self.count, self.total, self._images = 0, 0, {}
        self._sorted = self._digest = None
        images = (
            f"SELECT {image_sql(table, 't', shown=True)} FROM ONLY {table.name} t LIMIT {self._limit + 1}"
        )
        for (image,) in cursor.execute(images.encode(), prepare=False).fetchall():
            self._add(image, 1)
        if self._images is None:
            found = cursor.execute(digest_sql(table).encode(), prepare=False).fetchone() or (0,)
            self.count, lanes = found[0], [int(lane) for lane in found[1:]]
            self.total = sum(lane << (4 * _LANE * (_LANES - 1 - place)) for place, lane in enumerate(lanes))

    @property
    def digest(self) -> str:
        if self._digest is None:
            self._digest = digest(encode([list(self._names), self.count, f"{self.total:x}"]))
        return self._digest

    def shown(self) -> Any:
        if self._images is None:
            return {"rows": self.count, "digest": self.digest}
        if self._sorted is None:
            self._sorted = self._in_order(self._images)
        return [self._copy(row) for row in self._sorted]

    def _in_order(self, images: dict[str, int]) -> list[dict[str, Any]]:
        read = self._read
        self._read = known = {}
        for image in sorted(images):
            row = read.get(image)
            known[image] = row if row is not None else dict(zip(self._names, rows.values(image, self._loads)))
        listed = [row for image, row in known.items() for _ in range(images[image])]
        if self._key is None:
            return listed
        try:
            return sorted(listed, key=lambda row: [row[name] for name in self._key or ()])
        except TypeError:  # a key value that Python cannot represent is text here
            return listed


class ObservedTables:
    """All observed tables, as of the last recorded change."""

    def __init__(self, watched: WatchedObjects, limit: int) -> None:
        self._shown = [each for each in (*watched.tables.values(), *watched.views) if each.shown]
        self._tables = {table.oid: ObservedTable(table, limit) for table in self._shown}

    def load(self, cursor: Cursor) -> None:
        """Read all tables; call it inside a transaction with one snapshot."""
        for table in self._shown:
            self._tables[table.oid].load(cursor, table)

    def change(self, delta: Delta) -> None:
        """Record changed rows."""
        for (oid, image), more in delta.items():
            if oid in self._tables:
                self._tables[oid].change(image, more)

    def behind(self) -> list[PostgresTable]:
        """Return the tables whose rows must be read again."""
        return [table for table in self._shown if not table.is_view and self._tables[table.oid].is_behind]

    def load_tables(self, cursor: Cursor, tables: Iterable[PostgresTable]) -> None:
        for table in tables:
            self._tables[table.oid].load(cursor, table)

    def digests(self) -> dict[str, str]:
        """Return the digests of the tables, by label."""
        return {seen.label: seen.digest for seen in self._tables.values()}

    def data(self) -> dict[str, Any]:
        """Return the data of an observation, by label."""
        return {seen.label: seen.shown() for seen in self._tables.values()}
