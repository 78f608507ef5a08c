"""What is the memory store's own: it forgets old runs, and keeps any objects."""

from __future__ import annotations

import pytest

from clew.stores import MemoryStore, RunRow, ThreadMove


def _ids(store: MemoryStore) -> list[str]:
    return [row.run_id for row in store.rows()]


def test_the_last_runs_that_ended_are_kept() -> None:
    store = MemoryStore(keep=3)
    for n in range(5):
        store.create(RunRow(f"r{n}", status="completed"))
    assert _ids(store) == ["r2", "r3", "r4"]


@pytest.mark.parametrize("status", ["running", "waiting"])
def test_runs_that_go_on_are_never_dropped(status: str) -> None:
    store = MemoryStore(keep=0)
    for n in range(3):
        store.create(RunRow(f"r{n}", status=status))
    store.create(RunRow("ended", status="failed"))
    assert _ids(store) == ["r0", "r1", "r2"]


def test_parents_are_kept_for_their_forks() -> None:
    store = MemoryStore(keep=1)
    store.create(RunRow("parent", status="completed"))
    store.create(RunRow("fork", status="running", parent="parent"))
    store.create(RunRow("ended", status="completed"))
    assert _ids(store) == ["parent", "fork"]


def test_all_runs_are_kept_if_asked_for() -> None:
    store = MemoryStore(keep=None)
    for n in range(2_000):
        store.create(RunRow(f"r{n}", status="completed"))
    assert len(store.rows()) == 2_000


def test_a_dropped_run_takes_its_contents_along() -> None:
    store = MemoryStore(keep=1)
    store.create(RunRow("a", status="completed"), {"x": b"1", "y": b"2"})
    store.create(RunRow("b", status="completed"), {"x": b"1"})
    assert store._blobs == {"x": b"1"}


def test_less_than_none_is_refused() -> None:
    with pytest.raises(ValueError, match="number of runs"):
        MemoryStore(keep=-1)


def test_whatever_is_no_entry_is_kept_in_order_as_it_is() -> None:
    store = MemoryStore()
    store.create(RunRow("r"))
    things = [object(), "a string", 3]
    store.append("r", things, 0)
    store.append("r", things[:1], 0)
    assert list(store.entries("r")) == [*things, things[0]]
    assert repr(store) == "MemoryStore(1 runs)"


def test_a_long_chain_of_forks_is_rarely_looked_through(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its runs need each other, so nothing can be dropped."""
    looked = list[int]()
    drop = MemoryStore._drop_oldest
    monkeypatch.setattr(MemoryStore, "_drop_oldest", lambda store: (looked.append(1), drop(store)))
    store = MemoryStore(keep=10)
    store.create(RunRow("0", status="completed"), thread=ThreadMove("t"))
    for n in range(1, 400):
        head = str(n - 1)
        store.create(RunRow(str(n), parent=head, parent_step=0), thread=ThreadMove("t", head))
    assert len(store.rows()) == 400
    assert len(looked) < 60
    for n in reversed(range(400)):
        store.delete(str(n))
    for n in range(11):
        store.create(RunRow(f"r{n}", status="completed"))
    assert _ids(store) == [f"r{n}" for n in range(1, 11)]


def test_a_store_that_is_full_rarely_looks_for_what_to_drop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise each new run would look at all the others."""
    looked = list[int]()
    drop = MemoryStore._drop_oldest
    monkeypatch.setattr(MemoryStore, "_drop_oldest", lambda store: (looked.append(1), drop(store)))
    store = MemoryStore(keep=80)
    for n in range(400):
        store.create(RunRow(f"r{n}", status="completed"))
        assert min(n + 1, 80) <= len(store.rows()) <= 90
    assert len(looked) < 40
    assert _ids(store)[-80:] == [f"r{n}" for n in range(320, 400)]
