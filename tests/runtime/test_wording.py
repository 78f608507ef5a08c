"""Messages and warnings say each thing once, with the user's words and at the user's line."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
import warnings
from collections.abc import Callable
from contextlib import closing
from dataclasses import make_dataclass
from pathlib import Path
from typing import Any

import pytest

from clew import Engine, Graph, MemoryStore, SQLiteStore, node, register_type
from clew.errors import CheckpointError, ClassChangedError, GraphWarning, StoreCorruptError
from clew.stores import LogEntry


@node(output="b")
def add(a: int) -> int:
    return a + 1


def graph(fails: bool, more: int = 1) -> Graph:
    """Return a graph whose code depends on `more`."""

    @node(output="b")
    def act(a: int) -> int:
        if fails:
            raise ValueError("no luck")
        return a + more

    return Graph([act])


VERBS: dict[str, Callable[[Engine], Any]] = {
    "resume": lambda engine: engine.resume("r"),
    "aresume": lambda engine: asyncio.run(_aresume(engine)),
}


async def _aresume(engine: Engine) -> None:
    await engine.aresume("r")


@pytest.mark.parametrize("verb", VERBS)
def test_a_warning_points_at_the_line_of_the_user(tmp_path: Path, verb: str) -> None:
    Engine(graph(fails=True), store=SQLiteStore(tmp_path / "runs.db"), check=False).run({"a": 1}, run_id="r")
    engine = Engine(graph(fails=False), store=SQLiteStore(tmp_path / "runs.db"), check=False)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        VERBS[verb](engine)
    (warning,) = [each for each in found if each.category is GraphWarning]
    assert warning.filename == __file__
    assert f"engine.{verb}(" in Path(__file__).read_text().splitlines()[warning.lineno - 1]


def test_a_run_of_one_step() -> None:
    result = Graph([add]).run(a=1)
    assert "1 step>" in repr(result)
    engine = Engine(Graph([add]))
    engine.run({"a": 1}, run_id="r")
    assert "1 step," in str(engine.diff("r", "r"))


@pytest.mark.parametrize(
    "value", [10**5000, [-(10**5000)], {"deep": (10**5000,)}], ids=["int", "list", "dict"]
)
def test_a_state_with_a_huge_int_has_a_repr(value: Any) -> None:
    limit = sys.get_int_max_str_digits()
    assert 0 < limit < 5000
    state = Graph([add]).run(a=1).state.set("big", value)
    assert "big=" in repr(state)
    assert "big=" in str(state)


def test_a_kind_that_does_not_exist_is_named(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "runs.db")
    engine = Engine(Graph([add]), store=store)
    engine.run({"a": 1}, run_id="r")
    fence = store.claim("r", "me", lease=1.0)
    store.append("r", [LogEntry("parcel", "a#0", 0, b"[]", b"")], fence)
    store.release("r", fence)
    with pytest.raises(StoreCorruptError, match="unknown kind 'parcel'"):
        engine.history("r")
    from clew.cli.commands.doctor import examine

    assert [line for line in examine(store)["damage"] if "unknown kind 'parcel'" in line]


def test_a_kind_that_only_the_census_has_is_named(tmp_path: Path) -> None:
    engine = Engine(Graph([add]), store=SQLiteStore(tmp_path / "runs.db"), check=False)
    engine.run({"a": 1}, run_id="r")
    with closing(sqlite3.connect(tmp_path / "runs.db")) as db, db:
        db.execute("""UPDATE runs SET census = '{"": 1, "parcel": 2}'""")
    with pytest.raises(StoreCorruptError, match="unknown kind 'parcel'"):
        engine.history("r")


def test_an_edited_document_shows_numbers_as_they_are_written() -> None:
    engine = Engine(Graph([add]))
    engine.run({"a": 1}, run_id="r")
    store = Engine(Graph([add]), store=MemoryStore())
    document = json.loads(json.dumps(engine.export_run("r")))
    document["checkpoints"][1]["step_id"] = 2
    with pytest.raises(CheckpointError, match=r"step_id is 2, but the log has 1;"):
        store.import_run(document)


HERE = {"__module__": __name__}


def test_a_changed_class_is_named_once(tmp_path: Path) -> None:
    note = make_dataclass("Note", ["text"], namespace=HERE)
    register_type(note)

    @node(output="note")
    def write(a: int) -> Any:
        return note("hello")

    @node(output="read")
    def read(note: Any) -> str:
        if not (tmp_path / "mended").exists():
            raise ValueError("no luck")
        return str(note)

    Engine(Graph([write, read]), store=SQLiteStore(tmp_path / "runs.db"), check=False).run(
        {"a": 1}, run_id="r"
    )
    (tmp_path / "mended").touch()
    register_type(make_dataclass("Note", ["text", "author"], namespace=HERE))
    result = Engine(Graph([write, read]), store=SQLiteStore(tmp_path / "runs.db"), check=False).resume("r")
    assert isinstance(result.error, ClassChangedError)
    assert str(result.error).count("cannot be built") == 1
    assert result.error.missing == ("author",)


def test_a_fork_of_a_confined_failure_names_the_node_and_no_empty_path(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "runs.db")
    engine = Engine(graph(fails=True), store=store, on_error="continue", check=False)
    engine.run({"a": 1}, run_id="r")
    (failure,) = engine.fork("r", run_id="fork").failures
    assert failure.node == "act"
    assert "  " not in str(failure)
    assert " at " not in str(failure)
