"""A node of a durable run returns a value that cannot be stored: where the failure is, and what it affects."""

from __future__ import annotations

import operator
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from clew import Command, Engine, Graph, RunResult, Send, SQLiteStore, node, route
from clew.errors import EncodeError

CALLS: list[Any] = []
BAD: set[Any] = set()


@pytest.fixture(autouse=True)
def _fresh() -> None:
    CALLS.clear()
    BAD.clear()


class Rows(TypedDict, total=False):
    items: list[int]
    rows: Annotated[list[Any], operator.add]
    report: int
    other: int


def result_of(item: Any) -> Any:
    CALLS.append(item)
    return object() if item in BAD else item


def facts(result: RunResult) -> list[tuple[Any, ...]]:
    return [
        (each.node, each.path, each.step, each.attempts, each.around, each.rescued, type(each.error))
        for each in result.failures
    ]


@route(targets=["load"])
def each(items: list[int]) -> list[Send]:
    return [Send("load", {"item": item}) for item in items]


@node(output="rows", retry=3)
def load(item: int) -> list[Any]:
    return [result_of(item)]


def placeholder(error: Exception, item: int) -> list[Any]:
    return [type(error).__name__]


@node(output="report", after="load")
def report(rows: list[Any]) -> int:
    return len(rows)


@node(output="other")
def other(items: list[int]) -> int:
    return len(items)


PLAIN = Graph([each, load, report, other], state=Rows)
RESCUED = Graph(
    [each, node(load.func, output="rows", retry=3, rescue=placeholder), report, other], state=Rows
)


def engine_at(tmp_path: Path, graph: Graph, **options: Any) -> Engine:
    return Engine(graph, store=SQLiteStore(tmp_path / "runs.db"), **options)


@pytest.mark.parametrize("on_error", ["stop", "continue"])
@pytest.mark.parametrize("workers", [1, 4])
def test_an_item_is_rescued(tmp_path: Path, on_error: str, workers: int) -> None:
    BAD.add(2)
    with engine_at(tmp_path, RESCUED, on_error=on_error, max_concurrent_nodes=workers) as engine:
        result = engine.run({"items": [1, 2, 3]}, run_id="r")
        assert (result.status, result["rows"], result["report"]) == ("completed", [1, "EncodeError", 3], 3)
        assert facts(result) == [("load", "load#0[1]", 2, 1, (), True, EncodeError)]
        assert facts(engine.result("r")) == facts(result)
        assert sorted(CALLS) == [1, 2, 3]
        assert engine.replay("r").ok


@pytest.mark.parametrize("workers", [1, 4])
def test_an_item_is_confined(tmp_path: Path, workers: int) -> None:
    BAD.add(2)
    with engine_at(tmp_path, PLAIN, on_error="continue", max_concurrent_nodes=workers) as engine:
        result = engine.run({"items": [1, 2, 3]}, run_id="r", check=False)
        assert (result.status, result["other"], result["rows"]) == ("completed", 3, [1, 3])
        assert facts(result) == [("load", "load#0[1]", 2, 1, (), False, EncodeError)]
        assert facts(engine.result("r")) == facts(result)
        assert sorted(CALLS) == [1, 2, 3]


@pytest.mark.parametrize("workers", [1, 4])
def test_the_failure_of_a_run_has_a_place(tmp_path: Path, workers: int) -> None:
    BAD.add(7)
    with engine_at(tmp_path, PLAIN, max_concurrent_nodes=workers) as engine:
        result = engine.run({"items": list(range(20))}, run_id="r", check=False)
        assert facts(result) == [("load", "load#0[7]", 2, 1, (), False, EncodeError)]
        assert facts(engine.result("r")) == facts(result)
        BAD.clear()
        assert engine.resume("r")["report"] == 20


@node(output="y", retry=3)
def single(x: int) -> Any:
    return result_of(x)


@node(output="y")
async def single_async(x: int) -> Any:
    return result_of(x)


@node(output=("y", "z"))
def pair(x: int) -> Any:
    return 1, result_of(x)


@node(writes="y", goto="last")
def command(x: int) -> Any:
    return Command({"y": result_of(x)}, goto="last")


@route(targets=["last"])
def sends(x: int) -> Any:
    return [Send("last", {"y": result_of(x)})]


@node(output="end")
def last(y: Any) -> int:
    return 1


@node(output="free")
def free(x: int) -> int:
    return x


SHAPES = [single, single_async, pair, command, sends]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
@pytest.mark.parametrize("on_error", ["stop", "continue"])
def test_every_way_to_return_a_value(tmp_path: Path, shape: Any, on_error: str) -> None:
    BAD.add(1)
    with engine_at(tmp_path, Graph([shape, last, free]), on_error=on_error) as engine:
        result = engine.run({"x": 1}, check=False)
        assert facts(result) == [(shape.name, f"{shape.name}#0", 1, 1, (), False, EncodeError)]
        assert CALLS == [1]
        if on_error == "continue":
            assert result["free"] == 1


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("on_error", ["stop", "continue"])
def test_the_only_item_of_a_step(tmp_path: Path, on_error: str, durability: str) -> None:

    @node(output="x")
    def first(start: int) -> int:
        return start

    BAD.add(5)
    options = {"on_error": on_error, "durability": durability}
    with engine_at(tmp_path, Graph([first, single, last]), **options) as engine:
        result = engine.run({"start": 5}, check=False)
        assert facts(result) == [("single", "single#0", 2, 1, (), False, EncodeError)]
        assert (result.last_step, result["x"]) == (2 if on_error == "continue" else 1, 5)


def test_the_only_item_of_a_step_is_rescued(tmp_path: Path) -> None:
    alone = node(single.func, output="y", rescue=lambda error, x: -x)
    BAD.add(5)
    with engine_at(tmp_path, Graph([alone, last])) as engine:
        result = engine.run({"x": 5})
        assert (result["y"], result["end"]) == (-5, 1)
        assert facts(result) == [("single", "single#0", 1, 1, (), True, EncodeError)]


@pytest.mark.parametrize("on_error", ["stop", "continue"])
def test_the_value_of_a_rescue_is_checked(tmp_path: Path, on_error: str) -> None:
    alone = node(single.func, output="y", rescue=lambda error, x: object())
    BAD.add(5)
    with engine_at(tmp_path, Graph([alone, last]), on_error=on_error) as engine:
        result = engine.run({"x": 5}, check=False)
        assert "y" not in result
        assert facts(result)[0] == ("single", "single#0", 1, 1, (), False, EncodeError)


def inner() -> Graph:
    @node(output="x")
    def first(item: int) -> int:
        return item

    return Graph([first, single], name="inner")


def nested(**options: Any) -> Graph:
    return Graph([inner().as_node("sub", inputs=("item",), outputs=("y",), **options), last])


def mapped(**options: Any) -> Graph:
    return Graph([inner().map_over("item", name="sub", inputs=("item",), outputs=("y",), **options), last])


@pytest.mark.parametrize("on_error", ["stop", "continue"])
@pytest.mark.parametrize("graph, item", [(nested, 5), (mapped, [4, 5, 6])])
def test_inside_a_subgraph_the_place_is_that_of_an_error_that_is_raised(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    graph: Callable[[], Graph],
    item: Any,
    on_error: str,
) -> None:
    BAD.add(5)
    with engine_at(tmp_path, graph(), on_error=on_error) as engine:
        returned = facts(engine.run({"item": item}, check=False))
        assert [(node, kind) for node, *_, kind in returned] == [("single", EncodeError)]

        def raising(item: Any) -> Any:
            if item in BAD:
                raise EncodeError("no encoding")
            return item

        monkeypatch.setitem(globals(), "result_of", raising)
        assert returned == facts(engine.run({"item": item}, check=False))


def test_a_subgraph_is_rescued(tmp_path: Path) -> None:
    BAD.add(5)
    with engine_at(tmp_path, nested(rescue=lambda error, item: {"y": 0})) as engine:
        result = engine.run({"item": 5})
        assert (result["y"], result["end"]) == (0, 1)
        assert facts(result) == [("single", "sub#0/single#0", 1, 1, ("sub#0",), True, EncodeError)]
