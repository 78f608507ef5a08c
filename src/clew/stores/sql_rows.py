"""What the stores on SQL write down and read again: runs, entries, and whether they are what was written.

A run's row is in two tables, because what it began with is large and its owner's lease is not. What does not change
while the run lives has a checksum; a row that does not fit it, or cannot be read at all, says so in `RunRow.damage`.
SQLite takes any type in any column, so the type of each value is checked before it is used.
Every entry has a checksum of its own, over its body and its digest. A run that was released has a census: how many
entries it had then, so that one which is lost afterwards is missed.
"""

from __future__ import annotations

import math
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
    mistyped = ""
    for place, (name, is_right, instead) in enumerate(_TYPES):
        if not is_right(values[place]):
            mistyped = mistyped or f"its {name} is {_short(values[place])}"
            values[place] = instead(values[place])
    run_id, graph, start, seed, _, created, _, parent, parent_step, _, structure, codes, *more = values
    wrong = ""
    if origin is None:
        wrong = "what it began with is missing"
    else:
        try:
            fits = crc == _row_checksum(
                run_id, graph, start, seed, created, parent, parent_step, structure, codes, *more
            )
        except UnicodeError:
            fits = False
        wrong = "" if fits else "its checksum does not fit"
        wrong = mistyped or wrong
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


def _is_text(value: Any) -> bool:
    return type(value) is str


def _is_time(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:39]}…"


_Instead = Callable[[Any], Any]
_nothing: _Instead = lambda value: None  # noqa: E731
_empty: _Instead = lambda value: ""  # noqa: E731
_long_ago: _Instead = lambda value: 0.0  # noqa: E731

# For each value that `ROW` selects, up to the target: its name, whether its type is right, and what else stands for it.
_TYPES: tuple[tuple[str, Callable[[Any], bool], _Instead], ...] = (
    ("id", _is_text, _short),
    ("graph", _is_text, _empty),
    ("start", lambda value: value is None or isinstance(value, (bytes, memoryview)), _nothing),
    ("seed", _is_text, lambda value: "0"),
    ("status", _is_text, _short),
    ("time of creation", _is_time, _long_ago),
    ("time of change", _is_time, _long_ago),
    ("parent", lambda value: value is None or type(value) is str, _nothing),
    ("parent's step", lambda value: value is None or type(value) is int, _nothing),
    ("error", lambda value: value is None or isinstance(value, (bytes, memoryview)), _nothing),
    ("structure", _is_text, _empty),
    ("hashes of code", _is_text, lambda value: "{}"),
    ("first digest", _is_text, _empty),
    ("description", _is_text, _empty),
    ("target", _is_text, _empty),
)


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
        try:
            fits = crc32(body, crc32(digest)) - _SIGN == crc
        except TypeError:  # it is no content
            fits = False
        if not fits or type(kind) is not str or type(path) is not str or type(n) is not int:
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
