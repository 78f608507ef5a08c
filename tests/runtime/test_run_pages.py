"""Runs one page at a time, and runs that go back into a queue."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from clew import Engine, Graph, Worker, interrupt, node
from clew.errors import InputError, RunStateError, UnknownRunError
from clew.stores import MemoryStore, Store
from tests.store_fixtures import every_store

store = every_store


@node(output="b")
def double(a: int) -> int:
    if a < 0:
        raise ValueError(a)
    return 2 * a


@node(output="b")
def triple(a: int) -> int:
    return 3 * a


GRAPH, OTHER = Graph([double], name="doubles"), Graph([triple], name="triples")


def ids(page: Any) -> list[str]:
    return [row.run_id for row in page]


def test_pages_lead_from_the_newest_to_the_oldest(store: Store) -> None:
    engine = Engine(GRAPH, store=store)
    for n in range(7):
        engine.run({"a": n}, run_id=f"r{n}")
    page = engine.runs(limit=3)
    assert (ids(page), page.cursor is not None) == (["r4", "r5", "r6"], True)
    engine.run({"a": 7}, run_id="r7")  # moves nothing
    page = engine.runs(limit=3, cursor=page.cursor)
    assert ids(page) == ["r1", "r2", "r3"]
    page = engine.runs(limit=3, cursor=page.cursor)
    assert (ids(page), page.cursor) == (["r0"], None)


def test_runs_are_chosen(store: Store) -> None:
    engine, other = Engine(GRAPH, store=store), Engine(OTHER, store=store)
    engine.run({"a": 1}, run_id="one", attributes={"tenant": "a", "kind": "x"})
    other.run({"a": 1}, run_id="two", attributes={"tenant": "a", "kind": "y"})
    between = time.time()
    engine.run({"a": -1}, run_id="Three", check=False, attributes={"tenant": "b"})
    engine.submit({"a": 1}, run_id="four")
    assert ids(engine.runs(status="failed")) == ["Three"]
    assert isinstance(engine.runs(status="failed")[0].error, ValueError)
    assert ids(engine.runs(status="queued")) == ["four"]
    assert ids(engine.runs(graph="triples")) == ["two"]
    assert ids(engine.runs(attributes={"tenant": "a"})) == ["one", "two"]
    assert ids(engine.runs(attributes={"tenant": "a", "kind": "y"})) == ["two"]
    assert ids(engine.runs(text="THREE")) == ["Three"]
    assert ids(engine.runs(before=between)) == ["one", "two"]
    assert ids(engine.runs(after=datetime.fromtimestamp(between, UTC), graph="doubles")) == ["Three", "four"]


def test_a_page_reads_no_other_rows(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(GRAPH, store=store)
    engine.run({"a": 1}, run_id="r")

    def refuses(*_: Any, **__: Any) -> Any:
        raise AssertionError("all rows are read")

    monkeypatch.setattr(store, "rows", refuses)
    assert ids(engine.runs()) == ["r"]


@pytest.mark.parametrize(
    "options",
    [
        {"status": "happy"},
        {"graph": 1},
        {"text": None, "graph": ["x"]},
        {"attributes": ["x"]},
        {"after": "yesterday"},
        {"before": datetime(2020, 1, 1)},
        {"before": float("nan")},
        {"limit": 0},
        {"limit": True},
        {"cursor": "nonsense"},
        {"cursor": 1},
        {"children": "yes"},
        {"stat": "failed"},
    ],
    ids=str,
)
def test_a_wrong_option_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        Engine(GRAPH, store=MemoryStore()).runs(**options)


# -- back into a queue -------------------------------------------------------------------------------------------


def test_a_failed_run_continues_on_a_worker(store: Store) -> None:
    broken, calls = [True], list[str]()

    @node(output="b")
    def first(a: int) -> int:
        calls.append("first")
        return a

    @node(output="c")
    def second(b: int) -> int:
        calls.append("second")
        if broken:
            raise ValueError("no")
        return b + 1

    graph = Graph([first, second])
    engine = Engine(graph, store=store)
    engine.run({"a": 1}, run_id="r", check=False)
    broken.clear()
    handle = engine.resubmit("r", queue="again", priority=-1)
    assert (handle.status, [each.queue for each in store.queues()]) == ("queued", ["again"])
    Worker(graph, store=store, queues=["again"]).run(until_idle=True)
    assert (handle.result(timeout=0)["c"], calls) == (2, ["first", "second", "second"])


def test_a_paused_run_continues_behind_its_stop(store: Store) -> None:
    @node(output="c")
    def then(b: int) -> int:
        return b + 1

    graph = Graph([double, then])
    engine = Engine(graph, store=store)
    assert engine.run({"a": 1}, run_id="r", stop_before="then").status == "paused"
    handle = engine.resubmit("r")
    Worker(graph, store=store).run(until_idle=True)
    assert handle.result(timeout=0)["c"] == 3


def test_a_cancelled_run_continues(store: Store) -> None:
    engine = Engine(GRAPH, store=store)
    engine.submit({"a": 1}, run_id="r").cancel()
    engine.resubmit("r")
    Worker(GRAPH, store=store).run(until_idle=True)
    assert engine.result("r")["b"] == 2


def test_a_queued_run_moves_to_another_queue(store: Store) -> None:
    engine = Engine(GRAPH, store=store)
    engine.submit({"a": 1}, run_id="r", queue="one")
    engine.resubmit("r", queue="two", at=time.time() + 1e6)
    assert [(each.queue, each.ready, each.later) for each in store.queues()] == [("two", 0, 1)]


def test_a_run_that_cannot_continue_stays(store: Store) -> None:
    @interrupt(output="b")
    def asks(a: int) -> str:
        return "?"

    graph = Graph([asks])
    Engine(GRAPH, store=store).run({"a": 1}, run_id="done")
    engine = Engine(graph, store=store)
    engine.run({"a": 1}, run_id="asks")
    refused: list[tuple[Callable[[], Any], type[Exception]]] = [
        (lambda: engine.resubmit("done"), RunStateError),
        (lambda: engine.resubmit("asks"), RunStateError),
        (lambda: engine.resubmit("none"), UnknownRunError),
        (lambda: engine.resubmit("asks", queue=""), InputError),
        (lambda: engine.resubmit("asks", at=1.0), InputError),
    ]
    for act, error in refused:
        with pytest.raises(error):
            act()
    assert {row.run_id: row.status for row in engine.runs()} == {"done": "completed", "asks": "waiting"}
