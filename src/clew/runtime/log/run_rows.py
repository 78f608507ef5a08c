"""Rows of runs: encode and decode failures, and check the parts of a row that change.

A store checks the constant parts of a row. Of the others, the status has to be a known one, and the failures have their
own checksum: eight hexadecimal digits before their JSON.

Errors can contain instances of registered classes. Without `classes`, none is built and no hook is called.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args
from zlib import crc32

import msgspec

from clew.engine.options import Status
from clew.engine.records import Failure
from clew.errors import DecodeError
from clew.runtime.log.entries.stored_errors import failure_of, plain_failure
from clew.runtime.run_ids import checked_run_id
from clew.state import decode, encode
from clew.state.type_names import a
from clew.stores import RunRow, Store
from clew.stores.messages import damaged_row

STATUSES: tuple[str, ...] = get_args(Status)


def sealed_failures(failures: Sequence[Failure]) -> bytes:
    """Encode the failures of a run for its row."""
    data = encode([plain_failure(failure) for failure in failures], at="error", ordered=True)
    return b"%08x" % crc32(data) + data


def opened_failures(sealed: bytes, *, classes: bool = False) -> tuple[Failure, ...]:
    """Decode the failures of a row. Raise DecodeError if they are damaged."""
    if not isinstance(sealed, bytes | memoryview):
        raise DecodeError(f"expected bytes, got {a(type(sealed))}")
    data = bytes(sealed)
    seal, data = data[:8], data[8:]
    if seal != b"%08x" % crc32(data):
        raise DecodeError("checksum mismatch")
    try:
        found = tuple(failure_of(plain) for plain in decode(data, classes=classes))
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise DecodeError(f"not a failure: {error}") from error
    if not found:
        raise DecodeError("it is empty")
    return found


def row_of(store: Store, run_id: str) -> RunRow:
    """Return the row of a run. Raise InputError if the id is not a string."""
    return store.row(checked_run_id(run_id))


def opened_row(row: RunRow, *, classes: bool = False) -> RunRow:
    """Return a row with decoded failures and its first error; `damage` describes a problem of the row."""
    if row.error is None and row.status in STATUSES:
        return row
    damage, error = row.damage, None
    failures: tuple[Failure, ...] = ()
    if row.status not in STATUSES:
        damage = damage or damaged_row(row.run_id, f"its status is {row.status!r}")
    if isinstance(row.error, tuple):  # a store in memory keeps the objects
        failures = row.error
    elif row.error is not None:
        try:
            failures = opened_failures(row.error, classes=classes)
        except DecodeError as reason:
            damage = damage or f"run {row.run_id!r}: its error is damaged ({reason}); other runs can be read"
    if failures and not failures[0].rescued:
        error = failures[0].error
    return msgspec.structs.replace(row, error=error, failures=failures, damage=damage)
