"""Checks of writes that do not wait for the disk: all other rules apply to them too."""

from __future__ import annotations

from clew.errors import CommitConflictError, RunExistsError, RunOwnedError
from clew.stores.conformance.harness import LEASE, StoreHarness, an_entry, check, expect, names, refuses
from clew.stores.protocol import RunRow


@check
def writes_that_do_not_wait_follow_the_same_rules(place: StoreHarness) -> None:
    store = place.open()
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


@check
def access_that_never_waits_sees_the_same_data(place: StoreHarness) -> None:
    store, fence = place.owned()
    prompt = store.at_once()
    if prompt is None:
        return
    expect(prompt.at_once() is prompt, True, "at_once() of the access that never waits")
    prompt.append("r", [an_entry(1)], fence)
    expect(names(store.entries("r")), [("step", "", 1)], "the log")
    store.append("r", [an_entry(2)], fence)
    expect(
        names(prompt.entries("r")),
        [("step", "", 1), ("step", "", 2)],
        "the log of the access that never waits",
    )
