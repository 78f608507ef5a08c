"""The cost of a turn does not grow with its thread, nor does its storage exceed a multiple of the new data."""

from __future__ import annotations

import operator
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from clew import Engine, Graph, SQLiteStore, merge, node
from clew.runtime.log.entries.records import SNAPSHOT
from clew.stores import Store


class Chat(TypedDict, total=False):
    messages: Annotated[list[str], operator.add]
    facts: Annotated[dict[str, str], merge]
    prompt: str
    window: list[str]


@node(output="messages")
def reply(messages: list[str]) -> list[str]:
    return [f"re: {messages[-1]}"]


CHAT = Graph([reply], state=Chat)


class Statements(list[str]):
    """The statements of one connection."""

    def during(self, act: Callable[[], Any]) -> int:
        """Count the statements of a call."""
        before = len(self)
        act()
        return len(self) - before


@pytest.fixture
def statements(tmp_path: Path) -> Iterator[tuple[Engine, Statements]]:
    store, counted = SQLiteStore(tmp_path / "runs.db"), Statements()
    store._db.set_trace_callback(counted.append)
    with Engine(CHAT, store=store) as engine:
        yield engine, counted


def say(engine: Engine, number: int, **values: Any) -> None:
    engine.run({"messages": [f"{number:100}"], **values}, thread="t")


def test_the_cost_of_a_turn_does_not_grow(statements: tuple[Engine, Statements]) -> None:
    engine, counted = statements
    costs = [counted.during(lambda n=n: say(engine, n)) for n in range(288)]
    early, late = costs[16:48], costs[256:288]
    assert sum(late) < 1.4 * sum(early)
    assert max(late) < 1.4 * max(early)
    assert list(engine.store.check()) == []


def test_the_history_of_a_thread_reads_each_run_once(statements: tuple[Engine, Statements]) -> None:
    engine, counted = statements
    costs = []
    for n in range(64):
        say(engine, n)
        if n in (31, 63):
            costs.append(counted.during(lambda: engine.thread("t").history()))
    assert costs[1] < 2.1 * costs[0]
    one_by_one = [each for run in engine.thread("t").runs for each in engine.history(run.run_id)]
    assert [
        (each.run_id, each.step_id, each.digest, each.values) for each in engine.thread("t").history()
    ] == [(each.run_id, each.step_id, each.digest, each.values) for each in one_by_one]


def test_the_history_of_a_thread_that_was_moved(tmp_path: Path) -> None:
    with Engine(CHAT, store=SQLiteStore(tmp_path / "runs.db")) as engine:
        for n in range(4):
            engine.run({"messages": [f"m{n}"]}, thread="t", run_id=f"r{n}")
        engine.fork("r2", step=2, values={"prompt": "x"}, thread="t", run_id="f")  # S(2) is where r2 began
        engine.run({"messages": ["end"]}, thread="t", run_id="r9")
        said = [each.run_id for each in engine.thread("t").history()]
        assert said == ["r0", "r0", "r1", "r1", "r2", "r2", "f", "f", "r9", "r9"]
        assert engine.thread("t").history()[-1].digest == engine.state("r9").digest


def sizes(path: Path, store: Store) -> tuple[int, int]:
    """The bytes of steps and inputs, and the bytes of snapshots with their blobs."""
    rows = store.rows()
    entries = [entry for row in rows for entry in store.entries(row.run_id)]
    new = sum(len(row.start) for row in rows) + sum(len(e.body) for e in entries if e.kind != SNAPSHOT.name)
    with closing(sqlite3.connect(path)) as db:
        blobs = db.execute("SELECT sum(length(body)) FROM blobs").fetchone()[0]
    return new, blobs + sum(len(e.body) for e in entries if e.kind == SNAPSHOT.name)


@pytest.mark.parametrize("kind", ["list", "dict", "constant", "window"])
def test_snapshots_take_a_multiple_of_the_new_data(tmp_path: Path, kind: str) -> None:
    """Whatever grows or stays, the snapshots of a thread take at most eight times its new data."""
    path = tmp_path / "runs.db"
    with Engine(CHAT, store=SQLiteStore(path)) as engine:
        found = []
        for n in range(160):
            more: dict[str, Any] = {}
            if kind == "dict":
                more["facts"] = {f"fact {n}": "x" * 200}
            elif kind == "constant" and n == 0:
                more["prompt"] = "x" * 50_000
            elif kind == "window":
                more["window"] = ["x" * 20 + str(each) for each in range(n, n + 50)]
            say(engine, n, **more)
            if n in (79, 159):
                found.append(sizes(path, engine.store))
        (data, snapshots), (later, more_snapshots) = found
        assert more_snapshots < 8 * later + 100_000
        grown = (more_snapshots - snapshots) / (later - data)
        assert grown < (2 if kind in ("list", "constant") else 8)
        assert list(engine.store.check()) == []
        with Engine(store=SQLiteStore(path)) as other:  # without a graph, from another connection
            assert len(other.thread("t").state.get("messages")) == 320
