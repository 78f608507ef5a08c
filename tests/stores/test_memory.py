"""The store in memory: what it keeps, what it drops, and from which threads."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from clew import GraphState, MemoryStore
from clew.errors import RunExistsError, UnknownRunError
from clew.stores import RunRow


def row(run_id: str, status: str = "completed") -> RunRow:
    return RunRow(run_id, "graph", GraphState(), 0, status)


def ids(store: MemoryStore) -> list[str]:
    return [row.run_id for row in store.rows()]


def test_entries_are_kept_in_their_order() -> None:
    store = MemoryStore()
    store.create(row("r"))
    store.append("r", [1, 2])
    store.append("r", [3])
    assert store.entries("r") == [1, 2, 3]


def test_a_row_is_updated() -> None:
    store, error = MemoryStore(), ValueError()
    store.create(row("r", "running"))
    store.update("r", status="failed", updated=5.0, error=error)
    assert (store.row("r").status, store.row("r").updated, store.row("r").error) == ("failed", 5.0, error)


def test_rows_are_in_the_order_of_their_creation() -> None:
    store = MemoryStore()
    for run_id, status in (("b", "failed"), ("a", "completed"), ("c", "failed")):
        store.create(row(run_id, status))
    assert ids(store) == ["b", "a", "c"]
    assert [r.run_id for r in store.rows("failed")] == ["b", "c"]


def test_an_id_is_used_once() -> None:
    store = MemoryStore()
    store.create(row("r"))
    with pytest.raises(RunExistsError, match="there is a run 'r' already"):
        store.create(row("r"))


def test_a_deleted_run_is_gone_and_its_id_is_free() -> None:
    store = MemoryStore()
    store.create(row("r"))
    store.append("r", [1])
    store.delete("r")
    store.create(row("r"))
    assert store.entries("r") == []


@pytest.mark.parametrize(
    "ask",
    [
        lambda store: store.row("r"),
        lambda store: store.entries("r"),
        lambda store: store.append("r", [1]),
        lambda store: store.update("r", status="failed", updated=0.0, error=None),
        lambda store: store.delete("r"),
    ],
)
def test_an_unknown_run(ask: Any) -> None:
    with pytest.raises(UnknownRunError, match=r"there is no run 'r'; engine.runs\(\) lists those there are"):
        ask(MemoryStore())


def test_the_oldest_ended_runs_are_dropped() -> None:
    store = MemoryStore(keep=2)
    for run_id in "abcd":
        store.create(row(run_id))
    store.create(row("new", "running"))
    assert ids(store) == ["c", "d", "new"]


def test_the_oldest_are_those_that_ended_first() -> None:
    store = MemoryStore(keep=1)
    for run_id in "ab":
        store.create(row(run_id, "running"))
    for run_id in "ba":
        store.update(run_id, status="completed", updated=0.0, error=None)
    store.create(row("new", "running"))
    assert ids(store) == ["a", "new"]


def test_a_run_that_goes_on_has_not_ended() -> None:
    store = MemoryStore(keep=0)
    store.create(row("a", "running"))
    store.update("a", status="failed", updated=0.0, error=None)
    store.update("a", status="running", updated=0.0, error=None)
    store.create(row("new", "running"))
    assert ids(store) == ["a", "new"]


@pytest.mark.parametrize("status", ["running", "waiting"])
def test_a_run_that_has_not_ended_is_never_dropped(status: str) -> None:
    store = MemoryStore(keep=1)
    store.create(row("open", status))
    for run_id in "abc":
        store.create(row(run_id))
    assert ids(store) == ["open", "b", "c"]


def test_all_runs_are_kept_if_told_so() -> None:
    store = MemoryStore(keep=None)
    for number in range(1_500):
        store.create(row(str(number)))
    assert len(store.rows()) == 1_500


def test_a_thousand_runs_are_kept_by_default() -> None:
    store = MemoryStore()
    for number in range(1_002):
        store.create(row(str(number)))
    assert ids(store)[0] == "1"


def test_a_store_may_keep_nothing_that_has_ended() -> None:
    store = MemoryStore(keep=0)
    store.create(row("a"))
    store.create(row("b", "running"))
    assert ids(store) == ["b"]


def test_keep_is_not_negative() -> None:
    with pytest.raises(ValueError, match="keep is a number of runs, or None for all, not -1"):
        MemoryStore(keep=-1)


def test_closing_leaves_the_runs_readable() -> None:
    store = MemoryStore()
    store.create(row("r"))
    store.close()
    assert store.row("r").run_id == "r"


def test_a_store_shows_how_many_it_keeps() -> None:
    store = MemoryStore()
    store.create(row("r"))
    assert repr(store) == "MemoryStore(1 runs)"


def in_threads(count: int, work: Any) -> None:
    barrier = threading.Barrier(count)
    failures: list[BaseException] = []

    def start(number: int) -> None:
        barrier.wait()
        try:
            work(number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=start, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_of_many_threads_that_create_one_run_one_does() -> None:
    store, made = MemoryStore(), []

    def create(number: int) -> None:
        try:
            store.create(row("r"))
        except RunExistsError:
            return
        made.append(number)

    in_threads(8, create)
    assert len(made) == 1


def test_threads_create_list_append_and_delete_at_once() -> None:
    store = MemoryStore(keep=50)

    def work(number: int) -> None:
        for i in range(200):
            run_id = f"{number}/{i}"
            store.create(row(run_id, "running"))
            store.append(run_id, [i])
            store.rows("completed")
            assert store.entries(run_id) == [i]
            if i % 2:
                store.delete(run_id)
            else:
                store.update(run_id, status="completed", updated=0.0, error=None)

    in_threads(4, work)
    store.create(row("last", "running"))
    assert len(store.rows()) == 51
