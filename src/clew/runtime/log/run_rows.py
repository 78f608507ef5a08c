"""Rows about runs, read: why a run failed as exceptions with their places, and what is wrong with a row.

A store checks what does not change in a row. Of the rest, the status has to be a known one, and the failures carry a
checksum of their own, eight hexadecimal digits before their JSON.

Exceptions may hold instances of registered classes. Without `classes` none is built, and no hook is called.
"""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

import msgspec

from clew.engine.records import Failure
from clew.errors import DecodeError
from clew.runtime.log.stored_errors import failure_of, plain_failure
from clew.state import decode, encode
from clew.stores import RunRow
from clew.stores.messages import damaged_row

STATUSES = ("running", "waiting", "completed", "failed", "cancelled")


def sealed_failures(failures: Sequence[Failure]) -> bytes:
    """Why a run failed, as a row has it."""
    data = encode([plain_failure(failure) for failure in failures], at="error", ordered=True)
    return b"%08x" % crc32(data) + data


def opened_failures(sealed: bytes, *, classes: bool = False) -> tuple[Failure, ...]:
    """What `sealed_failures` wrote. DecodeError if that is damaged."""
    if not isinstance(sealed, bytes | memoryview):
        raise DecodeError(f"it is a {type(sealed).__name__}")
    data = bytes(sealed)
    seal, data = data[:8], data[8:]
    if seal != b"%08x" % crc32(data):
        raise DecodeError("its checksum does not fit")
    try:
        found = tuple(failure_of(plain) for plain in decode(data, classes=classes))
    except (LookupError, TypeError, ValueError, AttributeError) as wrong:
        raise DecodeError(f"it is no failure: {wrong}") from wrong
    if not found:
        raise DecodeError("there is no failure in it")
    return found


def opened_row(row: RunRow, *, classes: bool = False) -> RunRow:
    """A row with its failures, and the first one's error as an exception; what is wrong with it is in its `damage`."""
    if row.error is None and row.status in STATUSES:
        return row
    damage, error = row.damage, None
    failures: tuple[Failure, ...] = ()
    if row.status not in STATUSES:
        damage = damage or damaged_row(row.run_id, f"its status is {row.status!r}")
    if isinstance(row.error, tuple):  # of a store that keeps what it is given
        failures = row.error
    elif row.error is not None:
        try:
            failures = opened_failures(row.error, classes=classes)
        except DecodeError as wrong:
            damage = damage or f"run {row.run_id!r}: its error is damaged ({wrong}); other runs can be read"
    if failures:
        error = failures[0].error
    return msgspec.structs.replace(row, error=error, failures=failures, damage=damage)
