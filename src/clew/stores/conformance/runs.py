"""Checks of runs: their rows, their children, which are listed apart and deleted with them, and threads, whose heads
move only from where the caller expects them.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from typing import Any

from clew.errors import RunExistsError, RunOwnedError, StoreError, ThreadMovedError, UnknownRunError
from clew.stores.conformance.harness import LEASE, NAMES, StoreHarness, an_entry, check, expect, refuses
from clew.stores.protocol import RunRow, Store, ThreadMove


@check
def a_row_comes_back_as_it_was_given(place: StoreHarness) -> None:
    store = place.open()
    body: Any = b'{"x": 1}\x00\xff' if store.encodes else {"x": object}
    row = RunRow(
        "r", "graph", body, 2**64 + 1, "waiting", 1.5, 1e9 + 0.25, "p", 3, body, "hash", {"n": "ö"}, "m:g"
    )
    store.create(RunRow("p"))
    store.create(row)
    expect(store.row("r"), row, "the row")
    bare = RunRow("bare")
    store.create(bare)
    expect(place.open().row("bare"), bare, "a row of defaults")


@check
def runs_are_found_by_every_status(place: StoreHarness) -> None:
    store = place.open()
    statuses = ("running", "waiting", "paused", "completed", "failed", "cancelled")
    for status in statuses:
        store.create(RunRow(f"is {status}"))
        store.update(f"is {status}", status=status, updated=1.0, error=None, fence=0)
    for status in statuses:
        expect([row.run_id for row in place.open().rows(status)], [f"is {status}"], f"the {status} runs")


@check
def an_id_is_taken_once(place: StoreHarness) -> None:
    store = place.open()
    store.create(RunRow("r", "first"))
    with refuses(RunExistsError):
        store.create(RunRow("r", "second"))
    expect(store.row("r").graph, "first", "the graph of the run that existed")


@check
def a_run_is_created_with_its_log(place: StoreHarness) -> None:
    store = place.open()
    entries = [an_entry(n) for n in (1, 2)] + [an_entry(0, kind="call", path="a#0"), an_entry(1, path="a#0/")]
    store.create(RunRow("p"))
    store.create(RunRow("r", parent="p", parent_step=0), entries=entries)
    names = sorted(entry.name for entry in entries)
    expect([entry.name for entry in place.open().entries("r")], names, "the log of the new run")
    with refuses(RunExistsError):
        store.create(RunRow("r"), entries=[an_entry(3)])
    with refuses(UnknownRunError):
        store.create(RunRow("s", parent="unknown"), entries=entries)
    expect([entry.name for entry in store.entries("r")], names, "the log after two rejected runs")
    expect([row.run_id for row in store.rows()], ["p", "r"], "the runs after two rejected ones")
    fence = store.create(RunRow("owned"), entries=entries, owner="one", lease=60.0)
    store.append("owned", [an_entry(3)], fence)
    expect(
        store.last("owned", "step", "", 9).n, 3, "the last step of a run that was created and owned at once"
    )


@check
def rows_are_listed_in_the_order_of_creation(place: StoreHarness) -> None:
    store = place.open()
    ids = [f"r{i * 7 % 10}" for i in range(10)]
    for i, run_id in enumerate(ids):
        store.create(RunRow(run_id, status="failed" if i % 2 else "running", created=-float(i)))
    expect([row.run_id for row in store.rows()], ids, "all runs")
    expect([row.run_id for row in store.rows("failed")], ids[1::2], "failed runs")
    expect(store.rows("no such status"), [], "runs of a status that none has")


@check
def a_released_run_has_a_census(place: StoreHarness) -> None:
    store, fence = place.owned()
    entries = [an_entry(n) for n in (1, 2, 3)] + [an_entry(n, kind="call", path="a#0") for n in (0, 1)]
    store.append("r", [*entries, an_entry(1, path="a#0/")], fence)
    expect(store.row("r").census, None, "the census of a run that was never released")

    def update(**more: Any) -> None:
        store.update("r", status="failed", updated=1.0, error=None, fence=fence, **more)

    update(release=True)
    expect(store.row("r").census, {"": 3, "call": 2, "step": 1}, "the census")
    expect(store.rows()[0].census, {"": 3, "call": 2, "step": 1}, "the census in the list")
    update()
    store.append("r", [an_entry(4), an_entry(2, kind="call", path="a#0")], fence, drop=[entries[-1].name])
    expect(store.row("r").census, {"": 3, "call": 2, "step": 1}, "the stored census of a resumed run")
    counts = {("call", "a#0"): 2, ("step", "a#0/"): 1}
    expect(store.log_end("r", (), most=1).counts, counts, "the counts of kinds and paths")
    store.append("r", [an_entry(0, kind="call", path="a#1")], fence, drop=[("call", "a#0", 2)])
    now = {("call", "a#0"): 1, ("call", "a#1"): 1, ("step", "a#0/"): 1}
    expect(store.log_end("r", (), most=1).counts, now, "the counts after a drop")
    store.append("r", [], fence, drop=[("call", "a#1", 0)])
    store.append(
        "r", [], fence, drop=[entry.name for entry in [*entries, an_entry(4), an_entry(1, path="a#0/")]]
    )
    update(release=True)
    expect(store.row("r").census, {}, "the census of an empty log")


@check
def an_update_changes_what_it_says(place: StoreHarness) -> None:
    store, fence = place.owned()
    before = store.row("r")
    error: Any = b"\x00why" if store.encodes else ValueError("why")
    store.update("r", status="failed", updated=7.5, error=error, fence=fence)
    after = store.row("r")
    expect((after.status, after.updated, after.error), ("failed", 7.5, error), "status, updated and error")
    expect(
        (before.status, before.updated, before.error), ("running", 0.0, None), "a row that was read before"
    )
    expect([row.run_id for row in store.rows("failed")], ["r"], "failed runs")
    store.update("r", status="completed", updated=8.0, error=None, fence=fence)
    expect(place.open().row("r").error, None, "the error after another update")


@check
def changes_to_a_returned_row_have_no_effect(place: StoreHarness) -> None:
    store = place.open()
    given = RunRow("r")
    store.create(given)
    given.status = store.row("r").status = store.rows()[0].status = "scribbled"
    expect(store.row("r").status, "running", "the status after changes to returned rows")


@check
def an_unknown_id_raises_unknown_run_error(place: StoreHarness) -> None:
    store = place.open()
    uses: list[Callable[[], Any]] = [
        lambda: store.row("unknown"),
        lambda: store.update("unknown", status="failed", updated=0.0, error=None, fence=0),
        lambda: store.claim("unknown", "me", lease=LEASE),
        lambda: store.owner("unknown"),
        lambda: store.append("unknown", [an_entry()], 0),
        lambda: store.append("unknown", [an_entry()], 1 << 32 | 1),
        lambda: store.append("unknown", [], 0),
        lambda: store.entries("unknown"),
        lambda: store.find("unknown", "step", ""),
        lambda: store.last("unknown", "step", "", 1),
        lambda: store.delete("unknown"),
    ]
    for use in uses:
        with refuses(UnknownRunError):
            use()
    store.release("unknown", 1)
    expect(store.rows(), [], "all runs")


@check
def a_deleted_run_is_gone_with_all_it_had(place: StoreHarness) -> None:
    store, fence = place.owned()
    store.append("r", [an_entry(1), an_entry(2), an_entry(1, kind="call", path="a")], fence)
    store.create(RunRow("other"))
    store.delete("r")
    with refuses(UnknownRunError):
        store.row("r")
    with refuses(UnknownRunError):
        store.append("r", [an_entry(3)], fence)
    expect([row.run_id for row in store.rows()], ["other"], "the runs that are left")
    store.create(RunRow("r", "again"))
    expect(list(store.entries("r")), [], "the log of a new run with the id of a deleted one")


@check
def a_fence_is_not_valid_for_a_new_run_of_the_same_id(place: StoreHarness) -> None:
    store, fence = place.owned()
    other = place.open()
    other.delete("r")
    other.create(RunRow("r"))
    with refuses(RunOwnedError):
        store.append("r", [an_entry()], fence)
    other.claim("r", "other", lease=LEASE)
    with refuses(RunOwnedError):
        store.append("r", [an_entry()], fence)
    expect(list(other.entries("r")), [], "the log of the new run")


@check
def a_run_with_a_fork_is_not_deleted(place: StoreHarness) -> None:
    store = place.open()
    store.create(RunRow("parent"))
    store.create(RunRow("fork", parent="parent", parent_step=3))
    with refuses(StoreError):
        store.delete("parent")
    store.delete("fork")
    store.delete("parent")
    expect(store.rows(), [], "all runs")


@check
def a_fork_of_an_unknown_run_is_rejected(place: StoreHarness) -> None:
    store = place.open()
    with refuses(UnknownRunError):
        store.create(RunRow("fork", parent="parent", parent_step=3))
    expect(store.rows(), [], "all runs")


def _family(store: Store) -> None:
    store.create(RunRow("r"))
    store.create(RunRow("other", status="failed"))
    store.create(RunRow("c1", child_of="r", place="a#0!0", status="failed"))
    store.create(RunRow("c2", child_of="r", place="a#0!1"))
    store.create(RunRow("d", child_of="c1", place="b#0!0"))


def _ids(store: Store, **options: str) -> list[str]:
    return [row.run_id for row in store.rows(**options)]


@check
def a_child_names_its_run_and_its_place(place: StoreHarness) -> None:
    store = place.open()
    store.create(RunRow("r"))
    row = RunRow("c", "graph", child_of="r", place="sub#0/a#1[2]!0.1")
    store.create(row, entries=[an_entry(1)])
    expect(place.open().row("c"), row, "the row of the child")
    expect(store.row("r").child_of, None, "the outer run of a run that is no child")


@check
def children_are_listed_by_their_run(place: StoreHarness) -> None:
    store = place.open()
    _family(store)
    expect(_ids(store), ["r", "other", "c1", "c2", "d"], "all runs")
    expect(_ids(store, of=""), ["r", "other"], "the runs that are not children")
    expect(_ids(store, of="r"), ["c1", "c2"], "the children of a run")
    expect(_ids(store, of="c1"), ["d"], "the children of a child")
    expect(_ids(store, of="d"), [], "the children of a run without any")
    expect(_ids(store, of="unknown"), [], "the children of an unknown run")
    expect(_ids(store, status="failed", of="r"), ["c1"], "the failed children")
    expect(_ids(store, status="failed", of=""), ["other"], "the failed runs that are not children")


@check
def a_child_of_an_unknown_run_is_rejected(place: StoreHarness) -> None:
    store = place.open()
    with refuses(UnknownRunError):
        store.create(RunRow("c", child_of="r", place="a#0!0"))
    expect(store.rows(), [], "all runs")


@check
def children_are_deleted_with_their_run(place: StoreHarness) -> None:
    store = place.open()
    _family(store)
    store.create(RunRow("fork", parent="d", parent_step=0))
    with refuses(StoreError):
        store.delete("r")
    expect(_ids(store), ["r", "other", "c1", "c2", "d", "fork"], "the runs after a refused deletion")
    store.delete("fork")
    store.delete("c1")
    expect(_ids(store), ["r", "other", "c2"], "the runs after the deletion of a child")
    store.create(RunRow("c1", child_of="r", place="a#0!0"))
    store.delete("r")
    expect(_ids(place.open()), ["other"], "the runs after the deletion of their run")


@check
def a_thread_has_a_head(place: StoreHarness) -> None:
    store = place.open()
    expect(store.head("t"), None, "the head of a thread that does not exist")
    store.create(RunRow("r1"), thread=ThreadMove("t"))
    store.create(RunRow("r2", parent="r1", parent_step=0), thread=ThreadMove("t", "r1"))
    store.create(RunRow("other"))
    expect(place.open().head("t"), "r2", "the head")
    expect(store.threads(), [("t", "r2")], "all threads")
    for name in NAMES:
        store.create(RunRow(f"of {name}"), thread=ThreadMove(name))
        expect(store.head(name), f"of {name}", "the head of a thread with an unusual name")
    expect([name for name, _ in store.threads()], sorted([*NAMES, "t"]), "the names of all threads")


@check
def a_thread_moves_only_from_the_expected_head(place: StoreHarness) -> None:
    store = place.open()
    store.create(RunRow("r1"), thread=ThreadMove("t"))
    with refuses(ThreadMovedError):
        store.create(RunRow("r2"), thread=ThreadMove("t"))
    with refuses(ThreadMovedError):
        store.create(RunRow("r2"), thread=ThreadMove("t", "r0"))
    with refuses(ThreadMovedError):
        store.create(RunRow("r2"), thread=ThreadMove("new", "r1"))
    with refuses(RunExistsError):
        store.create(RunRow("r1"), thread=ThreadMove("t", "r1"))
    expect([row.run_id for row in store.rows()], ["r1"], "the runs after rejected moves")
    expect(store.threads(), [("t", "r1")], "the threads after rejected moves")


@check
def one_of_several_callers_moves_a_thread(place: StoreHarness) -> None:
    store = place.open()
    store.create(RunRow("r"), thread=ThreadMove("t"))

    def move(n: int) -> bool:
        try:
            place.open().create(RunRow(f"r{n}", parent="r", parent_step=0), thread=ThreadMove("t", "r"))
        except ThreadMovedError:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        moved = list(pool.map(move, range(8)))
    expect(sum(moved), 1, "the callers that moved the thread")
    expect(store.head("t"), f"r{moved.index(True)}", "the head")
    expect(len(store.rows()), 2, "the runs")


@check
def a_detached_run_does_not_need_its_parent(place: StoreHarness) -> None:
    store = place.open()
    first, full = (b"first", b"full") if store.encodes else ("first", "full")
    store.create(RunRow("r1", start=first), thread=ThreadMove("t"))
    store.create(RunRow("r2", start=first, parent="r1", parent_step=0), thread=ThreadMove("t", "r1"))
    fence = store.claim("r2", "me", lease=60)
    row = store.row("r2")
    row.start, row.parent, row.parent_step = full, None, None
    with refuses(RunOwnedError):
        store.detach(row, {}, fence - 1)
    expect(store.row("r2").parent, "r1", "the parent after a rejected change")
    with refuses(UnknownRunError):
        store.detach(RunRow("r3", start=full), {}, fence)
    content = b"large"
    digest = sha256(content).hexdigest()
    store.detach(row, {digest: content}, fence)
    found = place.open().row("r2")
    expect((found.start, found.parent, found.parent_step), (full, None, None), "the detached run")
    store.delete("r1")
    expect(store.threads(), [("t", "r2")], "the thread without its first run")
    expect(store.blob(digest), content, "a blob of the new initial state")
    expect(list(store.check()), [], "problems")


@check
def a_deleted_head_moves_the_thread_back(place: StoreHarness) -> None:
    store = place.open()
    store.create(RunRow("r1"), thread=ThreadMove("t"))
    store.create(RunRow("r2", parent="r1", parent_step=0), thread=ThreadMove("t", "r1"))
    store.delete("r2")
    expect(store.head("t"), "r1", "the head after the deletion of the last run")
    store.delete("r1")
    expect(store.head("t"), None, "the head after the deletion of the only run")
    store.create(RunRow("r3"), thread=ThreadMove("t"))
    expect(store.threads(), [("t", "r3")], "the thread after a new start")
