"""Row images, and the sum that identifies the rows of a table.

An image is a row as MessagePack. It preserves types: 1 and 1.0, text and blob, 0.0 and -0.0 differ. SQLite allows text
that is not UTF-8; an image preserves it.

The rows of a table are identified by their number and the sum of their hashes. The order of rows does not matter, and a
change costs only the changed rows.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from hashlib import blake2b
from typing import Any

import msgspec

from clew.explore.systems.sqlite.schema import SQLiteTable

Row = tuple[Any, ...]
Sum = tuple[int, int]  # number of rows, sum of their hashes

_MODULUS = 1 << 256
_INVALID_TEXT = 1  # the MessagePack extension for text that is not UTF-8


class InvalidText(msgspec.Struct, frozen=True):
    """Text that is not UTF-8."""

    raw: bytes


def _text(raw: bytes) -> str | InvalidText:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return InvalidText(raw)


_plain = msgspec.msgpack.Encoder().encode
decode: Callable[[bytes], list[Any]] = msgspec.msgpack.Decoder(
    list[Any], ext_hook=lambda _, data: InvalidText(bytes(data))
).decode


def encode(row: Row) -> bytes:
    """Return the image of a row."""
    if InvalidText in map(type, row):
        row = tuple(msgspec.msgpack.Ext(_INVALID_TEXT, v.raw) if type(v) is InvalidText else v for v in row)
    return _plain(row)


def _hash(image: bytes) -> int:
    return int.from_bytes(blake2b(image, digest_size=32).digest(), "little")


def observed(table: SQLiteTable, row: Row, image: bytes) -> bytes:
    """Return the image of the observed columns of a row."""
    return image if table.observed is None else encode(tuple(row[at] for at in table.observed))


def plus(total: Sum, image: bytes, sign: int) -> Sum:
    """Return a sum with one row more, or one less if the sign is -1."""
    rows, hashes = total
    return rows + sign, (hashes + sign * _hash(image)) % _MODULUS


def rows(connection: sqlite3.Connection, sql: str, arguments: Row = ()) -> Iterator[Row]:
    """Run a query, and return its rows, including text that is not UTF-8."""
    try:
        yield from connection.execute(sql, arguments).fetchall()
        return
    except sqlite3.OperationalError as error:
        if "decode" not in str(error):
            raise
    connection.text_factory = _text
    try:
        yield from connection.execute(sql, arguments).fetchall()
    finally:
        connection.text_factory = str


def total(connection: sqlite3.Connection, table: SQLiteTable) -> Sum:
    """Return the sum of all current rows of a table."""
    fields = table.fields if table.observed is None else [table.fields[at] for at in table.observed]
    count, hashes = 0, 0
    for row in stream(connection, f"SELECT {', '.join(fields) or 'NULL'} FROM {table.quoted}"):
        count += 1
        hashes += _hash(encode(row))
    return count, hashes % _MODULUS


def stream(connection: sqlite3.Connection, sql: str) -> Iterator[Row]:
    """Yield the rows of a query without holding them in memory."""
    connection.text_factory = _text
    try:
        yield from connection.execute(sql)
    finally:
        connection.text_factory = str


def size(delta: Mapping[tuple[int, bytes], int]) -> int:
    """Return the approximate number of bytes of a delta in memory."""
    return sum(len(image) + 150 for _, image in delta)
