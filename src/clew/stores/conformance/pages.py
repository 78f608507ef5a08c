"""Checks of pages: every run that matches is on one page, in order; and of attributes."""

from __future__ import annotations

from typing import Any

from clew.errors import StoreError
from clew.stores.conformance.harness import NAMES, StoreHarness, check, expect, refuses
from clew.stores.protocol import RunRow, Store


def _filled(store: Store, count: int = 10) -> None:
    for n in range(count):
        store.create(
            RunRow(
                f"r{n}",
                "even" if n % 2 == 0 else "odd",
                status="failed" if n % 3 == 0 else "running",
                created=float(n),
                attributes={"tenant": "a" if n < 5 else "b", "n": str(n % 4)},
                codes={"node": "hash"},
            )
        )
    store.create(RunRow("child", "even", child_of="r0", place="a#0!0", created=float(count)))


def _ids(store: Store, **options: Any) -> list[str]:
    found, cursor = list[str](), None
    while True:
        rows, cursor = store.page(cursor=cursor, **options)
        found += [row.run_id for row in rows]
        if cursor is None:
            return found
        expect(len(rows), options.get("limit", 100), "the length of a page that is not the last")


@check
def attributes_are_stored(place: StoreHarness) -> None:
    store = place.open()
    given = {"tenant": "a", "": "", "Ünïcödé": '"quoted" \\ 🧵', "long": NAMES[-1]}
    store.create(RunRow("r", attributes=given))
    store.create(RunRow("bare"))
    again = place.open()
    expect(again.row("r").attributes, given, "the attributes")
    expect(again.row("bare").attributes, {}, "no attributes")
    expect([row.attributes for row in again.rows()], [given, {}], "the attributes in a list")
    for name, value in given.items():
        expect(_ids(again, attributes={name: value}), ["r"], f"the runs with the attribute {name!r}")


@check
def pages_list_each_run_once(place: StoreHarness) -> None:
    store = place.open()
    expect(store.page(), ([], None), "the page of an empty store")
    _filled(store)
    newest = [f"r{n}" for n in reversed(range(10))]
    for limit in (1, 3, 5, 10, 11):
        expect(_ids(store, limit=limit), newest, f"the runs by pages of {limit}")
    expect(_ids(store, limit=4, order="oldest"), newest[::-1], "the oldest first")
    expect(dict(store.tally()), {"failed": 4, "running": 6}, "the number of runs by status, without children")
    expect(_ids(store, limit=4, children=True), ["child", *newest], "with children")


@check
def pages_are_selected(place: StoreHarness) -> None:
    store = place.open()
    _filled(store)
    cases: list[tuple[dict[str, Any], list[int]]] = [
        ({"status": "failed"}, [9, 6, 3, 0]),
        ({"graph": "odd"}, [9, 7, 5, 3, 1]),
        ({"graph": "odd", "status": "failed"}, [9, 3]),
        ({"attributes": {"tenant": "b"}}, [9, 8, 7, 6, 5]),
        ({"attributes": {"tenant": "b", "n": "1"}}, [9, 5]),
        ({"attributes": {"tenant": "c"}}, []),
        ({"attributes": {"tenant": "a"}, "status": "failed"}, [3, 0]),
        ({"after": 3.0}, [9, 8, 7, 6, 5, 4, 3]),
        ({"before": 3.0}, [2, 1, 0]),
        ({"after": 3.0, "before": 7.0, "graph": "even"}, [6, 4]),
        ({"after": 3.0, "attributes": {"tenant": "a"}}, [4, 3]),
        ({"text": "R7"}, [7]),
        ({"text": "EVEN"}, [8, 6, 4, 2, 0]),
        ({"text": "nothing"}, []),
        ({"prefix": "r7"}, [7]),
        ({"prefix": "R7"}, []),
        ({"prefix": "7"}, []),
        ({"prefix": "r", "graph": "even"}, [8, 6, 4, 2, 0]),
        ({"prefix": "r%"}, []),
        ({"text": "%"}, []),
    ]
    for options, numbers in cases:
        ids = [f"r{n}" for n in numbers]
        for limit in (2, 100):
            expect(_ids(store, limit=limit, **options), ids, f"the runs of {options}")
        expect(_ids(store, limit=2, order="oldest", **options), ids[::-1], f"the oldest of {options}")


@check
def listed_rows_have_no_large_values(place: StoreHarness) -> None:
    store = place.open()
    large: Any = b"s" * 1000 if store.encodes else "s"
    error: Any = b"why" if store.encodes else "why"
    row = RunRow(
        "r", "g", large, 2**64, "failed", 1.0, 2.0, None, None, error, "hash", {"n": "c"}, "d", "e", "m:g"
    )
    row.attributes = {"tenant": "a"}
    store.create(row)
    (found,), cursor = place.open().page()
    expect((found.start, found.codes, found.start_digest, found.description), (None, {}, "", ""), "left out")
    expect(
        (found.run_id, found.graph, found.seed, found.status, found.created, found.updated, found.error),
        ("r", "g", 2**64, "failed", 1.0, 2.0, error),
        "the row",
    )
    expect((found.structure, found.target, found.attributes), ("hash", "m:g", {"tenant": "a"}), "its hashes")
    expect((found.damage, cursor), ("", None), "damage, and the next page")


@check
def pages_do_not_shift(place: StoreHarness) -> None:
    """Runs of one time are in the order in which they came; changes between two pages move no other run."""
    store = place.open()
    for n in range(6):
        store.create(RunRow(f"r{n}", created=1.0))
    rows, cursor = store.page(limit=2)
    expect([row.run_id for row in rows], ["r5", "r4"], "the first page")
    store.create(RunRow("new", created=1.0))
    store.delete("r4")
    store.delete("r3")
    expect([row.run_id for row in store.page(limit=2, cursor=cursor)[0]], ["r2", "r1"], "the second page")


@check
def invalid_pages_are_rejected(place: StoreHarness) -> None:
    store = place.open()
    wrong: list[dict[str, Any]] = [
        {"limit": 0},
        {"limit": True},
        {"order": "random"},
        {"cursor": "no cursor"},
    ]
    for options in wrong:
        with refuses(StoreError):
            store.page(**options)


@check
def attributes_are_deleted_with_their_run(place: StoreHarness) -> None:
    store = place.open()
    store.create(RunRow("r", created=1.0, attributes={"tenant": "a"}))
    store.delete("r")
    store.create(RunRow("s", created=1.0))
    expect(_ids(store, attributes={"tenant": "a"}), [], "runs with the attribute of a deleted one")
