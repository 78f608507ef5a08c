"""The rows of runs and entries in SQL stores, with their checksums.

A run's row is in two tables, because its initial state is large and its lease changes often. The columns that never
change have a checksum; `RunRow.damage` describes a mismatch or an unreadable value. Every entry has a checksum over its
run, its name, its body and its digest, so an entry that was moved to another name counts as damaged. SQLite accepts any
type in any column, so the type of each value is checked before it is used. A released run has a census of its log, so
that a lost entry is detected.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any
from zlib import crc32

import msgspec

from clew.errors import StoreCorruptError, UnknownRunError
from clew.stores.encoded_codes import EncodedCodes
from clew.stores.messages import damaged_entry, damaged_owner, damaged_row
from clew.stores.protocol import LogEntry, Message, RunRow

ROW = (
    "SELECT run_id, graph, start, seed, status, created, updated, parent, parent_step, error, structure, codes, "
    "start_digest, description, target, child_of, place, attributes, last_queue, census, crc, origins.run "
    "FROM runs LEFT JOIN origins ON origins.run = runs.id"
)
"""Selects the values for `read_row`."""

COLUMNS = (
    "run_id, status, created, updated, graph, seed, parent, parent_step, structure, target, error, "
    "child_of, place, attributes, last_queue"
)
"""The columns of the table `runs` in the first result of `row_values`."""

ORIGIN = "start, codes, start_digest, description, crc"
"""The columns of the table `origins` in the second result of `row_values`."""

_SIGN = 1 << 31  # checksums of entries are stored signed: four bytes instead of six


def row_values(row: RunRow) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return the values of a new row for its two tables: `COLUMNS` and `ORIGIN`."""
    seed, given = str(row.seed), row.codes
    codes = given.json if isinstance(given, EncodedCodes) else msgspec.json.encode(given).decode()
    values = (row.run_id, row.status, row.created, row.updated, row.graph, seed, row.parent, row.parent_step)
    of = (row.run_id, row.graph, row.start, seed, row.created, row.parent, row.parent_step)
    named = row.attributes
    attributes = msgspec.json.encode(dict(named), order="sorted").decode() if named else "{}"
    child = _child(row.child_of, row.place, attributes)
    crc = _row_checksum(*of, row.structure, codes, row.start_digest, row.description, row.target, *child)
    origin = row.start, codes, row.start_digest, row.description, crc
    more = row.structure, row.target, row.error, row.child_of, row.place, attributes, row.queue
    return (*values, *more), origin


def _child(child_of: str | None, place: str, attributes: str) -> tuple[str, ...]:
    """Return what the checksum of a row covers if the run is a child or has attributes."""
    return (*(() if child_of is None else (child_of, place)), *(() if attributes == "{}" else (attributes,)))


def needed_by(row: RunRow) -> list[str]:
    """Return the runs that a new run refers to: its parent, and the run that contains it."""
    return [run_id for run_id in (row.parent, row.child_of) if run_id is not None]


def selection(status: str | None, of: str | None) -> tuple[str, list[str]]:
    """Return the condition of `Store.rows`, with `?` for each of its values, and the values."""
    parts, values = list[str](), list[str]()
    if status is not None:
        parts.append("status = ?")
        values.append(status)
    if of is not None:
        parts.append("child_of = ?" if of else "child_of IS NULL")
        values += [of] if of else []
    return f"WHERE {' AND '.join(parts)}" if parts else "", values


def read_row(found: Sequence[Any], *, is_complete: bool = True) -> RunRow:
    """Make a row from the values that `ROW` selects; `damage` describes any damage. The checksum of an incomplete row
    is not checked."""
    *values, census, crc, origin = found
    mistyped = ""
    for place, (name, is_valid, replacement) in enumerate(_TYPES):
        if not is_valid(values[place]):
            text = _short(values[place])
            mistyped = mistyped or f"its {name} is {text}"
            values[place] = text if replacement is _TEXT_OF_VALUE else replacement
    run_id, graph, start, seed, _, created, _, parent, parent_step, _, structure, codes, *more = values
    *more, child_of, place, attributes, queue = more
    damage = ""
    if origin is None:
        damage = "its initial state is missing"
    else:
        try:
            matches = not is_complete or crc == _row_checksum(
                run_id,
                graph,
                start,
                seed,
                created,
                parent,
                parent_step,
                structure,
                codes,
                *more,
                *_child(child_of, place, attributes),
            )
        except UnicodeError:
            matches = False
        damage = mistyped or ("" if matches else "checksum mismatch")
    counts: dict[str, int] | None = None
    named: dict[str, str] = {}
    try:
        values[3], values[11] = int(seed), msgspec.json.decode(codes or "{}", type=dict[str, str])
        named = msgspec.json.decode(attributes, type=dict[str, str])
        if census is not None:
            counts = read_census(census)
    except (ValueError, TypeError, msgspec.DecodeError) as error:
        damage = damage or str(error)
        values[3], values[11] = 0, {}
    row = RunRow(*values[:12])
    row.start_digest, row.description, row.target = more
    row.child_of, row.place, row.attributes = child_of, place, named
    row.census, row.queue = counts, queue
    row.damage = damaged_row(str(run_id), damage) if damage else ""
    return row


def _is_text(value: Any) -> bool:
    return type(value) is str


def is_time(value: Any) -> bool:
    """Return whether a stored value is a time in seconds."""
    return type(value) in (int, float) and math.isfinite(value)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:39]}…"


_TEXT_OF_VALUE = object()

# For each value that `ROW` selects, up to the queue: its name, a check of its type, and what replaces other types.
_TYPES: tuple[tuple[str, Callable[[Any], bool], Any], ...] = (
    ("id", _is_text, _TEXT_OF_VALUE),
    ("graph", _is_text, ""),
    ("start", lambda value: value is None or isinstance(value, (bytes, memoryview)), None),
    ("seed", _is_text, "0"),
    ("status", _is_text, _TEXT_OF_VALUE),
    ("time of creation", is_time, 0.0),
    ("time of change", is_time, 0.0),
    ("parent", lambda value: value is None or type(value) is str, None),
    ("parent's step", lambda value: value is None or type(value) is int, None),
    ("error", lambda value: value is None or isinstance(value, (bytes, memoryview)), None),
    ("structure", _is_text, ""),
    ("hashes of code", _is_text, "{}"),
    ("first digest", _is_text, ""),
    ("description", _is_text, ""),
    ("target", _is_text, ""),
    ("outer run", lambda value: value is None or type(value) is str, None),
    ("place", _is_text, ""),
    ("attributes", _is_text, "{}"),
    ("queue", _is_text, ""),
)


def read_census(census: str) -> dict[str, int]:
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


def checksum(run_id: str, kind: str, path: str, n: int, body: bytes, digest: bytes) -> int:
    """Return the checksum of an entry."""
    return crc32(b"%d%b%b" % (n, digest, body), _name_checksum(run_id, kind, path)) - _SIGN


@lru_cache(256)
def _name_checksum(run_id: str, kind: str, path: str) -> int:
    name = f"{run_id}\0{kind}\0{path}\0"
    return crc32(name.encode(errors="surrogatepass"))  # the database rejects surrogates


def checked(run_id: str, found: Iterable[Sequence[Any]]) -> list[LogEntry]:
    """Make entries from rows of kind, path, n, body, digest and checksum. Raises StoreCorruptError on a mismatch."""
    entries = []
    for kind, path, n, body, digest, crc in found:
        is_named = type(kind) is str and type(path) is str and type(n) is int
        try:
            fits = is_named and checksum(run_id, kind, path, n, body, digest) == crc
        except TypeError:  # it is not bytes
            fits = False
        if not fits:
            raise StoreCorruptError(damaged_entry(run_id, kind, path, n))
        entries.append(LogEntry(kind, path, n, body, digest))
    return entries


def messages(found: Iterable[LogEntry]) -> list[Message]:
    """Make messages from their rows, which have the columns of entries."""
    return [Message(each.n, each.path, each.kind, each.body) for each in found]


def worker_info(owner: str, info: Any) -> dict[str, Any]:
    """Return the stored description of an owner. Raise StoreCorruptError if it is not a JSON object."""
    try:
        return msgspec.json.decode(info, type=dict[str, Any])
    except (msgspec.MsgspecError, TypeError, ValueError):
        raise StoreCorruptError(damaged_owner(owner)) from None


def problems(checks: Iterable[tuple[Callable[[str], object], str]]) -> Iterator[str]:
    """Run checks, each with the name of what it checks, and yield the message of each StoreCorruptError."""
    for check, name in checks:
        try:
            check(name)
        except UnknownRunError:  # deleted in the meantime
            pass
        except StoreCorruptError as error:
            yield str(error)
