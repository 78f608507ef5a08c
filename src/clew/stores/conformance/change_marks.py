"""Checks for `change_mark`: a follower of a run misses no change."""

from __future__ import annotations

from collections.abc import Callable

from clew.stores.conformance.harness import StoreHarness, an_entry, check, expect
from clew.stores.protocol import RunRow

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
