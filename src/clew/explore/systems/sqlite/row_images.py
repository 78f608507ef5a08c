"""Images of rows as bytes that keep every value's type, and the sum that identifies the rows of a table.

The bytes are MessagePack: 1 and 1.0, text and blob, 0.0 and −0.0 differ. Text that is not UTF-8, which SQLite lets
pass, is kept as it is.

The rows of a table are identified by their number and the sum of their hashes: the order of rows does not matter,
and a change costs what changed.
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
_ILL_TEXT = 1  # the MessagePack extension for text that is not UTF-8


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
    """The bytes of a row."""
    if InvalidText in map(type, row):
        row = tuple(msgspec.msgpack.Ext(_ILL_TEXT, v.raw) if type(v) is InvalidText else v for v in row)
    return _plain(row)


def hash_of(image: bytes) -> int:
    return int.from_bytes(blake2b(image, digest_size=32).digest(), "little")


def observed(table: SQLiteTable, row: Row, image: bytes) -> bytes:
    """The bytes of what counts of a row for the identity of a state."""
    return image if table.observed is None else encode(tuple(row[at] for at in table.observed))


def plus(total: Sum, image: bytes, side: int) -> Sum:
    rows, hashes = total
    return rows + side, (hashes + side * hash_of(image)) % _MODULUS


def rows(connection: sqlite3.Connection, sql: str, arguments: Row = ()) -> Iterator[Row]:
    """What a query finds, ill text included."""
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
    """The sum of all rows of a table as they are now."""
    fields = table.fields if table.observed is None else [table.fields[at] for at in table.observed]
    count, hashes = 0, 0
    for row in stream(connection, f"SELECT {', '.join(fields) or 'NULL'} FROM {table.quoted}"):
        count += 1
        hashes += hash_of(encode(row))
    return count, hashes % _MODULUS


def stream(connection: sqlite3.Connection, sql: str) -> Iterator[Row]:
    """A whole table, without holding it in memory."""
    connection.text_factory = _text
    try:
        yield from connection.execute(sql)
    finally:
        connection.text_factory = str


def size(delta: Mapping[tuple[int, bytes], int]) -> int:
    """The bytes that a delta holds: its images, each in a tuple and a dict."""
    return sum(len(image) + 150 for _, image in delta)
