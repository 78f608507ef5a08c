"""Checks of cached results: the last one counts, they expire, and they share blobs with runs."""

from __future__ import annotations

from hashlib import sha256

from clew.errors import StoreError
from clew.stores.conformance.harness import LEASE, NAMES, StoreHarness, check, concurrently, expect, refuses
from clew.stores.protocol import RunRow, Store

KEY = "0f" * 32


def body_of(store: Store, key: str = KEY) -> bytes | None:
    found = store.cached(key)
    return None if found is None else found.body


@check
def a_cached_result_is_found_by_its_key(place: StoreHarness) -> None:
    store = place.open()
    expect(store.cached(KEY), None, "a result before any was stored")
    body = b'{"x": 1}\x00\xff'
    store.cache(KEY, "ask", body)
    found = place.open().cached(KEY)
    assert found is not None, "expected a result, found none"
    assert 0 <= found.age < LEASE, f"expected a new result, found one of {found.age} s"
    expect(found.body, body, "the bytes of a result")
    expect(store.cached("10" * 32), None, "a result under another key")
    store.cache(KEY, "ask", b"2")
    expect(body_of(store), b"2", "the result that was stored last")


@check
def an_expired_result_is_gone(place: StoreHarness) -> None:
    store = place.open()
    store.cache(KEY, "ask", b"1", ttl=0.0)
    expect(store.cached(KEY), None, "a result whose time has passed")
    store.cache(KEY, "ask", b"2", ttl=LEASE)
    expect(body_of(store), b"2", "a result with time left")
    store.cache(KEY, "ask", b"3", ttl=0.0)
    store.cache(KEY, "ask", b"4")
    expect(body_of(store), b"4", "a result without an end")


@check
def cached_results_are_deleted_by_node(place: StoreHarness) -> None:
    store = place.open()
    expect(store.clear_cache(), 0, "results deleted from an empty store")
    for i, name in enumerate([*NAMES, NAMES[0]]):
        store.cache(f"{i}", name, b"1")
    expect(store.clear_cache("no such node"), 0, "results of an unknown node")
    expect(store.clear_cache(NAMES[0]), 2, "results of one node")
    expect(store.cached("0"), None, "a deleted result")
    expect(body_of(store, "1"), b"1", "a result of another node")
    expect(place.open().clear_cache(), len(NAMES) - 1, "all results")
    expect(store.cached("1"), None, "a result after all were deleted")


@check
def a_result_and_a_run_share_a_blob(place: StoreHarness) -> None:
    store = place.open()
    content = b"large" * 20_000
    digest = sha256(content).hexdigest()
    store.create(RunRow("r"), {digest: content})
    store.cache(KEY, "ask", b"1", {digest: content})
    store.delete("r")
    expect(store.blob(digest), content, "a blob that only a result uses")
    store.cache(KEY, "ask", b"2", {digest: content})
    expect(store.blob(digest), content, "a blob of a result that was replaced")
    store.create(RunRow("s"), {digest: content})
    store.clear_cache()
    expect(store.blob(digest), content, "a blob that only a run uses")
    store.delete("s")
    with refuses(StoreError):
        store.blob(digest)
    store.cache(KEY, "ask", b"1", {digest: content}, ttl=0.0)
    store.cache(KEY, "ask", b"2")
    with refuses(StoreError):
        store.blob(digest)


@check
def results_are_stored_concurrently(place: StoreHarness) -> None:
    stores = [place.open() for _ in range(4)]

    def work(i: int) -> None:
        for n in range(20):
            stores[i].cache(f"{n % 5}", "ask", b"%d" % (n % 5), {})
            expect(body_of(stores[i], f"{n % 5}"), b"%d" % (n % 5), "a result that others store too")

    concurrently(work, len(stores))
    expect(stores[0].clear_cache(), 5, "the results of four writers")
