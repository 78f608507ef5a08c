"""An answer that comes while a run is being released is read, although the run is in no queue."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from clew import Context, Engine, Graph, Worker, node
from clew.errors import RunStateError
from clew.runtime.drivers.inbox import packed
from clew.stores import Store
from tests.runtime.workers.test_worker import working
from tests.store_fixtures import every_store

store = every_store


@node(output="approved")
def approve(order: str, ctx: Context) -> Any:
    return ctx.interrupt(f"ship {order}?")


@node(output="done")
def ship(order: str, approved: bool) -> str:
    return f"{order}: {approved}"


@node(output="done")
async def ship_later(order: str, approved: bool) -> str:
    return f"{order}: {approved}"


GRAPH = Graph([approve, ship], name="late")
ASYNC = Graph([approve, ship_later], name="late")


def before_the_release(store: Any, monkeypatch: pytest.MonkeyPatch, do: Callable[[], Any]) -> None:
    """Do something just before a run is released because it waits, for the first time."""
    update, pending = type(store).update, [do]

    def released(self: Any, run_id: str, *, status: str, release: bool = False, **more: Any) -> None:
        if status == "waiting" and pending:
            pending.pop()()
        update(self, run_id, status=status, release=release, **more)

    monkeypatch.setattr(type(store), "update", released)


@pytest.mark.parametrize("how", ["run", "arun", "start"])
def test_an_answer_that_comes_before_the_release_is_read(
    store: Store, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    engine, other = Engine(GRAPH, store=store), Engine(store=store)
    before_the_release(store, monkeypatch, lambda: other.answer("r", True))
    if how == "run":
        result = engine.run({"order": "o"}, run_id="r")
    elif how == "arun":
        result = asyncio.run(engine.arun({"order": "o"}, run_id="r"))
    else:
        result = engine.start({"order": "o"}, run_id="r").result(60)
    assert (result.status, result["done"]) == ("completed", "o: True")
    assert store.inbox("r") == []
    engine.close()
    other.close()


@pytest.mark.parametrize("how", ["stream", "astream", "thread"])
def test_a_stream_goes_on_with_an_answer_that_comes_before_the_release(
    store: Store, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    graph = ASYNC if how == "thread" else GRAPH
    engine, other = Engine(graph, store=store), Engine(store=store)
    before_the_release(store, monkeypatch, lambda: other.answer("r", True))

    async def streamed() -> list[Any]:
        return [event async for event in engine.astream({"order": "o"}, run_id="r")]

    events = asyncio.run(streamed()) if how == "astream" else list(engine.stream({"order": "o"}, run_id="r"))
    kinds = [event.kind for event in events]
    assert kinds.count("step_committed") == 2
    assert [event.status for event in events if event.kind == "run_finished"] == ["waiting", "completed"]
    assert list(engine.handle("r").events(after=events[-1].cursor)) == []
    assert (engine.result("r")["done"], store.inbox("r")) == ("o: True", [])
    engine.close()
    other.close()


def test_a_wrong_answer_that_comes_late_leaves_the_question(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Engine(GRAPH, store=store)
    before_the_release(
        store,
        monkeypatch,
        lambda: store.send("r", "m", "answer", packed(store, ["nowhere#0", "0", True, "me", False])),
    )
    assert engine.run({"order": "o"}, run_id="r").status == "waiting"
    assert store.inbox("r") == []
    assert engine.resume("r", answer=True)["done"] == "o: True"
    engine.close()


def test_an_answer_to_a_run_that_nobody_executes_puts_it_into_the_queue(store: Store) -> None:
    engine = Engine(GRAPH, store=store)
    assert engine.run({"order": "o"}, run_id="r").status == "waiting"
    if not store.encodes:  # a run in memory has no queue: the answer is not taken by accident later
        with pytest.raises(RunStateError):
            engine.answer("r", True)
        assert store.inbox("r") == []
        assert engine.resume("r", answer=False)["done"] == "o: False"
    else:
        engine.answer("r", True)
        entry = store.entry("r")
        assert entry is not None
        assert entry.queue == "default"
        with working(Worker(GRAPH, store=store, poll=0.02)):
            assert engine.handle("r").result(timeout=60)["done"] == "o: True"
    engine.close()
