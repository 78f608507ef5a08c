"""Submitted runs: stored with their place in a queue, executed by nobody yet."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from clew import Engine, Graph, node
from clew.errors import InputError, RunExistsError, ThreadBusyError
from clew.stores import MemoryStore, Store
from tests.store_fixtures import every_store, local_store

store, local = every_store, local_store


@node(output="b")
def double(a: int) -> int:
    return 2 * a


GRAPH = Graph([double], name="doubles")


def taken(store: Store, **more: Any) -> list[Any]:
    given: dict[str, Any] = {"queues": ["default"], "limit": 10, "lease": 30.0, **more}
    return store.take("me", structures=[GRAPH.structure_hash], **given)


def test_a_submitted_run_is_stored_and_not_executed(store: Store) -> None:
    engine = Engine(GRAPH, store=store)
    handle = engine.submit({"a": 1}, run_id="r", attributes={"tenant": "a"})
    row = store.row("r")
    assert (handle.run_id, handle.status, store.owner("r")) == ("r", "queued", None)
    assert (row.structure, row.attributes, row.graph) == (GRAPH.structure_hash, {"tenant": "a"}, "doubles")
    assert engine.result("r").status == "queued"
    assert engine.state("r").values == {"a": 1}
    (entry,) = taken(store)
    assert (entry.row.run_id, entry.is_new, entry.tries) == ("r", True, 1)


def test_queue_priority_and_time_decide_who_takes_it(store: Store) -> None:
    engine = Engine(GRAPH, store=store)
    engine.submit({"a": 1}, run_id="later", at=time.time() + 1e6)
    engine.submit({"a": 1}, run_id="tomorrow", at=datetime.now(UTC) + timedelta(days=1))
    engine.submit({"a": 1}, run_id="low", priority=5)
    engine.submit({"a": 1}, run_id="high", priority=-5)
    engine.submit({"a": 1}, run_id="other", queue="slow")
    counts = {each.queue: (each.ready, each.later) for each in store.queues()}
    assert counts == {"default": (2, 2), "slow": (1, 0)}
    assert [each.row.run_id for each in taken(store)] == ["high", "low"]


def test_an_id_is_used_once(store: Store) -> None:
    engine = Engine(GRAPH, store=store)
    engine.submit({"a": 1}, run_id="r")
    with pytest.raises(RunExistsError):
        engine.submit({"a": 2}, run_id="r")
    assert len(taken(store)) == 1


def test_a_queued_run_is_cancelled_directly(store: Store) -> None:
    engine = Engine(GRAPH, store=store)
    handle = engine.submit({"a": 1}, run_id="r")
    assert handle.cancel() is True
    assert (handle.status, taken(store), store.queues()) == ("cancelled", [], [])
    assert handle.cancel() is False
    assert engine.resume("r")["b"] == 2


def test_a_sleeping_run_is_cancelled_directly(store: Store) -> None:
    engine = Engine(GRAPH, store=store)
    handle = engine.submit({"a": 1}, run_id="r")
    (entry,) = taken(store)
    store.update(
        "r",
        status="sleeping",
        updated=1.0,
        error=None,
        fence=entry.fence,
        release=True,
        due=time.time() + 1e6,
    )
    assert handle.status == "sleeping"
    with pytest.raises(TimeoutError):
        handle.result(timeout=0.0)
    assert handle.cancel() is True
    assert (handle.status, store.queues()) == ("cancelled", [])


def test_a_queued_run_can_be_executed_here(store: Store) -> None:
    engine = Engine(GRAPH, store=store)
    engine.submit({"a": 1}, run_id="r")
    assert engine.resume("r")["b"] == 2
    assert (store.row("r").status, taken(store)) == ("completed", [])


def test_a_handle_waits_while_a_run_is_queued(local: Store) -> None:
    engine = Engine(GRAPH, store=local)
    handle = engine.submit({"a": 1}, run_id="r")
    with pytest.raises(TimeoutError):
        handle.result(timeout=0.01)
    engine.resume("r")
    assert handle.result(timeout=60)["b"] == 2


def test_a_thread_continues_with_a_submitted_run(store: Store) -> None:
    engine = Engine(GRAPH, store=store)
    engine.run({"a": 1}, run_id="one", thread="t")
    engine.submit({"a": 2}, run_id="two", thread="t", attributes={"tenant": "a"})
    with pytest.raises(ThreadBusyError):
        engine.submit({"a": 3}, run_id="three", thread="t")
    with pytest.raises(ThreadBusyError):
        engine.run({"a": 3}, run_id="three", thread="t", on_busy="refuse")
    (entry,) = taken(store)
    assert (entry.row.run_id, entry.row.parent, entry.row.attributes) == ("two", "one", {"tenant": "a"})
    assert store.head("t") == "two"


def test_a_run_is_submitted_on_an_event_loop(local: Store) -> None:
    engine = Engine(GRAPH, store=local)

    async def main() -> str:
        return (await engine.asubmit({"a": 1}, run_id="r", queue="q", attributes={"x": "y"})).status

    assert (asyncio.run(main()), [each.queue for each in local.queues()]) == ("queued", ["q"])


PAST = datetime(2020, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    "options",
    [
        {"queue": ""},
        {"queue": None},
        {"queue": "x" * 201},
        {"queue": "a\nb"},
        {"queue": "\ud800"},
        {"queue": "low,high"},  # `clew worker --queue low,high` takes from two queues
        {"queue": " low"},
        {"priority": 1.5},
        {"priority": True},
        {"priority": 2**31},
        {"at": datetime(2040, 1, 1)},
        {"at": PAST},
        {"at": 12.0},
        {"at": "tomorrow"},
        {"at": float("nan")},
        {"at": True},
        {"at": 1_800_000_000_000},  # milliseconds
        {"at": 1e300},
        {"run_id": ""},
        {"thread": ""},
        {"attributes": ["a"]},
        {"attributes": {"a": 1}},
        {"attributes": {"": "a"}},
        {"attributes": {"a": "\ud800"}},
    ],
    ids=str,
)
def test_a_wrong_option_is_refused(options: dict[str, Any]) -> None:
    engine = Engine(GRAPH, store=(store := MemoryStore()))
    with pytest.raises(InputError):
        engine.submit({"a": 1}, **options)
    assert store.rows() == []


def test_wrong_values_are_refused() -> None:
    engine = Engine(GRAPH, store=(store := MemoryStore()))
    with pytest.raises(InputError):
        engine.submit({"nothing": 1})
    with pytest.raises(InputError):
        Engine(store=store).submit({"a": 1})
    assert store.rows() == []


def test_attributes_of_runs_that_are_executed_here(store: Store) -> None:
    engine = Engine(GRAPH, store=store)
    engine.run({"a": 1}, run_id="one", attributes={"tenant": "a"})
    asyncio.run(engine.arun({"a": 1}, run_id="two", attributes={"tenant": "b"}))
    engine.start({"a": 1}, run_id="three", attributes={"tenant": "c"}).result()
    engine.run({"a": 1}, run_id="four", thread="t", attributes={"tenant": "d"})
    found = {row.run_id: row.attributes["tenant"] for row in store.rows()}
    assert found == {"one": "a", "two": "b", "three": "c", "four": "d"}
    with pytest.raises(InputError):
        engine.run({"a": 1}, attributes={"tenant": 1})


def test_an_export_has_the_attributes(store: Store) -> None:
    engine = Engine(GRAPH, store=store)
    engine.run({"a": 1}, run_id="r", attributes={"tenant": "a"})
    document = engine.export_run("r")
    there = Engine(GRAPH, store=MemoryStore())
    assert there.import_run(document).attributes == {"tenant": "a"}
    assert there.export_run("r")["clew"]["attributes"] == {"tenant": "a"}


def test_runs_that_have_not_ended_are_not_pruned(store: Store) -> None:
    engine = Engine(GRAPH, store=store)
    engine.submit({"a": 1}, run_id="r")
    engine.run({"a": 1}, run_id="done")
    assert engine.prune(keep=0) == ["done"]
    assert engine.prune(status="queued") == ["r"]
    assert store.queues() == []
