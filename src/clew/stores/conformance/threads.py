"""Checks of threads: a head that moves only from where the caller expects it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256

from clew.errors import RunExistsError, RunOwnedError, ThreadMovedError, UnknownRunError
from clew.stores.conformance.harness import NAMES, StoreHarness, check, expect, refuses
from clew.stores.protocol import RunRow, ThreadMove


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
