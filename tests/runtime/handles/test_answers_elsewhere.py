"""Answers to a run that another engine executes: each is taken once, or its sender learns that it was not."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from clew import Engine, Graph, SQLiteStore, interrupt, node
from clew.errors import RunStateError
from clew.runtime.drivers import asyncio_driver, blocking, lease_renewal
from clew.runtime.opener import RunOpener

OPEN = Callable[[Graph], Engine]


@pytest.fixture
def open_engine(tmp_path: Path) -> Iterator[OPEN]:
    """Opens engines on one file, each with a store of its own, as processes have."""
    opened: list[Engine] = []

    def open_one(graph: Graph) -> Engine:
        opened.append(Engine(graph, store=SQLiteStore(tmp_path / "runs.db")))
        return opened[-1]

    yield open_one
    for engine in opened:
        engine.close()


@interrupt(output="allowed")
def ask(item):
    return f"Buy {item}?"


@node(output="bought")
def buy(allowed):
    return allowed


@pytest.fixture
def two_branches() -> tuple[threading.Event, threading.Event, Graph, Graph]:
    """Graphs with a branch that asks and a branch that works until it is told to end: a sync and an async one."""
    started, go_on = threading.Event(), threading.Event()

    def work(item):
        started.set()
        assert go_on.wait(60)
        return item

    async def awork(item):
        return await asyncio.to_thread(work, item)

    graphs = [
        Graph([ask, node(output="worked", name="work")(each), buy], name="two branches")
        for each in (work, awork)
    ]
    return started, go_on, graphs[0], graphs[1]


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_an_answer_that_comes_while_another_branch_works(
    open_engine: OPEN, two_branches: Any, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease_renewal, "LOOK", 3600.0)  # its process does not look in the meantime
    started, go_on, *graphs = two_branches
    graph = graphs[kind == "async"]
    here, elsewhere = open_engine(graph), open_engine(graph)
    handle = here.start({"item": "tea"}, run_id="r")
    assert started.wait(60)
    while not elsewhere.handle("r").questions:
        pass
    elsewhere.answer("r", True)
    go_on.set()
    result = handle.result(timeout=60)
    assert (result.status, result["bought"]) == ("completed", True)
    assert not here.store.inbox("r")


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_an_answer_that_a_process_leaves_behind_is_taken_by_its_sender(
    open_engine: OPEN, two_branches: Any, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease_renewal, "LOOK", 3600.0)
    for driver in (blocking, asyncio_driver):
        monkeypatch.setattr(driver, "has_answers", lambda session: False)  # it came after the last look
    started, go_on, *graphs = two_branches
    graph = graphs[kind == "async"]
    here, elsewhere = open_engine(graph), open_engine(graph)
    handle = here.start({"item": "tea"}, run_id="r")
    assert started.wait(60)
    while not elsewhere.handle("r").questions:
        pass
    ends = threading.Thread(target=_end_when_sent, args=(here, go_on))
    ends.start()
    result = elsewhere.handle("r").answer(True).result(timeout=60)
    ends.join()
    assert (result.status, result["bought"]) == ("completed", True)
    assert handle.result(timeout=60).status in ("waiting", "completed")


def _end_when_sent(engine: Engine, go_on: threading.Event) -> None:
    while not engine.store.inbox("r"):
        pass
    go_on.set()


@pytest.mark.parametrize("kind", ["thread", "task"])
def test_of_two_answers_at_once_one_is_refused(
    open_engine: OPEN, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = Graph([ask, buy], name="one question")
    here, elsewhere = open_engine(graph), open_engine(graph)
    here.run({"item": "tea"}, run_id="r")
    claimed = threading.Event()
    check = RunOpener.check_structure

    def check_slowly(opener: RunOpener, *args: Any) -> Any:
        if opener.store is here.store:  # it has claimed the run, and not stored its answer
            claimed.set()
            while not here.store.inbox("r"):
                pass
        return check(opener, *args)

    monkeypatch.setattr(RunOpener, "check_structure", check_slowly)
    first = threading.Thread(target=lambda: here.resume("r", answer="yes"))
    first.start()
    assert claimed.wait(60)
    answer = _answer_from_a_thread if kind == "thread" else _answer_from_a_loop
    with pytest.raises(RunStateError):
        answer(elsewhere, "no")
    first.join()
    assert elsewhere.result("r")["bought"] == "yes"


def _answer_from_a_thread(engine: Engine, answer: str) -> None:
    engine.handle("r").answer(answer).result(timeout=60)


def _answer_from_a_loop(engine: Engine, answer: str) -> None:
    async def wait() -> None:
        await engine.handle("r").answer(answer)

    asyncio.run(wait())
