"""Snapshots in chains of forks and turns, so that reading a run does not read the whole chain.

A fork or turn is read from the nearest snapshot among its ancestors. If that is eight runs away or more, the new run
gets a snapshot of its first state, unless it costs too much: all snapshots of a chain together take at most eight times
the bytes of its steps and inputs. A snapshot stores how much of this is left (its credit). So the cost of a turn does
not grow with the thread as long as a turn changes a small part of the state, and the storage grows with the new data.
"""

from __future__ import annotations

import msgspec

from clew.runtime.log.entries.large_values import Blobs
from clew.runtime.log.snapshots import snapshot_entry
from clew.state import GraphState
from clew.stores import LogEntry

FAR = 8  # runs between two snapshots
_SHARE = 8  # bytes of snapshots for each byte of new data
_FREE = 4_096  # bytes


class SnapshotDistance(msgspec.Struct):
    """What was read to get a state: how many runs since the nearest snapshot, and the bytes of their steps."""

    runs: int = 0
    size: int = 0
    blobs: set[str] = set()
    """The blobs of that snapshot."""
    credit: int = _FREE


def turn_snapshot(start: GraphState, distance: SnapshotDistance) -> tuple[LogEntry, Blobs] | None:
    """Return a snapshot of the first state of a run, given how its parent's state was read; None if none is due."""
    if distance.runs < FAR or distance.runs % FAR:
        return None
    blobs: Blobs = {}
    left = 0

    def credit(size: int, stored: Blobs) -> int:
        nonlocal left
        size += sum(len(stored[each]) for each in stored.keys() - distance.blobs)
        left = distance.credit + _SHARE * distance.size - size
        return left

    entry, _ = snapshot_entry(start, blobs, credit=credit)
    return (entry, blobs) if left >= 0 else None
