"""Rerun: what changed inputs or code do not affect is used again, and its record says so."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from clew import (
    END,
    Context,
    Engine,
    Graph,
    MemoryStore,
    Send,
    SideEffectPolicy,
    SQLiteStore,
    ifelse,
    interrupt,
    node,
    route,
)
from clew.errors import InputError
from clew.runtime.calls.reuse import ResultReuse
from clew.stores import Store

ran: list[str] = []


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    found: Store = MemoryStore() if request.param == "memory" else SQLiteStore(tmp_path / "runs.db")
    ran.clear()
    yield found
    found.close()


def noting(name: str, source: str, output: str, code: str = "{} + 1", **options: Any) -> Any:
    """A node that notes that it ran, and computes `code` of its input."""
    body = f"lambda {source}: ran.append({name!r}) or {code.format(source)}"
    return node(eval(body, {"ran": ran}), name=name, output=output, **options)


CHAIN = [noting("one", "a", "b"), noting("two", "b", "c"), noting("other", "z", "y")]


def first_run(store: Store, nodes: list[Any], values: dict[str, Any], **graph: Any) -> Engine:
    engine = Engine(Graph(nodes, **graph), store=store, max_concurrent_nodes=1)
    engine.run(values, run_id="r", check=False)
    ran.clear()
    return engine


def cached(engine: Engine, run_id: str) -> dict[str, bool]:
    history = engine.state(run_id).node_history
    return {name: execution.cached for name, execution in history.items()}


def test_with_nothing_changed_nothing_is_called(store: Store) -> None:
    engine = first_run(store, CHAIN, {"a": 1, "z": 1})
    assert (engine.rerun("r")["c"], ran) == (3, [])


def test_a_changed_value_runs_what_depends_on_it(store: Store) -> None:
    engine = first_run(store, CHAIN, {"a": 1, "z": 1})
    result = engine.rerun("r", values={"a": 2})
    assert (result["c"], result["y"], ran) == (4, 2, ["one", "two"])


def test_changed_code_runs_the_node_and_what_depends_on_its_result(store: Store) -> None:
    first_run(store, CHAIN, {"a": 1, "z": 1})
    engine = Engine(Graph([noting("one", "a", "b", "{} + 5"), *CHAIN[1:]]), store=store)
    assert (engine.rerun("r")["c"], sorted(ran)) == (7, ["one", "two"])


def test_where_changed_code_gives_the_same_the_rest_is_used_again(store: Store) -> None:
    first_run(store, CHAIN, {"a": 1, "z": 1})
    engine = Engine(Graph([noting("one", "a", "b", "1 + {}"), *CHAIN[1:]]), store=store)
    assert (engine.rerun("r")["c"], ran) == (3, ["one"])


def test_the_record_says_what_was_used_again(store: Store) -> None:
    engine = first_run(store, CHAIN, {"a": 1, "z": 1})
    engine.rerun("r", values={"a": 2}, run_id="again")
    assert cached(engine, "again") == {"one": False, "two": False, "other": True}


def test_the_chain_is_that_of_a_run_from_scratch(store: Store) -> None:
    engine = first_run(store, CHAIN, {"a": 1, "z": 1})
    again = engine.rerun("r", values={"a": 2})
    assert again.state.digest == engine.run({"a": 2, "z": 1}).state.digest


def test_it_is_a_run_of_its_own(store: Store) -> None:
    engine = first_run(store, CHAIN, {"a": 1, "z": 1})
    engine.rerun("r", run_id="again")
    engine.delete("r")
    assert engine.result("again")["c"] == 3


def test_inside_a_loop_it_is_awaited(store: Store) -> None:
    engine = first_run(store, CHAIN, {"a": 1, "z": 1})

    async def main() -> Any:
        assert engine.rerun("r")["c"] == 3  # it blocks the loop, as in a notebook
        return await engine.arerun("r")

    assert (asyncio.run(main())["c"], ran) == (3, [])


def test_no_call_is_made_for_what_is_used_again(store: Store) -> None:
    calls: list[str] = []

    @node(output="answer", side_effects=SideEffectPolicy(recordable=True, requires_idempotency=True))
    def ask(question: str, ctx: Context) -> str:
        return ctx.record("llm", lambda q: calls.append(q) or f"{q}!", question)

    engine = first_run(store, [ask, noting("other", "z", "y")], {"question": "q", "z": 1})
    result = engine.rerun("r", values={"z": 2})
    assert (result["answer"], calls, ran) == ("q!", ["q"], ["other"])


def test_an_answer_is_used_again(store: Store) -> None:
    @interrupt(output="approved")
    def approve(draft: str) -> str:
        return f"Publish {draft}?"

    engine = first_run(store, [approve, noting("other", "z", "y")], {"draft": "d", "z": 1})
    engine.resume("r", answer=True)
    result = engine.rerun("r", values={"z": 2})
    assert (result.status, result["approved"]) == ("completed", True)


def test_another_question_is_asked(store: Store) -> None:
    @interrupt(output="approved")
    def approve(draft: str) -> str:
        return f"Publish {draft}?"

    engine = first_run(store, [approve], {"draft": "d"})
    engine.resume("r", answer=True)
    assert engine.rerun("r", values={"draft": "e"}).questions[0].question == "Publish e?"


def test_what_failed_is_run_again(store: Store) -> None:
    fails = True

    @node(output="c")
    def shaky(b: int) -> int:
        if fails:
            raise ValueError
        return b

    engine = first_run(store, [CHAIN[0], shaky], {"a": 1})
    fails = False
    assert (engine.rerun("r")["c"], ran) == (2, [])


def test_so_is_what_failed_and_was_confined(store: Store) -> None:
    fails = True

    @node(output="c")
    def shaky(b: int) -> int:
        if fails:
            raise ValueError
        return b

    engine = Engine(Graph([CHAIN[0], shaky]), store=store, on_error="continue")
    engine.run({"a": 1}, run_id="r")
    fails = False
    assert engine.rerun("r")["c"] == 2


def test_a_loop_is_used_again_turn_by_turn(store: Store) -> None:
    count = noting("count", "n", "n")

    @ifelse(when_true="count", when_false=END)
    def more(n: int, limit: int) -> bool:
        return n < limit

    engine = first_run(store, [count, more], {"n": 0, "limit": 3}, entry="more")
    result = engine.rerun("r", values={"limit": 5})
    assert (result["n"], ran) == (5, ["count", "count"])


def test_a_node_that_gave_three_answers_to_one_question_gives_them_again(store: Store) -> None:
    answers = iter("abcdef")

    @node(output="said")
    def ask(question: str) -> str:
        return next(answers)

    @ifelse(when_true="ask", when_false=END)
    def more(said: str) -> bool:
        return len(said) < 3

    engine = first_run(store, [ask, more], {"question": "q"}, state=Said, entry="ask")
    assert engine.rerun("r")["said"] == "abc"


class Said(TypedDict, total=False):
    question: str
    said: Annotated[str, operator.add]


class Sums(TypedDict, total=False):
    numbers: list[int]
    n: int
    squares: Annotated[list[int], operator.add]


def test_of_sends_only_those_with_another_payload_run(store: Store) -> None:
    @route(targets=["square"], multi=True)
    def spread(numbers: list[int]) -> list[Send]:
        return [Send("square", {"n": n}) for n in numbers]

    square = noting("square", "n", "squares", "[{} * n]")
    engine = first_run(store, [spread, square], {"numbers": [1, 2, 3]}, state=Sums, entry="spread")
    result = engine.rerun("r", values={"numbers": [1, 5, 3]})
    assert (result["squares"], ran) == ([1, 25, 9], ["square"])


def test_inside_a_subgraph_what_is_unaffected_is_used_again(store: Store) -> None:
    inner = Graph([noting("one", "a", "b"), noting("other", "z", "y")], name="inner").as_node()
    engine = first_run(store, [inner], {"a": 1, "z": 1})
    assert (engine.rerun("r", values={"a": 2})["b"], ran) == (3, ["one"])


def test_changed_code_inside_a_subgraph_runs_that_node_alone(store: Store) -> None:
    def nested(code: str) -> Any:
        return Graph([noting("one", "a", "b", code), noting("other", "z", "y")], name="inner").as_node()

    first_run(store, [nested("{} + 1")], {"a": 1, "z": 1})
    engine = Engine(Graph([nested("{} + 5")]), store=store)
    assert (engine.rerun("r")["b"], ran) == (6, ["one"])


def test_values_bound_around_a_subgraph_are_known_inside(store: Store) -> None:
    inner = Graph([noting("one", "a, step", "b", "a + step")], name="inner").as_node()
    engine = Engine(Graph([inner]).bind(step=10), store=store)
    engine.run({"a": 1}, run_id="r")
    ran.clear()
    assert (engine.rerun("r")["b"], ran) == (11, [])


def test_a_mapped_subgraph_runs_for_new_elements_only(store: Store) -> None:
    graph = Graph([noting("one", "a", "b")], name="inner").map_over("a")
    engine = Engine(graph, store=store)
    engine.run({"a": [1, 2, 3]}, run_id="r")
    ran.clear()
    assert (engine.rerun("r", values={"a": [1, 7, 3]})["b"], ran) == ([2, 8, 4], ["one"])


def test_a_subgraph_that_begins_with_something_else_is_not_used_again(store: Store) -> None:
    def nested(step: int) -> Any:
        inner = Graph([noting("one", "x", "y")], name="inner")
        enter = eval("lambda values: {'x': values['a'] + step}", {"step": step})
        return inner.as_node(
            transform_input=enter,
            inputs=["a"],
            transform_output=lambda values: {"b": values["y"]},
            outputs=["b"],
        )

    first_run(store, [nested(0)], {"a": 1})
    assert Engine(Graph([nested(1)]), store=store).rerun("r")["b"] == 3


def test_a_bound_value_that_changed_runs_its_readers(store: Store) -> None:
    nodes = [noting("one", "a, step", "b", "a + step"), CHAIN[2]]
    Engine(Graph(nodes).bind(step=1), store=store).run({"a": 1, "z": 1}, run_id="r")
    ran.clear()
    assert Engine(Graph(nodes).bind(step=5), store=store).rerun("r")["b"] == 6
    assert ran == ["one"]


def test_a_node_that_reads_another_value_now_runs(store: Store) -> None:
    one, keep = noting("one", "a", "b"), noting("keep", "a", "k")
    first_run(store, [one, keep, CHAIN[2]], {"a": 1, "z": 7})
    engine = Engine(Graph([one.rename(inputs={"a": "z"}), keep, CHAIN[2]]), store=store)
    assert (engine.rerun("r")["b"], ran) == (8, ["one"])


class Added(TypedDict, total=False):
    a: int
    first: int
    log: Annotated[list[int], operator.add]


def flipped(old: list[int], new: list[int]) -> list[int]:
    return [*new, *old]


class Flipped(TypedDict, total=False):
    a: int
    first: int
    log: Annotated[list[int], flipped]


def test_with_another_reducer_nothing_is_used_again(store: Store) -> None:
    nodes = [
        node(lambda a: [1], name="one", output="log"),
        node(lambda a: [2], name="two", output="log"),
        node(lambda log: log[0], name="look", output="first", after=["one", "two"]),
    ]
    engine = first_run(store, nodes, {"a": 1}, state=Added)
    assert engine.rerun("r")["first"] == 1
    assert Engine(Graph(nodes, state=Flipped), store=store).rerun("r")["first"] == 2


def test_a_node_that_reads_the_whole_state_runs_if_anything_changed(store: Store) -> None:
    def whole(state: Any) -> int:
        ran.append("whole")
        return len(state)

    nodes = [node(whole, output="n", after=["other"]), CHAIN[2]]
    engine = first_run(store, nodes, {"z": 1})
    engine.rerun("r")
    assert ran == []
    engine.rerun("r", values={"z": 2})
    assert "whole" in ran


def test_what_cannot_be_encoded_is_not_used_again() -> None:
    engine = first_run(MemoryStore(), [noting("one", "a", "b", "1"), CHAIN[2]], {"a": object(), "z": 1})
    engine.rerun("r")
    assert ran == ["one"]


def test_a_fork_is_run_again_from_its_own_first_state(store: Store) -> None:
    engine = first_run(store, CHAIN, {"a": 1, "z": 1})
    engine.fork("r", step=1, values={"b": 10}, run_id="f")
    ran.clear()
    assert (engine.rerun("f")["c"], ran) == (11, [])
    assert (engine.rerun("f", values={"b": 20})["c"], ran) == (21, ["two"])


def test_a_run_that_went_on_from_a_state_is_run_again_from_it(store: Store) -> None:
    engine = first_run(store, CHAIN, {"a": 1, "z": 1})
    engine.run(engine.state("r", step=1).set("b", 10), run_id="s")
    ran.clear()
    assert (engine.rerun("s")["c"], ran) == (11, [])


def test_a_rerun_can_be_rerun(store: Store) -> None:
    engine = first_run(store, CHAIN, {"a": 1, "z": 1})
    engine.rerun("r", values={"a": 2}, run_id="second")
    ran.clear()
    assert (engine.rerun("second", values={"z": 5})["c"], ran) == (4, ["other"])


def test_a_rerun_that_cannot_be_prepared_leaves_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    @node(output="y")
    def double(x: int) -> int:
        return 2 * x

    def read(*_: Any) -> None:
        raise ValueError("what was recorded cannot be read")

    engine = Engine(Graph([double]), store=MemoryStore())
    engine.run({"x": 1}, run_id="one")
    monkeypatch.setattr(ResultReuse, "_read", read)
    with pytest.raises(ValueError, match="cannot be read"):
        engine.rerun("one", run_id="two")
    assert [row.run_id for row in engine.runs()] == ["one"]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_forced_node_runs_although_nothing_has_changed(store: Store, is_async: bool) -> None:
    engine = first_run(store, CHAIN, {"a": 1, "z": 1})
    run = engine.rerun if not is_async else lambda *a, **k: asyncio.run(engine.arerun(*a, **k))
    result = run("r", force=["one"], run_id="s")
    assert (result["c"], ran) == (3, ["one"])  # what it writes is the same, so its readers are not called
    assert cached(engine, "s") == {"one": False, "two": True, "other": True}
    metrics = engine.result("s").metrics
    assert (metrics.total_nodes_executed, metrics.total_cache_hits) == (1, 2)


def test_a_node_in_a_subgraph_is_forced_by_its_path(store: Store) -> None:
    inner = Graph([noting("one", "a", "b"), noting("two", "b", "c")], name="inner")
    engine = first_run(store, [Graph([inner], name="outer"), noting("other", "z", "y")], {"a": 1, "z": 1})
    engine.rerun("r", force=["outer/inner/two"])
    assert ran == ["two"]
    ran.clear()
    engine.rerun("r", force=["outer"])
    assert ran == ["one", "two"]


@pytest.mark.parametrize(
    "force, hint",
    [(["on"], "'one'"), ("on", "'one'"), (["one", "inner/tow"], "'inner/two'"), ([1], "known"), (1, "list")],
)
def test_a_forced_node_has_to_exist(store: Store, force: Any, hint: str) -> None:
    nodes = [noting("one", "a", "b"), Graph([noting("two", "b", "c")], name="inner")]
    engine = first_run(store, nodes, {"a": 1})
    with pytest.raises(InputError, match=hint):
        engine.rerun("r", force=force, run_id="s")
    assert [row.run_id for row in engine.runs()] == ["r"]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_forced_node_does_not_use_the_cache_and_renews_it(store: Store, is_async: bool) -> None:
    results = iter("abc")

    def work(a: int) -> str:
        ran.append("work")
        return next(results)

    engine = first_run(store, [node(work, output="b", cache=True)], {"a": 1})
    run = engine.rerun if not is_async else lambda *a, **k: asyncio.run(engine.arerun(*a, **k))
    assert (run("r", force=["work"])["b"], ran) == ("b", ["work"])
    assert engine.run({"a": 1})["b"] == "b"


def test_a_module_value_that_was_assigned_again_changes_the_code(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: dict[str, Any] = {"__name__": "cells", "PROMPT": "one "}
    exec("def ask(a):\n    return PROMPT + a", names)
    engine = first_run(store, [node(names["ask"], output="b")], {"a": "x"})
    assert engine.rerun("r")["b"] == "one x"
    names["PROMPT"] = "two "
    assert engine.rerun("r")["b"] == "two x"


def test_a_node_runs_again_if_the_code_of_its_child_has_changed() -> None:
    def outer(child: Graph) -> Graph:
        @node(output="b")
        def runs(a: int, ctx: Context) -> Any:
            return ctx.run(child, {"a": a})["b"]

        return Graph([runs])

    def child(more: int) -> Graph:
        @node(output="b")
        def add(a: int) -> int:
            return a + more

        return Graph([add], name="child")

    store = MemoryStore()
    Engine(outer(child(1)), store=store).run({"a": 1}, run_id="r")
    same = Engine(outer(child(1)), store=store).rerun("r")
    assert (same["b"], same.state.node_history["runs"].cached) == (2, True)
    changed = Engine(outer(child(2)), store=store).rerun("r")
    assert (changed["b"], changed.state.node_history["runs"].cached) == (3, False)
