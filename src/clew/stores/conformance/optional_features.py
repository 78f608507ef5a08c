"""Checks of optional features: writes that do not wait for the disk, to which all other rules apply, access that never
waits, and `change_mark`, with which a follower of a run misses no change.
"""

from __future__ import annotations

from collections.abc import Callable

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


_KINDS = ("question", "emitted")


@check
def a_mark_changes_with_the_run(place: StoreHarness) -> None:
    store, fence = place.owned()
    reader = place.open()
    changes: dict[str, Callable[[], object]] = {
        "a step": lambda: store.append("r", [an_entry(1)], fence),
        "several steps": lambda: store.append("r", [an_entry(2), an_entry(3)], fence),
        "an entry": lambda: store.append("r", [an_entry(0, kind="question", path="a#0")], fence),
        "a later entry": lambda: store.append("r", [an_entry(1, kind="emitted")], fence),
        "a replaced entry": lambda: store.append(
            "r", [an_entry(2, kind="emitted")], fence, drop=[("emitted", "", 1)]
        ),
        "a new status": lambda: store.update("r", status="waiting", updated=1.0, error=None, fence=fence),
        "an end": lambda: store.update(
            "r", status="completed", updated=2.0, error=None, fence=fence, release=True
        ),
    }
    for each in (store, reader):
        mark = each.change_mark("r", _KINDS)
        expect(each.change_mark("r", _KINDS), mark, "the mark of an unchanged run")
    for what, change in changes.items():
        before = [each.change_mark("r", _KINDS) for each in (store, reader)]
        change()
        after = [each.change_mark("r", _KINDS) for each in (store, reader)]
        expect([a != b for a, b in zip(after, before)], [True, True], f"the mark changes with {what}")


@check
def marks_belong_to_runs(place: StoreHarness) -> None:
    store = place.open()
    store.create(RunRow("r"))
    mark = store.change_mark("r", _KINDS)
    store.delete("r")
    store.create(RunRow("r"))
    expect(
        store.change_mark("r", _KINDS) != mark, True, "the mark of a run with the id of a deleted one differs"
    )
    expect(store.mark_interval > 0, True, "the interval is positive")
