"""What the stores on SQL write down and read again: runs, entries, and whether they are what was written.

A run's row is in two tables, because what it began with is large and its owner's lease is not. What does not change
while the run lives has a checksum; a row that does not fit it, or cannot be read at all, says so in `RunRow.damage`.
Every entry has a checksum of its own, over its body and its digest. A run that was released has a census: how many
entries it had then, so that one which is lost afterwards is missed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any
from zlib import crc32

import msgspec

from clew.errors import StoreCorruptError, UnknownRunError
from clew.stores.messages import damaged_entry, damaged_row
from clew.stores.protocol import LogEntry, RunRow

ROW = (
    "SELECT run_id, graph, start, seed, status, created, updated, parent, parent_step, error, structure, codes, "
    "start_digest, description, target, census, crc, origins.run FROM runs LEFT JOIN origins ON origins.run = runs.id"
)
"""Selects what `read_row` reads."""

COLUMNS = "run_id, status, created, updated, graph, seed, parent, parent_step, structure, target, error"
"""Of the table of runs, those that `row_values` gives first."""

ORIGIN = "start, codes, start_digest, description, crc"
"""Of the table of origins, those that `row_values` gives then."""

_SIGN = 1 << 31  # checksums of entries are kept signed: four bytes instead of six


def row_values(row: RunRow) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """A new row as its two tables have it: `COLUMNS`, and then `ORIGIN`."""
    seed, codes = str(row.seed), msgspec.json.encode(row.codes).decode()
    values = (row.run_id, row.status, row.created, row.updated, row.graph, seed, row.parent, row.parent_step)
    of = (row.run_id, row.graph, row.start, seed, row.created, row.parent, row.parent_step)
    crc = _row_checksum(*of, row.structure, codes, row.start_digest, row.description, row.target)
    origin = row.start, codes, row.start_digest, row.description, crc
    return (*values, row.structure, row.target, row.error), origin


def read_row(found: Sequence[Any]) -> RunRow:
    """A row from what `ROW` selects; what is wrong with it is in its `damage`."""
    *values, census, crc, origin = found
    run_id, graph, start, seed, _, created, _, parent, parent_step, _, structure, codes, *more = values
    wrong = ""
    if origin is None:
        wrong = "what it began with is missing"
    else:
        try:
            fits = crc == _row_checksum(
                run_id, graph, start, seed, created, parent, parent_step, structure, codes, *more
            )
        except (TypeError, UnicodeError):  # a byte has changed what kind of value it is
            fits = False
        wrong = "" if fits else "its checksum does not fit"
    counts: dict[str, int] | None = None
    try:
        values[3], values[11] = int(seed), msgspec.json.decode(codes or "{}", type=dict[str, str])
        if census is not None:
            counts = counted(census)
    except (ValueError, TypeError, msgspec.DecodeError) as error:
        wrong = wrong or str(error)
        values[3], values[11] = 0, {}
    row = RunRow(*values[:12])
    row.start_digest, row.description, row.target = more
    row.census = counts
    row.damage = damaged_row(str(run_id), wrong) if wrong else ""
    return row


def counted(census: str) -> dict[str, int]:
    """A census, as it was written."""
    return msgspec.json.decode(census, type=dict[str, int])


def _row_checksum(
    run_id: str,
    graph: str,
    start: bytes | None,
    seed: str,
    created: float,
    parent: str | None,
    parent_step: int | None,
    *rest: str,
) -> int:
    head = "\0".join([f"{run_id}\0{graph}\0{seed}\0{created}\0{parent}\0{parent_step}", *rest])
    return crc32(head.encode(errors="surrogatepass"), crc32(start or b""))


def checksum(body: bytes, digest: bytes) -> int:
    """What is kept beside an entry."""
    return crc32(body, crc32(digest)) - _SIGN


def checked(run_id: str, found: Iterable[Sequence[Any]]) -> list[LogEntry]:
    """Entries whose checksums fit, of rows with kind, path, n, body, digest and checksum; damage is named."""
    entries = []
    for kind, path, n, body, digest, crc in found:
        if crc32(body, crc32(digest)) - _SIGN != crc:
            raise StoreCorruptError(damaged_entry(run_id, kind, path, n))
        entries.append(LogEntry(kind, path, n, body, digest))
    return entries


def complaints(looks: Iterable[tuple[Callable[[str], object], str]]) -> Iterator[str]:
    """What is wrong with each of many things, given how to look at one, and its name."""
    for look, name in looks:
        try:
            look(name)
        except UnknownRunError:  # deleted meanwhile
            pass
        except StoreCorruptError as error:
            yield str(error)
