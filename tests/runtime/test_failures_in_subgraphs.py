"""Failures inside subgraphs and mapped subgraphs are reported as those of a flat graph, beside questions too.

What has finished beside a failure is not repeated when the run is resumed.
"""

from __future__ import annotations

from typing import Any

import pytest

from clew import Engine, Graph, RetryPolicy, interrupt, node
from clew.stores import Store
from tests.store_fixtures import every_store

store = every_store

CALLS: list[Any] = []
BROKEN: set[Any] = set()


@pytest.fixture(autouse=True)
def _fresh() -> None:
    CALLS.clear()
    BROKEN.clear()


def called(what: Any) -> Any:
    CALLS.append(what)
    if what in BROKEN:
        raise ValueError(what)
    return what


@node(output="price")
def look_up(item: int) -> int:
    return called(item)


@interrupt(output="agreed")
def agree(price: int) -> str:
    return f"{price}?"


LOOKED_UP = Graph([look_up], name="looked_up")
AGREED = Graph([look_up, agree], name="one")


def paths(found: Any) -> list[str]:
    return [each.path for each in found]


@pytest.mark.parametrize("on_error, status", [("stop", "failed"), ("continue", "completed")])
def test_all_failed_elements_are_listed(store: Store, on_error: Any, status: str) -> None:
    BROKEN.update((1, 3))
    engine = Engine(LOOKED_UP.map_over("item"), store=store, on_error=on_error)
    result = engine.run({"item": [0, 1, 2, 3]}, run_id="r", check=False)
    assert (result.status, str(result.error)) == (status, "1")
    assert paths(result.failures) == ["looked_up#0[1]/look_up#0", "looked_up#0[3]/look_up#0"]
    assert paths(engine.result("r").failures) == paths(result.failures)
    assert all(failure.around == ("looked_up#0",) for failure in result.failures)
    assert engine.replay("r").ok


def test_finished_elements_do_not_run_again(store: Store) -> None:
    BROKEN.update((1, 3))
    engine = Engine(LOOKED_UP.map_over("item"), store=store)
    assert engine.run({"item": [0, 1, 2, 3]}, run_id="r", check=False).status == "failed"
    assert sorted(CALLS) == [0, 1, 2, 3]
    CALLS.clear()
    BROKEN.clear()
    result = Engine(engine.graph, store=store).resume("r")
    assert (result.status, result["price"], sorted(CALLS)) == ("completed", [0, 1, 2, 3], [1, 3])
    assert engine.replay("r").ok


@pytest.mark.parametrize("items", [[0, 1], [1, 0]])
@pytest.mark.parametrize("workers", [1, 4])
def test_a_question_of_another_element_does_not_hide_a_failure(
    store: Store, items: list[int], workers: int
) -> None:
    BROKEN.add(1)
    engine = Engine(AGREED.map_over("item"), store=store, max_concurrent_nodes=workers)
    result = engine.run({"item": items}, run_id="r", check=False)
    asks, fails = items.index(0), items.index(1)
    assert (result.status, paths(result.questions)) == ("failed", [f"one#0[{asks}]/agree#0"])
    assert paths(result.failures) == [f"one#0[{fails}]/look_up#0"]
    BROKEN.clear()
    result = engine.resume("r", answer="yes")
    assert (result.status, paths(result.questions)) == ("waiting", [f"one#0[{fails}]/agree#0"])
    assert engine.resume("r", answer="no")["agreed"] == ["yes" if item == 0 else "no" for item in items]
    assert sorted(CALLS) == [0, 1, 1]


def test_a_confined_failure_is_listed_while_another_element_asks(store: Store) -> None:
    BROKEN.add(1)
    engine = Engine(AGREED.map_over("item"), store=store, on_error="continue")
    result = engine.run({"item": [0, 1]}, run_id="r")
    assert (result.status, paths(result.questions)) == ("waiting", ["one#0[0]/agree#0"])
    assert paths(result.failures) == paths(engine.result("r").failures) == ["one#0[1]/look_up#0"]
    result = engine.resume("r", answer="yes")
    assert (result.status, paths(result.failures)) == ("completed", ["one#0[1]/look_up#0"])
    assert sorted(CALLS) == [0, 1]


@pytest.mark.parametrize("options", [{"retry": RetryPolicy(max_attempts=2, base_delay=0)}, {"rescue": dict}])
def test_the_questions_of_an_attempt_that_is_over_are_withdrawn(store: Store, options: Any) -> None:
    BROKEN.add(1)
    if "rescue" in options:
        options = {"rescue": lambda error: {"price": [], "agreed": []}}
    engine = Engine(AGREED.map_over("item", **options), store=store)
    result = engine.run({"item": [0, 1]}, run_id="r", check=False)
    asked = [] if "rescue" in options else ["one#0[0]/agree#0"]
    assert result.status == ("completed" if "rescue" in options else "failed")
    assert paths(result.questions) == paths(engine.result("r").questions) == asked


def work(name: str) -> Any:
    return node(name=name, output=f"made_{name}")(lambda item, name=name: called(name))


@interrupt(output="answer")
def ask(item: int) -> str:
    return "well?"


WIDE = Graph([work("a"), work("b"), work("c"), ask], name="wide")
ASKED_BELOW = Graph([work("a"), work("c"), Graph([ask], name="below").as_node()], name="wide")
NESTED = {
    "flat": (WIDE, "", "ask#0"),
    "inside": (Graph([WIDE.as_node()], name="outer"), "wide#0/", "wide#0/ask#0"),
    "two deep": (
        Graph([Graph([WIDE.as_node()], name="middle").as_node()], name="outer"),
        "middle#0/wide#0/",
        "middle#0/wide#0/ask#0",
    ),
    "asked below": (Graph([ASKED_BELOW.as_node()], name="outer"), "wide#0/", "wide#0/below#0/ask#0"),
}


@pytest.mark.parametrize("kind", NESTED)
def test_a_subgraph_reports_all_failures_and_questions_as_a_flat_graph_does(store: Store, kind: str) -> None:
    graph, prefix, asks = NESTED[kind]
    BROKEN.update(("a", "c"))
    engine = Engine(graph, store=store)
    result = engine.run({"item": 1}, run_id="r", check=False)
    assert (result.status, paths(result.questions)) == ("failed", [asks])
    assert paths(result.failures) == [f"{prefix}a#0", f"{prefix}c#0"]
    CALLS.clear()
    BROKEN.clear()
    result = Engine(graph, store=store).resume("r", answers={asks: "fine"})
    assert (result.status, sorted(CALLS)) == ("completed", ["a", "c"])
    assert engine.replay("r").ok
