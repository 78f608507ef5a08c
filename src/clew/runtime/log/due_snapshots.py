"""Snapshots inside a run: one is due whenever the steps since the last one outweigh it."""

from __future__ import annotations

from collections.abc import Iterator

from clew.runtime.log.large_values import Blobs
from clew.runtime.log.reader import StoredRun
from clew.runtime.log.snapshots import snapshot_entry
from clew.runtime.log.writer import FIRST_SNAPSHOT, OUTWEIGH
from clew.stores import LogEntry
from clew.stores.protocol import LAST


def missing_snapshots(run: StoredRun) -> Iterator[tuple[LogEntry, Blobs]]:
    """Create the snapshots that were due after the last one and are missing."""
    since = 0
    state, weight = run.snapshot(LAST, keeps=True) or (run.start(), 0)
    walk = run.walk(state)
    del state
    for cursor, size in walk:
        since += size
        if since > max(FIRST_SNAPSHOT, OUTWEIGH * weight):
            blobs: Blobs = {}
            entry, weight = snapshot_entry(cursor.state(fetched=False), blobs)
            yield entry, blobs
            since = 0
