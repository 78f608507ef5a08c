"""Diff: where two runs part."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clew import END, Engine, Graph, MemoryStore, SQLiteStore, ifelse, node
from clew.errors import UnknownRunError
from clew.runtime.review.run_diff import MISSING, ValueChange


@node(output="b")
def double(a: int) -> int:
    return 2 * a


@ifelse(when_true="large", when_false=END)
def is_large(b: int) -> bool:
    return b > 10


@node(output="c")
def large(b: int) -> str:
    return f"large {b}"


graph = Graph([double, is_large, large])


@pytest.fixture(params=["memory", "sqlite"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    store = MemoryStore() if request.param == "memory" else SQLiteStore(tmp_path / "runs.db")
    with Engine(graph, store=store) as engine:
        yield engine


def test_the_same(engine: Engine) -> None:
    engine.run({"a": 1}, run_id="x")
    engine.run({"a": 1}, run_id="y")
    found = engine.diff("x", "y")
    assert not found
    assert found.first is None
    assert str(found) == "runs 'x' and 'y' are the same: 2 steps, completed"


def test_from_the_start(engine: Engine) -> None:
    engine.run({"a": 1}, run_id="x")
    engine.run({"a": 8}, run_id="y")
    found = engine.diff("x", "y")
    assert found
    assert (found.common, found.since) == (None, 0)
    assert found.first is not None
    assert found.first.values == (ValueChange("a", 1, 8),)
    assert [step.step for step in found.steps] == [0, 1, 2, 3]
    (item,) = found.steps[1].items
    assert (item.path, item.only_in, item.changes) == ("double#0", None, (ValueChange("b", 2, 16),))
    assert found.steps[2].items[0].changes == (ValueChange("its decision", ["END"], ["large"]),)
    assert found.steps[3].items[0].only_in == "y"
    assert found.values == (
        ValueChange("a", 1, 8),
        ValueChange("b", 2, 16),
        ValueChange("c", MISSING, "large 16"),
    )
    assert str(found) == (
        "runs 'x' and 'y' differ from the start\n"
        "before step 1: different values\n"
        "  a: 1 -> 8\n"
        "step 1\n"
        "  double#0 has a different outcome\n"
        "    b: 2 -> 16\n"
        "step 2\n"
        "  is_large#0 has a different outcome\n"
        '    its decision: ["END"] -> ["large"]\n'
        "step 3\n"
        "  large#0 is only in 'y'\n"
        "at the end (completed after step 2; completed after step 3)\n"
        "  a: 1 -> 8\n"
        "  b: 2 -> 16\n"
        '  c: nothing -> "large 16"'
    )


def test_a_fork_is_compared_from_where_it_was_forked(engine: Engine) -> None:
    engine.run({"a": 1}, run_id="x")
    engine.fork("x", step=1, values={"b": 12}, run_id="f")
    found = engine.diff("x", "f")
    assert (found.common, found.since) == ("x", 1)
    assert found.first is not None
    assert (found.first.step, found.first.values) == (1, (ValueChange("b", 2, 12),))
    assert [step.step for step in found.steps] == [1, 2, 3]
    back = engine.diff("f", "x")
    assert back.first is not None
    assert back.first.values == (ValueChange("b", 12, 2),)


def test_a_fork_that_changes_nothing_is_the_same(engine: Engine) -> None:
    engine.run({"a": 1}, run_id="x")
    engine.fork("x", step=1, run_id="f")
    assert not engine.diff("x", "f")


def test_forks_of_a_common_parent(engine: Engine) -> None:
    engine.run({"a": 8}, run_id="x")
    engine.fork("x", step=1, values={"b": 2}, run_id="f")
    engine.fork("x", step=2, values={"b": 99}, run_id="g")
    engine.fork("g", step=2, values={"b": 98}, run_id="h")
    found = engine.diff("f", "g")
    assert (found.common, found.since) == ("x", 1)
    assert found.first is not None
    assert found.first.values == (ValueChange("b", 2, 16),)
    found = engine.diff("g", "h")
    assert (found.common, found.since) == ("g", 2)
    assert found.values == (ValueChange("b", 99, 98), ValueChange("c", "large 99", "large 98"))
    assert engine.diff("x", "h").common == "x"


def test_statuses_differ(engine: Engine, tmp_path: Path) -> None:
    mended = tmp_path / "mended"

    @node(output="b")
    def broken(a: int) -> int:
        if not mended.exists():
            raise ValueError("no")
        return a

    other = Engine(Graph([broken]), store=engine.store)
    other.run({"a": 1}, run_id="x", check=False)
    mended.touch()
    other.run({"a": 1}, run_id="y")
    found = other.diff("x", "y")
    assert found.status == ("failed", "completed")
    assert found.steps[0].items[0].only_in == "y"


@pytest.mark.parametrize(
    "old, new, shown",
    [
        (1, 2, "v: 1 -> 2"),
        ("a" * 300 + "b", "a" * 300 + "c", 'b"'),
        ([{"k": 1, "l": "x" * 60}], [{"k": 2, "l": "x" * 60}], "-[0].k = 1"),
        (MISSING, "y" * 300, "v: nothing -> "),
    ],
)
def test_a_change_is_readable(old: Any, new: Any, shown: str) -> None:
    text = str(ValueChange("v", old, new))
    assert shown in text
    assert max(map(len, text.splitlines())) < 140


def test_a_run_that_is_not_there(engine: Engine) -> None:
    engine.run({"a": 1}, run_id="x")
    with pytest.raises(UnknownRunError):
        engine.diff("x", "y")


def test_changes_are_data(engine: Engine) -> None:
    engine.run({"a": 1}, run_id="x")
    engine.run({"a": 2}, run_id="y")
    assert json.dumps([[c.name, c.old, c.new] for c in engine.diff("x", "y").values]) == (
        '[["a", 1, 2], ["b", 2, 4]]'
    )


# -- subgraphs -----------------------------------------------------------------------------------------------------


@node(output="p")
def halve(n: int) -> int:
    return n // 2


@node(output="q")
def is_odd(n: int) -> bool:
    return n % 2 == 1


@node(output="m")
def both(p: int, q: bool) -> int:
    return p * 0


NESTED = Graph(
    [Graph([Graph([halve, is_odd, both], name="inner").as_node(outputs=["m"])], name="outer").as_node()]
)


def test_what_happens_inside_a_subgraph_is_compared(tmp_path: Path) -> None:
    """Also where it makes no difference outside."""
    for store in (MemoryStore(), SQLiteStore(tmp_path / "nested.db")):
        engine = Engine(NESTED, store=store)
        engine.run({"n": 4}, run_id="x")
        engine.run({"n": 5}, run_id="y")
        engine.run({"n": 4}, run_id="z")
        found = engine.diff("x", "y")
        assert [step.step for step in found.steps] == [0, 1]
        (item,) = found.steps[1].items
        assert item.path == "outer#0/inner#0/is_odd#0"
        assert item.changes == (ValueChange("q", False, True),)
        assert "  outer#0/inner#0/is_odd#0 has a different outcome\n    q: false -> true" in str(found)
        assert not engine.diff("x", "z")


def test_what_happens_inside_each_element_is_compared() -> None:
    each = Graph([halve, is_odd], name="each").map_over("n").as_node(outputs=["p"])
    engine = Engine(Graph([each]))
    engine.run({"n": [2, 4]}, run_id="x")
    engine.run({"n": [2, 5]}, run_id="y")
    paths = [item.path for step in engine.diff("x", "y").steps for item in step.items]
    assert paths == ["each#0/each#0", "each#0/each#0[1]/is_odd#0"]


def test_items_inside_that_only_one_run_has_are_named() -> None:
    inner = Graph([double, is_large, large], name="inner").as_node(outputs=["b"])
    engine = Engine(Graph([inner]))
    engine.run({"a": 1}, run_id="x")
    engine.run({"a": 8}, run_id="y")
    items = [item for step in engine.diff("x", "y").steps for item in step.items]
    assert ("inner#0/large#0", "y") in [(item.path, item.only_in) for item in items]


def test_a_large_value_of_two_runs_is_read_once_for_each_log_and_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @node(output="large")
    def make(x: int) -> bytes:
        return bytes(200_000)

    @node(output="size")
    def measure(large: bytes) -> int:
        return len(large)

    with Engine(Graph([make, measure]), store=SQLiteStore(tmp_path / "runs.db")) as engine:
        engine.run({"x": 1}, run_id="a")
        engine.fork("a", step=1, run_id="b")
        read: list[str] = []
        blob = SQLiteStore.blob
        monkeypatch.setattr(
            SQLiteStore, "blob", lambda self, digest: read.append(digest) or blob(self, digest)
        )
        assert not engine.diff("a", "b")
        assert len(read) <= 4, read
