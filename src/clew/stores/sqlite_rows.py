"""The rows of a `SQLiteStore`: what is known about a run, and whether that is what was written.

A run's row is in two tables, because what it began with is large and its owner's lease is not. What does not change
while the run lives has a checksum; a row that does not fit it, or cannot be read at all, says so in `RunRow.damage`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any
from zlib import crc32

import msgspec

from clew.stores.protocol import RunRow
from clew.stores.refusals import damaged_row

ROW = (
    "SELECT run_id, graph, start, seed, status, created, updated, parent, parent_step, error, structure, codes, "
    "target, crc, origins.run FROM runs LEFT JOIN origins ON origins.run = runs.id"
)
_ADD = (
    "INSERT INTO runs (run_id, status, created, updated, graph, seed, parent, parent_step, structure, target, error) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


def add_row(db: sqlite3.Connection, row: RunRow) -> int:
    """Write a row; the run's number. sqlite3.IntegrityError if its id is taken."""
    seed, codes = str(row.seed), msgspec.json.encode(row.codes).decode()
    values = (row.run_id, row.status, row.created, row.updated, row.graph, seed, row.parent, row.parent_step)
    number = db.execute(_ADD, (*values, row.structure, row.target, row.error)).lastrowid
    assert number is not None
    of = (row.run_id, row.graph, row.start, seed, row.created, row.parent, row.parent_step)
    crc = _checksum(*of, row.structure, codes, row.target)
    db.execute("INSERT INTO origins VALUES (?, ?, ?, ?)", (number, row.start, codes, crc))
    return number


def read_row(found: Sequence[Any]) -> RunRow:
    """A row from what `ROW` selects; what is wrong with it is in its `damage`."""
    *values, crc, origin = found
    run_id, graph, start, seed, _, created, _, parent, parent_step, _, structure, codes, target = values
    wrong = ""
    if origin is None:
        wrong = "what it began with is missing"
    elif crc is not None:  # a row of before there were checksums has none
        try:
            fits = crc == _checksum(
                run_id, graph, start, seed, created, parent, parent_step, structure, codes, target
            )
        except (TypeError, UnicodeError):  # a byte has changed what kind of value it is
            fits = False
        wrong = "" if fits else "its checksum does not fit"
    try:
        values[3], values[11] = int(seed), msgspec.json.decode(codes or "{}", type=dict[str, str])
    except (ValueError, TypeError, msgspec.DecodeError) as error:
        wrong = wrong or str(error)
        values[3], values[11] = 0, {}
    row = RunRow(*values)
    row.damage = damaged_row(str(run_id), wrong) if wrong else ""
    return row


def _checksum(
    run_id: str,
    graph: str,
    start: bytes | None,
    seed: str,
    created: float,
    parent: str | None,
    parent_step: int | None,
    structure: str,
    codes: str,
    target: str,
) -> int:
    head = f"{run_id}\0{graph}\0{seed}\0{created}\0{parent}\0{parent_step}\0{structure}\0{target}\0{codes}"
    return crc32(head.encode(errors="surrogatepass"), crc32(start or b""))
