"""Checks of children: runs that a node of another run started. They are listed apart, and deleted with that run."""

from __future__ import annotations

from clew.errors import StoreError, UnknownRunError
from clew.stores.conformance.harness import StoreHarness, an_entry, check, expect, refuses
from clew.stores.protocol import RunRow, Store


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
