"""Checks of the queue: the rules of `clew.stores.queue`."""

from __future__ import annotations

import math
import time
from typing import Any

from clew.errors import OwnerDeadError, RunExistsError, RunOwnedError, UnknownRunError
from clew.stores.conformance.harness import (
    LEASE,
    StoreHarness,
    an_entry,
    check,
    concurrently,
    expect,
    refuses,
)
from clew.stores.protocol import QueueEntry, RunRow, Store, TakenRun, ThreadMove

_LATER = 1e6  # seconds; no check takes that long


def _take(store: Store, owner: str = "me", limit: int = 10, **more: Any) -> list[TakenRun]:
    given = {"structures": ["s"], "queues": ["default"], "limit": limit, "lease": LEASE, **more}
    return store.take(owner, **given)


def _ids(taken: list[TakenRun]) -> list[str]:
    return [each.row.run_id for each in taken]


def _submit(store: Store, run_id: str, **entry: Any) -> None:
    store.create(RunRow(run_id, structure="s"), queue=QueueEntry(**entry))


@check
def a_run_keeps_the_name_of_its_queue(place: StoreHarness) -> None:
    store, other = place.open(), place.open()
    _submit(store, "r", queue="reports")
    store.create(RunRow("never", structure="s"))
    expect((other.row("r").queue, other.row("never").queue), ("reports", ""), "the queue of a new run")
    (taken,) = _take(store, queues=["reports"])
    expect(taken.row.queue, "reports", "the queue of a run that was taken")
    store.enqueue("r", taken.fence, status="queued")
    expect(other.row("r").queue, "reports", "the queue of a run that is enqueued without a name")
    (taken,) = _take(store, queues=["reports"])
    store.enqueue("r", taken.fence, status="queued", queue="mail")
    (taken,) = _take(store, queues=["mail"])
    store.update("r", status="completed", updated=1.0, error=None, fence=taken.fence, release=True)
    fence = store.claim("never", "me", lease=LEASE)
    store.enqueue("never", fence, status="queued")
    expect(other.entry("r"), None, "the entry of a run that has ended")
    expect((other.row("r").queue, other.row("never").queue), ("mail", "default"), "the queues that stay")
    rows, _ = other.page()
    expect({row.run_id: row.queue for row in rows}, {"r": "mail", "never": "default"}, "those of a page")


@check
def a_queued_run_is_taken_once(place: StoreHarness) -> None:
    store, other = place.open(), place.open()
    expect(_take(store), [], "the runs of an empty queue")
    start: Any = b"start" if store.encodes else "start"
    row = RunRow("r", "graph", start, structure="s", codes={"n": "x"})
    expect(store.create(row, queue=QueueEntry()), 0, "the fence of a queued run")
    expect((row.status, other.row("r").status), ("running", "queued"), "the given status, and the stored one")
    expect(other.owner("r"), None, "the owner of a queued run")
    with refuses(RunExistsError):
        store.create(row, queue=QueueEntry())
    (taken,) = _take(other)
    expect((taken.row.run_id, taken.row.start, taken.row.codes), ("r", start, {"n": "x"}), "the row")
    expect((taken.row.status, taken.tries, taken.is_new), ("running", 1, True), "status, tries and newness")
    expect(store.row("r"), taken.row, "the row that is read later")
    expect(_take(store, "you"), [], "what another one can take")
    known = store.owner("r")
    expect(known and known.name, "me", "the owner")
    other.append("r", [an_entry(1)], taken.fence)
    with refuses(RunOwnedError):
        other.append("r", [an_entry(2)], 0)


@check
def runs_are_taken_by_priority_and_due_time(place: StoreHarness) -> None:
    store, now = place.open(), time.time()
    _submit(store, "later", due=now + _LATER)
    _submit(store, "low", priority=2, due=now - 30.0)
    _submit(store, "second", due=now - 10.0)
    _submit(store, "third", due=now - 5.0)
    _submit(store, "first", priority=-1, due=now - 1.0)
    _submit(store, "risen", priority=1, due=now - 605.0)
    _submit(store, "risen twice", priority=1, due=now - 1205.0)
    expect(_ids(_take(store, limit=3)), ["risen twice", "first", "risen"], "the first three")
    expect(_ids(_take(store)), ["second", "third", "low"], "the others")


@check
def a_worker_takes_what_it_asks_for(place: StoreHarness) -> None:
    store = place.open()
    for queue in ("a", "b", "c"):
        for structure in ("s", "t"):
            row = RunRow(f"{queue} {structure}", structure=structure)
            store.create(row, queue=QueueEntry(queue))
    expect(_ids(_take(store)), [], "runs of another queue")
    expect(_ids(_take(store, queues=["a"], structures=["u"])), [], "runs of another structure")
    expect(_ids(_take(store, queues=["a"], structures=["u", "s"])), ["a s"], "one queue and structure")
    expect(sorted(_ids(_take(store, queues=["a", "b"], structures=["s", "t"]))), ["a t", "b s", "b t"], "two")
    expect(
        _take(store, queues=[], structures=["s"]) + _take(store, queues=["c"], structures=[]), [], "nothing"
    )


@check
def each_run_is_taken_by_one_of_several(place: StoreHarness) -> None:
    stores = [place.open() for _ in range(4)]
    for n in range(40):
        _submit(stores[0], f"r{n}")
    taken: list[list[str]] = [[] for _ in stores]

    def work(i: int) -> None:
        for _ in range(40):
            taken[i] += _ids(_take(stores[i], f"owner {i}", limit=3))

    concurrently(work, len(stores))
    # those that others had locked when they were looked for
    missed = _ids(_take(stores[0], "late", limit=100))
    found = sorted([*missed, *(run_id for each in taken for run_id in each)])
    expect(found, sorted(f"r{n}" for n in range(40)), "the runs that were taken")


@check
def runs_of_a_dead_owner_are_taken_again(place: StoreHarness) -> None:
    store, other = place.open(), place.open()
    _submit(store, "r")
    store.create(RunRow("not queued", structure="s"), owner="me", lease=LEASE)
    (first,) = _take(store)
    expect(_take(other, "you"), [], "the runs of a living owner")
    store.renew("me", lease=0.0)
    (second,) = _take(other, "you")
    expect(
        (second.row.run_id, second.row.status, second.fence > first.fence), ("r", "running", True), "the run"
    )
    with refuses(RunOwnedError):
        store.append("r", [an_entry(1)], first.fence)
    for use in (lambda: _take(store), lambda: store.renew("me", lease=LEASE)):
        with refuses(OwnerDeadError):
            use()
    other.append("r", [an_entry(1)], second.fence)


@check
def a_take_is_a_try_if_nothing_was_committed(place: StoreHarness) -> None:
    store = place.open()
    _submit(store, "r")

    def taken_by(owner: str) -> TakenRun:
        (taken,) = _take(store, owner)
        store.retire(owner)
        return taken

    expect([taken_by(f"a{n}").tries for n in range(3)], [1, 2, 3], "tries without a commit")
    last = taken_by("b")
    expect((last.tries, last.is_new), (4, True), "tries")
    store.append("r", [an_entry(1)], last.fence)
    last = taken_by("c")
    expect((last.tries, last.is_new), (1, False), "tries after a step")
    expect(taken_by("d").tries, 2, "tries without another commit")
    last = taken_by("e")
    store.append("r", [an_entry(0, kind="call", path="a#0")], last.fence)
    last = taken_by("f")
    expect(last.tries, 1, "tries after another entry")
    store.append("r", [an_entry(1, kind="call", path="a#0")], last.fence, drop=[("call", "a#0", 0)])
    expect(taken_by("g").tries, 1, "tries after an entry that replaced another")


@check
def a_run_that_was_released_to_sleep_or_wait_has_no_tries(place: StoreHarness) -> None:
    store, now = place.open(), time.time()
    _submit(store, "r")
    for n in range(4):
        (taken,) = _take(store, f"a{n}")
        expect(taken.tries, 1, "tries after a release")
        store.update(
            "r", status="sleeping", updated=1.0, error=None, fence=taken.fence, release=True, due=now - 1.0
        )


@check
def an_entry_is_read(place: StoreHarness) -> None:
    store = place.open()
    with refuses(UnknownRunError):
        store.entry("unknown")
    store.create(RunRow("plain", structure="s"))
    expect(store.entry("plain"), None, "the entry of a run without a queue")
    _submit(store, "r", queue="slow", priority=3, due=5.0)
    expect(store.entry("r"), QueueEntry("slow", 3, 5.0), "the entry")
    (taken,) = _take(store, queues=["slow"])
    expect(store.entry("r"), QueueEntry("slow", 3, 5.0), "the entry of a taken run")
    store.update("r", status="waiting", updated=1.0, error=None, fence=taken.fence, release=True)
    expect(place.open().entry("r"), QueueEntry("slow", 3, math.inf), "a parked entry")
    fence = store.claim("r", "me", lease=LEASE)
    store.update("r", status="completed", updated=1.0, error=None, fence=fence, release=True)
    expect(store.entry("r"), None, "the entry of a run that has ended")


@check
def a_run_that_is_due_at_the_time_of_the_store_can_be_taken(place: StoreHarness) -> None:
    store = place.open()
    before = store.time()
    _submit(store, "r", due=before)
    expect(_ids(_take(store)), ["r"], "what is due")
    expect(store.time() >= before, True, "the clock goes on")


@check
def a_run_without_result_is_taken_alone(place: StoreHarness) -> None:
    store = place.open()
    _submit(store, "bad", due=1.0)
    _submit(store, "also bad", due=2.0)
    for n in range(2):
        expect(_ids(_take(store, f"dead {n}")), ["bad", "also bad"], f"take {n + 1}")
        store.retire(f"dead {n}")
    _submit(store, "first", priority=-(10**9))
    _submit(store, "last", priority=10**9)
    expect(_ids(_take(store, "a")), ["first", "last"], "the others")
    expect(_ids(_take(store, "b")), ["bad"], "a run without result")
    (taken,) = _take(store, "c")
    expect((taken.row.run_id, taken.tries), ("also bad", 3), "the next one")


@check
def a_final_status_ends_an_entry(place: StoreHarness) -> None:
    store = place.open()
    for status in ("completed", "failed", "cancelled"):
        for release in (True, False):
            _submit(store, f"{status} {release}")
            (taken,) = _take(store)
            store.update(
                taken.row.run_id, status=status, updated=1.0, error=None, fence=taken.fence, release=release
            )
            expect(store.queues(), [], f"the queues after {status}")
    store.retire("me")
    expect(_take(store, "you"), [], "what can be taken")


@check
def a_run_that_sleeps_is_due_later(place: StoreHarness) -> None:
    store, now = place.open(), time.time()
    _submit(store, "r", queue="slow", priority=3)
    store.create(RunRow("never queued", structure="s"))
    fence_of_other = store.claim("never queued", "me", lease=LEASE)
    (taken,) = _take(store, queues=["slow"])

    def sleep(run_id: str, fence: int, due: float | None) -> None:
        store.update(run_id, status="sleeping", updated=1.0, error=None, fence=fence, release=True, due=due)

    sleep("r", taken.fence, now + _LATER)
    expect((store.owner("r"), store.row("r").status), (None, "sleeping"), "the owner and the status")
    expect(_take(store, queues=["slow"]), [], "what can be taken before it is due")
    fence = store.claim("r", "me", lease=LEASE)
    sleep("r", fence, now - 1.0)
    (taken,) = _take(store, queues=["slow", "default"])
    expect((taken.row.run_id, store.row("r").status), ("r", "running"), "what is taken when it is due")
    sleep("never queued", fence_of_other, now - 1.0)
    expect(_ids(_take(store)), ["never queued"], "a run that was not queued, when it is due")
    sleep("r", taken.fence, None)
    store.retire("me")
    expect(_ids(_take(store, "you", queues=["slow"])), [], "a parked run")


@check
def a_run_is_enqueued_again(place: StoreHarness) -> None:
    store, now = place.open(), time.time()
    store.create(RunRow("r", structure="s", status="failed"))
    fence = store.claim("r", "me", lease=LEASE)
    with refuses(RunOwnedError):
        store.enqueue("r", fence - 1, status="queued")
    with refuses(UnknownRunError):
        store.enqueue("unknown", fence, status="queued")
    store.enqueue("r", fence, status="queued")
    expect((store.owner("r"), store.row("r").status), (None, "queued"), "the owner and the status")
    (taken,) = _take(store)
    expect((taken.row.run_id, taken.fence > fence), ("r", True), "the run that is taken")
    store.enqueue("r", taken.fence, status="queued", queue="other", priority=7, due=now + _LATER)
    expect([(each.queue, each.later) for each in store.queues()], [("other", 1)], "the queues")
    fence = store.claim("r", "me", lease=LEASE)
    store.enqueue("r", fence, status="queued")
    expect(_take(store), [], "runs in the first queue")
    expect([each.tries for each in _take(store, queues=["other"])], [2], "tries of the run in its own queue")


@check
def a_claim_takes_the_entry_and_a_release_returns_it(place: StoreHarness) -> None:
    store = place.open()
    _submit(store, "r")
    fence = store.claim("r", "me", lease=LEASE)
    expect(_take(store, "you"), [], "a queued run that another one has claimed")
    store.release("r", fence)
    (taken,) = _take(store, "you")
    expect(taken.row.run_id, "r", "a queued run that was released")
    expect(store.row("r").status, "running", "the status of a run that was taken")
    store.release("r", taken.fence)
    expect((store.row("r").status, store.owner("r")), ("queued", None), "status and owner after a release")
    (taken,) = _take(store, "others")
    store.update("r", status="sleeping", updated=1.0, error=None, fence=taken.fence, release=True)
    fence = store.claim("r", "me", lease=LEASE)
    store.update("r", status="running", updated=2.0, error=None, fence=fence)
    store.release("r", fence)
    expect(store.row("r").status, "running", "the status of a run whose entry is parked")


@check
def queues_are_counted(place: StoreHarness) -> None:
    store, now = place.open(), time.time()
    expect(store.queues(), [], "no queues")
    for n, due in enumerate((now - 100.0, now - 50.0, now + _LATER)):
        _submit(store, f"r{n}", due=due)
    _submit(store, "other", queue="b")
    _submit(store, "taken", queue="b", priority=-1)
    _take(store, queues=["b"], limit=1)
    first, second = place.open().queues()
    expect((first.queue, first.ready, first.later, first.taken), ("b", 1, 0, 1), "one queue")
    expect((second.queue, second.ready, second.later, second.taken), ("default", 2, 1, 0), "the other")
    assert second.oldest is not None, "the age of the oldest ready run is unknown"
    assert 99.0 < second.oldest < 4000.0, f"the oldest ready run has waited {second.oldest} s"


@check
def pages_are_selected_by_due_runs(place: StoreHarness) -> None:
    store = place.open()

    def due() -> list[str]:
        return [row.run_id for row in store.page(due=True, order="oldest")[0]]

    store.create(RunRow("never"), {})
    for run_id in ("now", "later", "parked"):
        _submit(store, run_id, **({"due": store.time() + _LATER} if run_id == "later" else {}))
    expect(due(), ["now", "later", "parked"], "the due runs")
    for each in _take(store):
        more: dict[str, Any] = {"status": "waiting", "updated": 1.0, "error": None, "fence": each.fence}
        store.update(each.row.run_id, release=True, due=None if each.row.run_id == "parked" else 1.0, **more)
    expect(due(), ["now", "later"], "the due runs, without one that waits for a message")
    store.send("parked", "m", "answer", b"m" if store.encodes else "m")
    expect(due(), ["now", "later", "parked"], "the due runs after a message")


@check
def a_queued_run_is_created_with_a_thread_and_deleted_with_its_entry(place: StoreHarness) -> None:
    store = place.open()
    store.create(RunRow("p", structure="s"))
    row = RunRow("r", structure="s", parent="p", parent_step=0)
    store.create(row, queue=QueueEntry(), thread=ThreadMove("t"), entries=[an_entry(1)])
    expect((store.head("t"), store.row("r").status), ("r", "queued"), "the head, and its status")
    store.delete("r")
    expect((store.queues(), _take(store)), ([], []), "the queue after a deletion")
