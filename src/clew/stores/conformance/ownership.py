"""Checks of ownership: fences, leases, and concurrent owners and threads."""

from __future__ import annotations

import time
from collections.abc import Callable
from hashlib import sha256
from typing import Any

from clew.errors import (
    CommitConflictError,
    OwnerDeadError,
    RunOwnedError,
    StoreCorruptError,
    StoreError,
    UnknownRunError,
)
from clew.stores.conformance.harness import (
    LEASE,
    StoreHarness,
    an_entry,
    check,
    concurrently,
    expect,
    liveness_check,
    names,
    refuses,
    wall_clock,
)
from clew.stores.protocol import Owner, RunRow


@check
def a_run_that_was_never_claimed_has_the_fence_0(place: StoreHarness) -> None:
    store = place.open()
    store.create(RunRow("r"))
    store.append("r", [an_entry(1)], 0)
    store.update("r", status="waiting", updated=1.0, error=None, fence=0)
    for fence in (1, -1, 1 << 32 | 1):
        with refuses(RunOwnedError):
            store.append("r", [an_entry(2)], fence)
    store.claim("r", "me", lease=LEASE)
    with refuses(RunOwnedError):
        store.append("r", [an_entry(2)], 0)


@check
def a_later_claim_makes_a_fence_stale(place: StoreHarness) -> None:
    store, first = place.owned()
    store.append("r", [an_entry(1)], first)
    other = place.open()
    store.renew("me", lease=0.0)
    second = other.claim("r", "other", lease=LEASE)
    assert second > first, f"a later fence is larger: {second} after {first}"
    digest = sha256(b"content").hexdigest()
    uses: list[Callable[[], Any]] = [
        lambda: store.append("r", [an_entry(2)], first),
        lambda: store.append("r", [an_entry(1)], first),  # even if it exists already
        lambda: store.append("r", [an_entry(1, b"clash")], first),
        lambda: store.append("r", [an_entry(2), an_entry(2, b"clash")], first),
        lambda: store.append("r", [an_entry(2), an_entry(3)], first),
        lambda: store.append("r", [], first),
        lambda: store.append("r", [], first, drop=[("step", "", 1)]),
        lambda: store.append("r", [], first, blobs={digest: b"content"}),
        lambda: store.append("r", [an_entry(2, kind="call", path="p")], first),
        lambda: store.update("r", status="failed", updated=1.0, error=None, fence=first),
        lambda: store.renew("me", lease=LEASE),
        lambda: store.claim("r", "me", lease=LEASE),
        lambda: store.create(RunRow("s"), owner="me", lease=LEASE),
    ]
    for use in uses:
        with refuses(RunOwnedError):
            use()
    store.release("r", first)
    expect(names(other.entries("r")), [("step", "", 1)], "the log")
    expect(other.row("r").status, "running", "the status")
    with refuses(StoreCorruptError):
        other.blob(digest)
    with refuses(RunOwnedError):
        store.claim("r", "third", lease=LEASE)
    other.append("r", [an_entry(2)], second)


@check
def a_living_owner_keeps_its_run_until_the_lease_expires(place: StoreHarness) -> None:
    store, fence = place.owned()
    other = place.open()
    with refuses(RunOwnedError):
        other.claim("r", "other", lease=LEASE)
    store.renew("me", lease=0.0)
    store.append("r", [an_entry(1)], fence)  # there was no other claim
    store.renew("me", lease=LEASE)  # so the lease can be renewed
    with refuses(RunOwnedError):
        other.claim("r", "other", lease=LEASE)
    store.renew("me", lease=0.0)
    other.claim("r", "other", lease=LEASE)
    with refuses(RunOwnedError):
        store.append("r", [an_entry(2)], fence)


@check
def a_lease_expires(place: StoreHarness) -> None:
    """A short lease expires by the store's clock, and not before its time."""
    store = place.open()
    for number, lease in enumerate((0.05, 0.2)):
        run_id = f"r{number}"
        store.create(RunRow(run_id))
        before = time.monotonic()
        store.claim(run_id, f"me {number}", lease=lease)
        other = place.open()
        while True:
            try:
                other.claim(run_id, "other", lease=LEASE)
                break
            except RunOwnedError:
                assert time.monotonic() - before < 60.0, "a short lease did not expire"
        assert time.monotonic() - before >= lease, "a lease expired before its time"


@check
def wall_clocks_do_not_affect_leases(place: StoreHarness) -> None:
    """The wall clocks of two programs differ by an hour; neither takes the other's run."""
    store, other = place.open(), place.open()
    for number, (owners, others) in enumerate(((0.0, 3600.0), (0.0, -3600.0), (3600.0, 0.0), (-3600.0, 0.0))):
        run_id, name = f"r{number}", f"me {number}"
        with wall_clock(owners):
            store.create(RunRow(run_id))
            fence = store.claim(run_id, name, lease=60.0)
            store.renew(name, lease=60.0)
        with wall_clock(others):
            with refuses(RunOwnedError):
                other.claim(run_id, "other", lease=60.0)
            found = other.owner(run_id)
            assert found is not None
            assert found.holds, "the owner has lost its run"
        with wall_clock(owners):
            store.append(run_id, [an_entry(1)], fence)
            store.renew(name, lease=0.0)
        with wall_clock(others):
            other.claim(run_id, "other", lease=60.0)


@check
def an_owner_claims_its_run_again_only_with_the_token(place: StoreHarness) -> None:
    store = place.open()
    store.create(RunRow("r"))
    first = store.claim("r", "me", lease=LEASE, token="t1")
    for token in ("", "t2"):
        with refuses(RunOwnedError):
            store.claim("r", "me", lease=LEASE, token=token)
    with refuses(RunOwnedError):
        store.claim("r", "other", lease=LEASE, token="t1")
    store.append("r", [an_entry(1)], first)
    second = store.claim("r", "me", lease=LEASE, token="t1")
    store.append("r", [an_entry(2)], second)
    with refuses(RunOwnedError):
        store.append("r", [an_entry(3)], first)
    known = place.open().owner("r")
    expect((known and known.name, known and known.token), ("me", "t1"), "the owner and its token")
    created = store.create(RunRow("s"), owner="me", lease=LEASE, token="t3")
    with refuses(RunOwnedError):
        store.claim("s", "me", lease=LEASE)
    expect(store.claim("s", "me", lease=LEASE, token="t3") > created, True, "a later fence is larger")


@check
def one_lease_is_for_all_runs_of_an_owner(place: StoreHarness) -> None:
    store, other = place.open(), place.open()
    fences = [store.create(RunRow(f"r{n}"), owner="me", lease=LEASE) for n in range(3)]
    expect([worker.owner for worker in other.workers()], ["me"], "the registered owners")
    store.renew("me", lease=2 * LEASE)
    for n in range(3):
        _expect_owner(other.owner(f"r{n}"), "me", LEASE, 2 * LEASE)
    store.renew("me", lease=0.0)
    other.claim("r0", "other", lease=LEASE)
    for n in range(3):
        known = store.owner(f"r{n}")
        expect(known and (known.name, known.is_alive), ("other" if n == 0 else "me", n == 0), "the owner")
    store.append("r1", [an_entry(1)], fences[1])  # it was never claimed
    other.claim("r1", "other", lease=LEASE)
    with refuses(RunOwnedError):
        store.append("r1", [an_entry(2)], fences[1])


@check
def an_owner_that_was_declared_dead_stays_dead(place: StoreHarness) -> None:
    store, other = place.open(), place.open()
    store.create(RunRow("r"))
    expect(other.expire(), 0, "owners that were declared dead, of none")
    store.claim("r", "me", lease=0.0)
    other.register("living", lease=LEASE)
    expect(other.expire(), 1, "owners that were declared dead")
    expect(other.expire(), 0, "owners that were declared dead again")
    uses: list[Callable[[], Any]] = [
        lambda: store.renew("me", lease=LEASE),
        lambda: store.register("me", lease=LEASE),
        lambda: store.create(RunRow("s"), owner="me", lease=LEASE),
        lambda: store.claim("r", "me", lease=LEASE),
    ]
    for use in uses:
        with refuses(OwnerDeadError):
            use()
    with refuses(UnknownRunError):
        store.row("s")
    with refuses(UnknownRunError):
        store.claim("s", "me", lease=LEASE)
    expect([worker.is_alive for worker in store.workers()], [True, False], "which owners live")
    other.claim("r", "living", lease=LEASE)


@check
def a_claim_leaves_half_of_the_lease(place: StoreHarness) -> None:
    store = place.open()
    store.register("me", lease=0.3 * LEASE)
    store.create(RunRow("r"), owner="me", lease=LEASE)
    _expect_owner(store.owner("r"), "me", 0.9 * LEASE, LEASE)
    store.renew("me", lease=0.8 * LEASE)
    store.create(RunRow("s"))
    store.claim("s", "me", lease=LEASE)
    _expect_owner(store.owner("s"), "me", 0.5 * LEASE, 0.8 * LEASE)


@check
def owners_are_listed(place: StoreHarness) -> None:
    store = place.open()
    expect(store.workers(), [], "the owners in an empty store")
    with refuses(OwnerDeadError):
        store.renew("me", lease=LEASE)
    store.register("me", lease=LEASE, label="first", info={"slots": 8, "queues": ["default"]})
    store.register("b", lease=LEASE)
    found = place.open().workers()
    expect([(each.owner, each.label) for each in found], [("b", ""), ("me", "first")], "names and labels")
    worker = found[1]
    expect((worker.info, worker.is_alive), ({"slots": 8, "queues": ["default"]}, True), "its description")
    expect((bool(worker.host), worker.pid > 0, worker.started > 1e9), (True, True, True), "host, pid, start")
    assert 0.9 * LEASE < worker.expires_in <= LEASE, f"the lease expires in {worker.expires_in}"
    store.renew("me", lease=LEASE)
    expect(store.workers()[1].info, {"slots": 8, "queues": ["default"]}, "its description, after a renewal")
    store.renew("me", lease=LEASE, info={"runs": 1})
    expect(
        (store.workers()[1].info, store.workers()[1].label), ({"runs": 1}, "first"), "its later description"
    )


@check
def a_retired_owner_leaves_its_runs_to_others(place: StoreHarness) -> None:
    store, fence = place.owned()
    store.register("idle", lease=LEASE)
    for name in ("idle", "me", "never registered"):
        store.retire(name)
    store.retire("me")
    expect([(each.owner, each.is_alive) for each in store.workers()], [("me", False)], "owners with runs")
    store.append("r", [an_entry(1)], fence)  # there was no other claim
    with refuses(OwnerDeadError):
        store.renew("me", lease=LEASE)
    place.open().claim("r", "other", lease=LEASE)
    with refuses(RunOwnedError):
        store.append("r", [an_entry(2)], fence)
    store.retire("me")
    expect([each.owner for each in store.workers()], ["other"], "owners, after the last run was taken")


@check
def a_child_belongs_to_the_owner_of_the_outermost_run(place: StoreHarness) -> None:
    store, _ = place.owned()
    first = store.create(RunRow("c", child_of="r", place="a#0!0"), owner="me", lease=LEASE, token="t")
    store.create(RunRow("d", child_of="c", place="a#0!0"))
    for run_id in ("r", "c", "d"):
        _expect_owner(place.open().owner(run_id), "me", 1.0, LEASE)
    store.append("c", [an_entry(1)], first)
    second = store.claim("c", "me", lease=LEASE)
    with refuses(RunOwnedError):
        store.append("c", [an_entry(2)], first)
    store.append("c", [an_entry(2)], second)
    store.renew("me", lease=0.0)
    other = place.open()
    other.claim("r", "other", lease=LEASE)
    _expect_owner(store.owner("d"), "other", 1.0, LEASE)
    store.append("c", [an_entry(3)], second)  # the child was never claimed
    other.claim("c", "other", lease=LEASE)
    with refuses(RunOwnedError):
        store.append("c", [an_entry(4)], second)


@check
def a_child_remembers_the_token_of_its_claim(place: StoreHarness) -> None:
    store, fence = place.owned()
    made = store.create(RunRow("c", child_of="r", place="a#0!0"), owner="me", lease=LEASE, token="t")
    for is_owned in (True, False):
        known = store.owner("c")
        assert known is not None, "the owner of a child is unknown"
        expect((known.name, known.token, known.holds), ("me", "t", is_owned), "the owner of a child")
        store.release("r", fence)
    store.release("c", made)
    expect(store.owner("c"), None, "the owner of a child that was released")


@check
def a_released_run_is_free(place: StoreHarness) -> None:
    store, first = place.owned()
    store.release("r", first)
    store.append("r", [an_entry(1)], first)  # there was no other claim
    store.release("r", first)
    second = place.open().claim("r", "other", lease=LEASE)
    store.release("r", first)
    with refuses(RunOwnedError):
        store.claim("r", "me", lease=LEASE)
    store.release("r", second)
    store.claim("r", "me", lease=LEASE)


@check
def a_fence_is_valid_for_one_run_only(place: StoreHarness) -> None:
    store, fence = place.owned("a")
    store.create(RunRow("b"))
    other = store.claim("b", "me", lease=LEASE)
    for run_id, foreign in (("a", other), ("b", fence)):
        with refuses(RunOwnedError):
            store.append(run_id, [an_entry()], foreign)
        with refuses(RunOwnedError):
            store.append(run_id, [an_entry(), an_entry(2)], foreign)
    expect((list(store.entries("a")), list(store.entries("b"))), ([], []), "the logs")


@check
def one_of_several_concurrent_claims_wins(place: StoreHarness) -> None:
    stores = [place.open() for _ in range(4)]
    for run in range(5):
        run_id = f"r{run}"
        stores[0].create(RunRow(run_id))
        fences: list[int] = []

        def claim(i: int, run_id: str = run_id, fences: list[int] = fences) -> None:
            try:
                fences.append(stores[i].claim(run_id, f"owner {i}", lease=LEASE))
            except RunOwnedError:
                pass

        concurrently(claim, len(stores))
        expect(len(fences), 1, "winners")
        stores[0].append(run_id, [an_entry()], fences[0])


@check
def threads_append_concurrently(place: StoreHarness) -> None:
    store, fence = place.owned()

    def append(i: int) -> None:
        for n in range(25):
            store.append("r", [an_entry(n, b"%d %d" % (i, n), kind="call", path=f"p{i}")], fence)
            store.append("r", [an_entry(n, b"shared %d" % n), an_entry(i, kind=f"k{n}")], fence)
            assert len(store.find("r", "call", f"p{i}")) == n + 1, "an entry that was appended is not found"
            store.entries("r")

    concurrently(append, 4)
    expect(len(store.entries("r", after=-1)), 4 * 25 + 25 + 4 * 25, "entries")


@check
def two_stores_on_the_same_storage_see_the_same(place: StoreHarness) -> None:
    one, two = place.open(), place.open()
    one.create(RunRow("r"))
    fence = two.claim("r", "me", lease=LEASE)
    one.append("r", [an_entry(1)], fence)
    two.append("r", [an_entry(1), an_entry(2)], fence)
    with refuses(CommitConflictError):
        one.append("r", [an_entry(2, b"clash")], fence)
    two.update("r", status="completed", updated=1.0, error=None, fence=fence)
    expect(one.row("r"), two.row("r"), "the row")
    expect(list(one.entries("r")), list(two.entries("r")), "the log")
    one.delete("r")
    with refuses(UnknownRunError):
        two.append("r", [an_entry(3)], fence)


@check
def an_intact_store_has_no_problems(place: StoreHarness) -> None:
    store, fence = place.owned()
    content = b"x" * 100_000
    store.append(
        "r", [an_entry(1), an_entry(1, kind="call")], fence, blobs={sha256(content).hexdigest(): content}
    )
    expect(list(store.check()), [], "the problems found")
    store.close()
    store.close()


@check
def an_owner_is_known_until_it_releases_the_run(place: StoreHarness) -> None:
    store = place.open()
    store.create(RunRow("r"))
    expect(store.owner("r"), None, "the owner of a run that was never claimed")
    fence = store.claim("r", "me", lease=LEASE)
    _expect_owner(place.open().owner("r"), "me", 1.0, LEASE)
    store.renew("me", lease=3 * LEASE)
    _expect_owner(store.owner("r"), "me", 2 * LEASE, 3 * LEASE)
    store.renew("me", lease=0.0)
    _expect_owner(store.owner("r"), "me", -LEASE, 0.0)
    store.release("r", fence)
    expect(store.owner("r"), None, "the owner after a release")
    with refuses(UnknownRunError):
        store.owner("unknown")


@liveness_check
def a_closed_store_has_released_its_runs(place: StoreHarness) -> None:
    store, fence = place.owned()
    store.close()
    other = place.open()
    found = other.owner("r")
    assert found is not None, "the last owner of a run is unknown after its store was closed"
    expect((found.name, found.is_alive, found.holds), ("me", False, False), "the owner")
    other.append("r", [an_entry(1)], fence)  # there was no other claim
    other.claim("r", "other", lease=LEASE)
    with refuses(RunOwnedError):
        other.append("r", [an_entry(2)], fence)


@liveness_check
def an_owner_whose_process_has_ended_is_declared_dead(place: StoreHarness) -> None:
    store, other = place.open(), place.open()
    store.create(RunRow("r"), owner="me", lease=LEASE)
    other.register("living", lease=LEASE)
    expect(other.expire(), 0, "owners that were declared dead")
    store.close()
    known = other.owner("r")  # the server may need a moment to notice
    expect(known and known.is_alive, False, "whether the owner lives")
    expect([each.is_alive for each in other.workers()], [True, False], "which owners live")
    expect(other.expire(), 1, "owners that were declared dead, after one has ended")
    with refuses(OwnerDeadError):
        other.renew("me", lease=LEASE)


@liveness_check
def a_closed_store_raises(place: StoreHarness) -> None:
    store, fence = place.owned()
    store.close()
    for use in (lambda: store.row("r"), lambda: store.append("r", [an_entry()], fence), store.rows):
        with refuses(StoreError):
            use()


def _expect_owner(owner: Owner | None, name: str, least: float, most: float) -> None:
    """Expect an owner whose lease expires in `least` to `most` seconds."""
    assert owner is not None, "the owner is unknown"
    expect((owner.name, owner.is_alive), (name, True), "the owner")
    assert least <= owner.expires_in <= most, (
        f"the lease expires in {owner.expires_in} s, not in {least} to {most} s"
    )
    expect(owner.holds, owner.expires_in > 0, "whether it holds the run")
