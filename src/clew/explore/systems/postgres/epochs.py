"""Schema epochs: the time between two schema changes, and the way back to one without a clone.

The states of an epoch are a tree of row deltas. Without a clone, the epoch after it knows the state in which it was
left. If the schema change only added definitions, going back means to drop them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from clew.errors import RollbackError
from clew.explore.systems.delta_tree import DeltaNode
from clew.explore.systems.postgres.catalog import WatchedObjects
from clew.explore.systems.postgres.change_capture import ChangeCapture
from clew.explore.systems.postgres.definitions import Definitions, are_added_to, drop_added, read_definitions
from clew.explore.systems.postgres.restore import Delta, Sequences
from clew.explore.systems.table_choice import TableChoice

NO_CLONE = (
    "the schema has changed since that checkpoint, and no clone was made; make the first checkpoint before the "
    'application connects, or use clones="always"'
)
BY_CLONE = "takes a copy of the whole database"
BY_DROPPING = "is possible only if something was added, because no clone was made"


@dataclass(eq=False)
class PostgresEpoch:
    """The time between two schema changes: the watched objects, and the clone of its first state."""

    watched: WatchedObjects
    fingerprint: tuple[Any, ...] | None
    clone: str | None
    tokens: int = 0
    first: State | None = None
    definitions: Definitions | None = None  # without a clone
    before: PostgresEpoch | None = None  # the epoch that this one continues, without a clone
    left: int | None = None  # the mark of the last state of that one


@dataclass(frozen=True)
class PostgresStateInfo:
    """Information about a state in addition to its rows."""

    epoch: PostgresEpoch | None  # None before the epoch's first checkpoint
    sequences: Sequences


State = DeltaNode[tuple[int, str], PostgresStateInfo]


def can_undo(session: ChangeCapture, now: PostgresEpoch | None, epoch: PostgresEpoch) -> bool:
    """Return whether the changes since an epoch only added definitions."""
    while now is not None and now is not epoch:
        now = now.before
    if now is None or epoch.definitions is None:
        return False
    return are_added_to(read_definitions(session.link, session.schema), epoch.definitions)


def undo(session: ChangeCapture, choice: TableChoice, epoch: PostgresEpoch) -> PostgresEpoch:
    """Drop what the schema change before an epoch added; return the epoch before it. The rows are in its last state."""
    before = epoch.before
    assert before is not None
    assert before.definitions is not None
    drop_changes(session, choice, before.definitions)
    before.watched, before.fingerprint = session.watched, session.fingerprint
    return before


def drop_changes(session: ChangeCapture, choice: TableChoice, definitions: Definitions) -> None:
    """Drop all definitions that were added, and watch the tables that remain."""

    def drop(last: Delta) -> None:
        if last:
            raise RollbackError("the application writes while a schema change is undone; stop it first")
        drop_added(session.link, session.schema, definitions)

    session.watch(choice, strict=False, alter=drop)
