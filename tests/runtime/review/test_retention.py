"""Prune: which runs go, and which never do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clew import Engine, Graph, MemoryStore, SQLiteStore, interrupt, node
from clew.errors import DefinitionError
from clew.testing import VirtualClock


@node(output="b")
def double(a: int) -> int:
    if a < 0:
        raise ValueError("below zero")
    return 2 * a


@interrupt(output="sure")
def ask(b: int) -> str:
    return "sure?"


graph = Graph([double])


@pytest.fixture(params=["memory", "sqlite"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    store = MemoryStore() if request.param == "memory" else SQLiteStore(tmp_path / "runs.db")
    with Engine(graph, store=store, clock=VirtualClock()) as engine:
        yield engine


def ids(engine: Engine) -> list[str]:
    return [row.run_id for row in engine.runs()]


def fill(engine: Engine) -> None:
    clock: Any = engine._settings.clock
    for i in range(5):
        engine.run({"a": i}, run_id=f"r{i}")
        clock.advance(clock.monotonic() + 100.0)


def test_the_newest_are_kept(engine: Engine) -> None:
    fill(engine)
    assert engine.prune(keep=2, dry_run=True) == ["r0", "r1", "r2"]
    assert ids(engine) == ["r0", "r1", "r2", "r3", "r4"]
    assert engine.prune(keep=2) == ["r0", "r1", "r2"]
    assert ids(engine) == ["r3", "r4"]
    assert engine.prune(keep=2) == []


def test_by_age(engine: Engine) -> None:
    fill(engine)
    assert engine.prune(older_than=250.0) == ["r0", "r1", "r2"]
    assert engine.prune(older_than=150.0, keep=2) == []


def test_by_status(engine: Engine) -> None:
    fill(engine)
    engine.run({"a": -1}, run_id="bad", check=False)
    assert engine.prune(status="failed") == ["bad"]
    assert len(ids(engine)) == 5


def test_what_waits_stays_unless_it_is_asked_for(engine: Engine) -> None:
    asking = Engine(Graph([double, ask]), store=engine.store)
    asking.run({"a": 1}, run_id="waits")
    assert engine.prune(keep=0) == []
    assert engine.prune(status="waiting") == ["waits"]


def test_parents_of_kept_forks_stay(engine: Engine) -> None:
    fill(engine)
    engine.fork("r1", run_id="f")
    engine.fork("f", run_id="g")
    assert engine.prune(keep=1) == ["r0", "r2", "r3", "r4"]
    assert ids(engine) == ["r1", "f", "g"]
    assert engine.prune(keep=0) == ["r1", "f", "g"]


def test_a_run_of_a_living_owner_stays(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "runs.db")
    engine = Engine(graph, store=store)
    engine._execution.open_session({"a": 1}, "live")
    other = Engine(store=SQLiteStore(tmp_path / "runs.db"))
    assert other.prune(status="running") == []
    assert engine.prune(status="running") == []
    store.close()  # the owner is gone
    assert other.prune(status="running") == ["live"]
    other.store.close()


@pytest.mark.parametrize(
    "options, message",
    [
        ({}, "needs a selection"),
        ({"keep": -1}, "keep: expected an int"),
        ({"keep": True}, "keep: expected an int"),
        ({"older_than": -1.0}, "older_than: expected seconds"),
        ({"status": "happy"}, "status: expected one of"),
    ],
)
def test_wrong_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        Engine(graph).prune(**options)


def test_a_dry_run_spares_the_parents_of_what_stays_too(tmp_path: Path) -> None:
    engine = Engine(Graph([node(lambda a: a, name="n", output="b")]), store=SQLiteStore(tmp_path / "runs.db"))
    engine.run({"a": 1}, run_id="parent")
    engine.fork("parent", step=0, run_id="fork")
    assert engine.prune(keep=1, dry_run=True) == []
    assert engine.prune(keep=0, dry_run=True) == ["parent", "fork"]
