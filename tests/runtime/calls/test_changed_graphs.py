"""A rerun with a changed graph gives what a fresh run of that graph gives, whatever has changed."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from clew import Engine, Graph, MemoryStore, RunResult, Send, SQLiteStore, node, route
from clew.stores import Store


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    found: Store = MemoryStore() if request.param == "memory" else SQLiteStore(tmp_path / "runs.db")
    yield found
    found.close()


def both(
    store: Store, make: Callable[[int], Graph], values: dict[str, Any], **changes: Any
) -> tuple[RunResult, RunResult]:
    """Run version 1 of a graph; return a rerun with version 2, and a fresh run of version 2."""
    Engine(make(1), store=store, seed=1).run(values, run_id="first", check=False)
    engine = Engine(make(2), store=store, seed=1)
    again = engine.rerun("first", values=changes or None)
    return again, engine.run({**values, **changes})


def check(store: Store, make: Callable[[int], Graph], values: dict[str, Any], **changes: Any) -> int:
    """Check that the rerun is like the fresh run; return how many results it reused."""
    again, fresh = both(store, make, values, **changes)
    assert dict(again.values) == dict(fresh.values)
    assert again.state.digest == fresh.state.digest
    return again.metrics.total_cache_hits


def simple(name: str, source: str, output: str, code: str = "{}", **options: Any) -> Any:
    return node(eval(f"lambda {source}: {code.format(source)}"), name=name, output=output, **options)


def inner(name: str = "sub") -> Graph:
    return Graph([simple("one", "x", "y")], name=name)


READER = simple("reader", "y", "z", "('read', {})")


# -- subgraphs -------------------------------------------------------------------------------------------------


def test_a_changed_transform_of_the_output_runs_its_readers(store: Store) -> None:
    def make(version: int) -> Graph:
        def leave(state: Any) -> dict[str, Any]:
            return {"y": state["y"] * version}

        return Graph([inner().as_node(outputs=("y",), transform_output=leave), READER])

    assert check(store, make, {"x": 3}) == 1  # what is inside


def test_a_changed_transform_with_the_same_value_runs_nothing(store: Store) -> None:
    def make(version: int) -> Graph:
        def leave(state: Any) -> dict[str, Any]:
            return {"y": abs(state["y"]) if version == 2 else state["y"]}

        return Graph([inner().as_node(outputs=("y",), transform_output=leave), READER])

    assert check(store, make, {"x": 3}) == 2


def test_a_changed_transform_of_the_input_runs_what_is_inside(store: Store) -> None:
    def make(version: int) -> Graph:
        def enter(values: Any) -> dict[str, Any]:
            return {"x": values["x"] * version}

        return Graph([inner().as_node(inputs=("x",), transform_input=enter), READER])

    assert check(store, make, {"x": 3}) == 0


def test_a_transform_in_a_subgraph_of_a_subgraph(store: Store) -> None:
    def make(version: int) -> Graph:
        deepest = inner("deepest").as_node(
            outputs=("y",), transform_output=lambda state: {"y": state["y"] + version}
        )
        middle = Graph([deepest, simple("next", "y", "w")], name="middle")
        return Graph([middle, simple("last", "w", "z")])

    assert check(store, make, {"x": 3}) == 1


def test_a_renamed_output_of_a_subgraph_runs_its_readers(store: Store) -> None:
    def make(version: int) -> Graph:
        two = Graph([simple("one", "x", "a"), simple("two", "x", "b", "{} + 5")], name="sub")
        return Graph([two.as_node().rename(outputs={"a" if version == 1 else "b": "y"}), READER])

    assert check(store, make, {"x": 3}) == 2


def test_a_renamed_output_of_a_mapped_subgraph_runs_its_readers(store: Store) -> None:
    def make(version: int) -> Graph:
        two = Graph([simple("one", "x", "a"), simple("two", "x", "b", "{} + 5")], name="sub")
        mapped = two.map_over("x", name="all")
        return Graph([mapped.as_node().rename(outputs={"a" if version == 1 else "b": "y"}), READER])

    check(store, make, {"x": [1, 2]})


class Rows(TypedDict, total=False):
    xs: list[int]
    rows: Annotated[list[int], operator.add]
    report: int


def test_a_changed_transform_of_a_subgraph_that_gets_sends(store: Store) -> None:
    def make(version: int) -> Graph:
        part = Graph([simple("one", "i", "rows", "[{}]")], name="part")
        spread = route(targets=["part"], name="spread")(lambda xs: [Send("part", {"i": x}) for x in xs])
        rows = part.as_node(
            outputs=("rows",), transform_output=lambda state: {"rows": state["rows"] * version}
        )
        return Graph([spread, rows, simple("sum", "rows", "report", "sum({})", after="part")], state=Rows)

    assert check(store, make, {"xs": [1, 2]}) == 3


# -- what nodes read -------------------------------------------------------------------------------------------


def test_a_removed_writer_does_not_leave_its_value_to_the_readers(store: Store) -> None:
    def make(version: int) -> Graph:
        return Graph([simple("writer", "x", "y", "{} + 1"), READER] if version == 1 else [READER])

    Engine(make(1), store=store).run({"x": 1, "y": 50}, run_id="first")
    with pytest.warns(match="'x'"):
        assert Engine(make(2), store=store).rerun("first")["z"] == ("read", 50)


def test_swapped_inputs_are_other_arguments(store: Store) -> None:
    def make(version: int) -> Graph:
        minus = node(lambda a, b: a - b, name="minus", output="y")
        return Graph([minus if version == 1 else minus.rename(inputs={"a": "b", "b": "a"})])

    assert check(store, make, {"a": 5, "b": 2}) == 0


def test_equal_names_in_two_subgraphs_do_not_share_results(store: Store) -> None:
    def make(version: int) -> Graph:
        first = Graph([simple("one", "x", "a")], name="first")
        second = Graph([simple("one", "x", "a").rename(outputs={"a": "b"})], name="second")
        return Graph([first, second] if version == 2 else [first])

    assert check(store, make, {"x": 3}) == 1


def test_a_cutoff_compares_with_the_value_of_the_new_run(store: Store) -> None:
    def make(version: int) -> Graph:
        return Graph([node(lambda x: 1, name="one", output="y", cutoff=True), READER])

    assert check(store, make, {"x": 3, "y": 1}, y=2) == 1  # the reader


# -- bound values ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["subgraph", "as_node", "mapped", "nested", "outside", "renamed", "passed"])
def test_a_changed_bound_value_of_a_subgraph_runs_its_readers(store: Store, place: str) -> None:
    def make(version: int) -> Graph:
        ask = node(lambda question, model: f"{model}: {question}", name="ask", output="answer")
        other = simple("other", "question", "size", "len({})")
        sub = Graph([ask, other], name="sub")
        bound = sub.bind(model=f"m-{version}")
        found: dict[str, Any] = {
            "subgraph": lambda: Graph([bound]),
            "as_node": lambda: Graph([bound.as_node(name="asker")]),
            "mapped": lambda: Graph([bound.map_over("question", name="all")]),
            "nested": lambda: Graph([Graph([bound], name="middle")]),
            "outside": lambda: Graph([Graph([sub], name="middle")]).bind(model=f"m-{version}"),
            "renamed": lambda: Graph([sub.as_node().rename(inputs={"model": "llm"})]).bind(
                llm=f"m-{version}"
            ),
            "passed": lambda: Graph(
                [sub.as_node(inputs=("question",), transform_input=lambda seen: dict(seen))]
            ).bind(model=f"m-{version}"),
        }
        graph: Graph = found[place]()
        return graph

    question = ["why", "how"] if place == "mapped" else "why"
    assert check(store, make, {"question": question}) == (2 if place == "mapped" else 1)


def test_an_unchanged_bound_value_runs_nothing(store: Store) -> None:
    def make(version: int) -> Graph:
        sub = Graph([node(lambda x, k: x * k, name="one", output="y")], name="sub")
        return Graph([Graph([sub], name="middle")]).bind(k=[1, 2])

    assert check(store, make, {"x": 3}) == 1


def test_a_default_that_is_bound_now(store: Store) -> None:
    def make(version: int) -> Graph:
        graph = Graph([node(lambda x, k=1: x * k, name="one", output="y")], name="sub")
        return Graph([graph.bind(k=5) if version == 2 else graph])

    assert check(store, make, {"x": 3}) == 0


def test_what_finished_in_a_failed_subgraph_is_reused(store: Store) -> None:
    def make(version: int) -> Graph:
        def fail(x: int, k: int) -> int:
            if version == 1:
                raise ValueError
            return x

        nodes = [node(lambda x, k: x + k, name="one", output="a"), node(fail, name="two", output="b")]
        return Graph([Graph(nodes, name="sub"), simple("beside", "x", "d")]).bind(k=1)

    assert check(store, make, {"x": 3}) == 2
