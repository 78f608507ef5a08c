"""Writes that do not wait for the disk, for stores that have them: all other rules hold for them too."""

from __future__ import annotations

from typing import Any, cast

from clew.errors import CommitConflictError, RunExistsError, RunOwnedError
from clew.stores.conformance.harness import LEASE, StoreHarness, an_entry, check, expect, names, refuses
from clew.stores.protocol import RunRow


@check
def what_is_not_waited_for_is_kept_by_the_same_rules(place: StoreHarness) -> None:
    store = cast(Any, place.open())
    if not getattr(store, "defers", False):
        return
    fence = store.create(RunRow("r"), owner="me", lease=LEASE, wait=False)
    other = place.open()
    expect(other.row("r").status, "running", "the status of a run that others see")
    with refuses(RunExistsError):
        store.create(RunRow("r"), wait=False)
    with refuses(RunOwnedError):
        other.claim("r", "you", lease=LEASE)
    store.append("r", [an_entry(1)], fence, wait=False)
    store.append("r", [an_entry(1), an_entry(2)], fence, wait=False)
    with refuses(CommitConflictError):
        store.append("r", [an_entry(3), an_entry(2, b"another")], fence, wait=False)
    with refuses(RunOwnedError):
        store.append("r", [an_entry(3)], fence - 1, wait=False)
    for _ in range(2):
        store.sync()
        expect(names(other.entries("r")), [("step", "", 1), ("step", "", 2)], "the log")
