"""Schema epochs: the time between two schema changes, and what is known about each state.

Deltas do not describe DDL. A schema change starts a new *schema epoch*: a copy of the whole database is made, and the
states of the epoch are that copy plus deltas. Each epoch is a separate root of the tree.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from clew.explore.model.system import Observation
from clew.explore.systems.delta_tree import DeltaNode, add
from clew.explore.systems.sqlite import row_images as images
from clew.explore.systems.sqlite.schema import SQLiteTable, WatchedSchema

Item = tuple[int, bytes]  # table number, image
Delta = dict[Item, int]

Numbers = tuple[tuple[str, int], ...]  # that are restored, and are not part of the state


class SchemaEpoch(msgspec.Struct, eq=False):
    """The time between two schema changes."""

    schema: WatchedSchema
    version: int  # PRAGMA schema_version
    copy: Path  # of the database when the epoch started
    seq: int = 0  # the last journal entry in the copy
    shadows: Delta = {}  # the rows of all shadow tables in the copy
    root: StateNode | None = None  # the state of the copy


class SQLiteStateInfo(msgspec.Struct, eq=False):
    """Information about a state in addition to its delta."""

    epoch: SchemaEpoch
    sums: tuple[images.Sum, ...]
    numbers: Numbers
    observation: Observation | None = None


StateNode = DeltaNode[Item, SQLiteStateInfo]


def recorded(
    info: SQLiteStateInfo,
    changes: Iterable[tuple[SQLiteTable, int, images.Row]],
    numbers: Numbers,
    shadows: Delta,
) -> tuple[Delta, SQLiteStateInfo]:
    """Return the delta of changed rows, and the information about the state after them.

    Each row comes with +1 if it was inserted and -1 if it was removed. `shadows` are changes of shadow tables, which
    have no row triggers.
    """
    delta: Delta = dict(shadows)
    sums = None
    for table, sign, row in changes:
        image = images.encode(row)
        add(delta, {(table.number, image): sign})
        sums = list(info.sums) if sums is None else sums
        if not table.shadow:
            seen = images.observed(table, row, image)
            sums[table.number] = images.plus(sums[table.number], seen, sign)
    if sums is None and not shadows and numbers == info.numbers:
        return delta, info
    # A number is not part of the identity, so the observation stays valid if nothing else changed.
    observation = None if sums is not None or shadows else info.observation
    return delta, SQLiteStateInfo(info.epoch, tuple(sums or info.sums), numbers, observation)
