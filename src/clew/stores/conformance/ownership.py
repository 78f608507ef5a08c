"""Checks of ownership: fences, leases, and concurrent owners and threads."""

from __future__ import annotations

import time
from collections.abc import Callable
from hashlib import sha256
from typing import Any

from clew.errors import (
    CommitConflictError,
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
    store.renew("r", first, lease=0.0)
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
        lambda: store.renew("r", first, lease=LEASE),
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
        store.claim("r", "me", lease=LEASE)
    other.append("r", [an_entry(2)], second)


@check
def a_living_owner_keeps_its_run_until_the_lease_expires(place: StoreHarness) -> None:
    store, fence = place.owned()
    other = place.open()
    with refuses(RunOwnedError):
        other.claim("r", "other", lease=LEASE)
    store.renew("r", fence, lease=0.0)
    store.append("r", [an_entry(1)], fence)  # there was no other claim
    store.renew("r", fence, lease=LEASE)  # so the lease can be renewed
    with refuses(RunOwnedError):
        other.claim("r", "other", lease=LEASE)
    store.renew("r", fence, lease=0.0)
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
        store.claim(run_id, "me", lease=lease)
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
        run_id = f"r{number}"
        with wall_clock(owners):
            store.create(RunRow(run_id))
            fence = store.claim(run_id, "me", lease=60.0)
            store.renew(run_id, fence, lease=60.0)
        with wall_clock(others):
            with refuses(RunOwnedError):
                other.claim(run_id, "other", lease=60.0)
            found = other.owner(run_id)
            assert found is not None
            assert found.holds, "the owner has lost its run"
        with wall_clock(owners):
            store.append(run_id, [an_entry(1)], fence)
            store.renew(run_id, fence, lease=0.0)
        with wall_clock(others):
            other.claim(run_id, "other", lease=60.0)


@check
def an_owner_may_claim_again(place: StoreHarness) -> None:
    store, first = place.owned()
    second = store.claim("r", "me", lease=LEASE)
    store.append("r", [an_entry(1)], second)
    with refuses(RunOwnedError):
        store.append("r", [an_entry(2)], first)
    place.open().claim("r", "me", lease=LEASE)


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
    store.renew("r", fence, lease=3 * LEASE)
    _expect_owner(store.owner("r"), "me", 2 * LEASE, 3 * LEASE)
    store.renew("r", fence, lease=0.0)
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
