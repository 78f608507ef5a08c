"""Rows about runs, read: the error as an exception, and what is wrong with a row said.

A store checks what does not change in a row. Of the rest, the status has to be one that there is, and the error
carries a checksum of its own, eight hexadecimal digits before its JSON.
"""

from __future__ import annotations

from zlib import crc32

import msgspec

from clew.errors import DecodeError
from clew.runtime.failures import error_of, plain_error
from clew.state import decode, encode
from clew.stores import RunRow
from clew.stores.refusals import damaged_row

STATUSES = ("running", "waiting", "completed", "failed", "cancelled")


def sealed_error(error: BaseException) -> bytes:
    """An error as a row has it."""
    data = encode(plain_error(error), at="error", ordered=True)
    return b"%08x" % crc32(data) + data


def opened_row(row: RunRow) -> RunRow:
    """A row with its error as an exception; what is wrong with it is in its `damage`."""
    damage, error = row.damage, None
    if row.status not in STATUSES:
        damage = damage or damaged_row(row.run_id, f"its status is {row.status!r}")
    if row.error is not None:
        try:
            error = error_of(decode(_unsealed(bytes(row.error))))
        except (DecodeError, LookupError, TypeError, ValueError, AttributeError) as wrong:
            damage = damage or f"run {row.run_id!r}: its error is damaged ({wrong}); other runs can be read"
    return msgspec.structs.replace(row, error=error, damage=damage)


def _unsealed(data: bytes) -> bytes:
    if data.startswith(b"{"):  # of before errors had checksums
        return data
    seal, data = data[:8], data[8:]
    if seal != b"%08x" % crc32(data):
        raise DecodeError("its checksum does not fit")
    return data
