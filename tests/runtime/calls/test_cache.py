"""``@node(cache=True)``: an engine calls a function once for equal inputs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import clew.runtime.calls.cache
from clew import END, Context, Engine, Graph, node, route


def counting(calls: list[Any], **options: Any) -> Any:
    @node(output="b", cache=True, **options)
    def work(a: Any) -> str:
        calls.append(a)
        return f"{a!r} at call {len(calls)}"

    return work


def test_equal_inputs_are_not_worked_on_twice() -> None:
    calls: list[Any] = []
    engine = Engine(Graph([counting(calls)]))
    assert engine.run({"a": 1})["b"] == engine.run({"a": 1})["b"] == "1 at call 1"


def test_other_inputs_are_worked_on() -> None:
    calls: list[Any] = []
    engine = Engine(Graph([counting(calls)]))
    engine.run({"a": 1})
    engine.run({"a": 2})
    engine.run({"a": 1.0})
    assert calls == [1, 2, 1.0]


def test_inputs_are_equal_by_their_encoding() -> None:
    calls: list[Any] = []
    engine = Engine(Graph([counting(calls)]))
    engine.run({"a": {"x": 1, "y": [2]}})
    engine.run({"a": {"y": [2], "x": 1}})
    assert len(calls) == 1


def test_nodes_are_not_cached_unless_they_say_so() -> None:
    calls: list[Any] = []
    engine = Engine(Graph([node(lambda a: calls.append(a), name="b")]))
    engine.run({"a": 1})
    engine.run({"a": 1})
    assert len(calls) == 2


def test_each_engine_has_a_cache_of_its_own() -> None:
    calls: list[Any] = []
    graph = Graph([counting(calls)])
    Engine(graph).run({"a": 1})
    Engine(graph).run({"a": 1})
    assert len(calls) == 2


def test_what_was_cached_says_so() -> None:
    engine = Engine(Graph([counting([])]))
    fresh, again = engine.run({"a": 1}), engine.run({"a": 1})
    cached = [result.state.node_history["work"].cached for result in (fresh, again)]
    assert cached == [False, True]


def test_a_cached_result_makes_the_same_digest() -> None:
    engine = Engine(Graph([counting([])]))
    assert engine.run({"a": 1}).state.digest == engine.run({"a": 1}).state.digest


def test_a_loop_uses_its_results_again() -> None:
    calls: list[int] = []

    @node(output="half", cache=True)
    def parity(n: int) -> int:
        calls.append(n % 2)
        return n % 2

    @node(output="rest")
    def rest(n: int, half: int) -> int:
        return n + half

    engine = Engine(Graph([parity, rest]))
    engine.run({"n": 1})
    engine.fork(engine.runs()[0].run_id, values={"n": 1})
    assert calls == [1]


def test_an_async_node_is_cached() -> None:
    calls: list[int] = []

    @node(output="b", cache=True)
    async def work(a: int) -> int:
        calls.append(a)
        return a

    engine = Engine(Graph([work]))
    engine.run({"a": 1})
    assert (asyncio.run(engine.arun({"a": 1}))["b"], calls) == (1, [1])


@pytest.mark.parametrize("beside", [False, True])
def test_nodes_beside_others_are_cached(beside: bool) -> None:
    calls: list[Any] = []
    nodes = [counting(calls), node(lambda a: a, name="c")] if beside else [counting(calls)]
    engine = Engine(Graph(nodes))
    engine.run({"a": 1})
    engine.run({"a": 1})
    assert len(calls) == 1


def test_a_gate_is_cached() -> None:
    calls: list[int] = []

    @route(targets=["work", END], cache=True)
    def choose(a: int) -> Any:
        calls.append(a)
        return "work"

    @node(output="b")
    def work(a: int) -> int:
        return a

    engine = Engine(Graph([choose, work]))
    engine.run({"a": 1})
    assert (engine.run({"a": 1})["b"], calls) == (1, [1])


def test_a_node_that_takes_a_context_is_not_cached() -> None:
    calls: list[int] = []

    @node(output="b", cache=True)
    def work(a: int, ctx: Context) -> int:
        calls.append(a)
        return a

    engine = Engine(Graph([work]))
    engine.run({"a": 1})
    engine.run({"a": 1})
    assert len(calls) == 2


def test_inputs_that_cannot_be_encoded_are_not_cached() -> None:
    calls: list[Any] = []
    engine, client = Engine(Graph([counting(calls)])), object()
    engine.run({"a": client})
    engine.run({"a": client})
    assert len(calls) == 2


def test_a_node_that_reads_the_whole_state_is_cached_by_all_of_it() -> None:
    calls: list[Any] = []

    @node(output="b", cache=True)
    def work(state: Any) -> int:
        calls.append(dict(state))
        return 1

    engine = Engine(Graph([work]))
    for values in ({"a": 1}, {"a": 1}, {"a": 1, "c": 2}):
        engine.run(values)
    assert calls == [{"a": 1}, {"a": 1, "c": 2}]


def test_a_failure_is_not_cached() -> None:
    calls: list[int] = []

    @node(output="b", cache=True)
    def work(a: int) -> int:
        calls.append(a)
        if len(calls) == 1:
            raise ValueError
        return a

    engine = Engine(Graph([work]))
    assert engine.run({"a": 1}, check=False).status == "failed"
    assert engine.run({"a": 1})["b"] == 1


def test_two_nodes_of_the_same_code_have_results_of_their_own() -> None:
    class Client:
        def __init__(self, name: str) -> None:
            self.name = name

        def call(self, a: int) -> str:
            return self.name

    graph = Graph([node(Client(name).call, name=name, output=name, cache=True) for name in ("x", "y")])
    result = graph.run({"a": 1}, max_concurrent_nodes=1)
    assert (result["x"], result["y"]) == ("x", "y")


def test_a_default_counts_as_code() -> None:
    calls: list[int] = []

    @node(output="b", cache=True)
    def work(a: int, k: int = 5) -> int:
        calls.append(k)
        return k

    engine = Engine(Graph([work]))
    assert [engine.run(values)["b"] for values in ({"a": 1}, {"a": 1, "k": 6}, {"a": 1})] == [5, 6, 5]
    assert calls == [5, 6]


def test_a_node_inside_a_subgraph_is_cached() -> None:
    calls: list[Any] = []
    engine = Engine(Graph([Graph([counting(calls)], name="inner").as_node()]))
    engine.run({"a": 1})
    engine.run({"a": 1})
    assert len(calls) == 1


def test_the_oldest_results_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clew.runtime.calls.cache, "MAX_RESULTS", 2)
    calls: list[Any] = []
    engine = Engine(Graph([counting(calls)]))
    for a in (1, 2, 3, 2, 1):
        engine.run({"a": a})
    assert calls == [1, 2, 3, 1]
