"""Schema epochs: the time between two schema changes, and the way back to one.

The states of an epoch are a tree of row deltas. The epoch after it knows the state in which it was left. If the schema
change only added definitions, going back means to drop them.
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

NOT_KNOWN = "the schema has changed since that checkpoint in a way that cannot be undone"


@dataclass(eq=False)
class PostgresEpoch:
    """The time between two schema changes: the watched objects and all definitions."""

    watched: WatchedObjects
    fingerprint: tuple[Any, ...] | None
    definitions: Definitions
    before: (
        tuple[PostgresEpoch, int] | None
    )  # the epoch that this one continues, and the token of its last state
    first: State | None = None


@dataclass(frozen=True)
class PostgresStateInfo:
    """Information about a state in addition to its rows."""

    epoch: PostgresEpoch
    sequences: Sequences


State = DeltaNode[tuple[int, str], PostgresStateInfo]


def can_undo(session: ChangeCapture, now: PostgresEpoch | None, epoch: PostgresEpoch) -> bool:
    """Return whether the changes since an epoch only added definitions."""
    while now is not None and now is not epoch:
        now = now.before[0] if now.before is not None else None
    if now is None:
        return False
    return are_added_to(read_definitions(session.link, session.schema), epoch.definitions)


def undo(session: ChangeCapture, choice: TableChoice, epoch: PostgresEpoch) -> None:
    """Drop what the schema change after an epoch added; the rows are in its last state."""
    drop_changes(session, choice, epoch.definitions)
    epoch.watched, epoch.fingerprint = session.watched, session.fingerprint


def drop_changes(session: ChangeCapture, choice: TableChoice, definitions: Definitions) -> None:
    """Drop all definitions that were added, and watch the tables that remain."""

    def drop(last: Delta) -> None:
        if last:
            raise RollbackError("the application writes while a schema change is undone; stop it first")
        drop_added(session.link, session.schema, definitions)

    session.watch(choice, strict=False, alter=drop)
