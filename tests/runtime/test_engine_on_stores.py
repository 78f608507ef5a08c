"""Going on with runs, on each store: resume, answers, fork, history, labels and results are the same everywhere."""

from __future__ import annotations

import operator
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from clew import END, Context, Engine, Graph, append, ifelse, interrupt, node
from clew.errors import RunExistsError, RunStateError, UnknownRunError
from clew.stores import Store
from tests.store_fixtures import every_store

store = every_store


class Talk(TypedDict, total=False):
    most: int
    messages: Annotated[list[str], append]
    total: Annotated[int, operator.add]


@node(output="messages")
def say(messages: list[str], ctx: Context) -> str:
    return f"message {len(messages)} ({ctx.random.randrange(100)})"


@node(output="total")
def count(messages: list[str]) -> int:
    return 1


@ifelse(when_true="say", when_false=END)
def more(total: int, most: int) -> bool:
    return total < most


TALK = Graph([say, count, more], state=Talk, name="talk")


def digests(engine: Engine, run_id: str) -> list[str]:
    return [checkpoint.digest for checkpoint in engine.history(run_id)]


def test_the_chain_is_that_of_memory(store: Store) -> None:
    engine, other = Engine(TALK, store=store, seed=1), Engine(TALK, seed=1)
    assert engine.run({"most": 4}, run_id="r").values == other.run({"most": 4}, run_id="r").values
    assert digests(engine, "r") == digests(other, "r")
    assert engine.state("r").digest == other.state("r").digest


def test_any_state_is_there(store: Store) -> None:
    engine = Engine(TALK, store=store)
    engine.run({"most": 4}, run_id="r")
    states = [checkpoint.state for checkpoint in engine.history("r")]
    for step, state in enumerate(states):
        assert engine.state("r", step).values == state.values
        assert engine.state("r", step).versions == state.versions
    with pytest.raises(UnknownRunError, match="no step 99"):
        engine.state("r", 99)


def test_a_failed_run_goes_on_where_it_failed(store: Store) -> None:
    made: list[str] = []
    broken = True

    @node(output="b")
    def first(a: int, ctx: Context) -> int:
        made.append("first")
        return ctx.record("call", lambda: a + 1)

    @node(output="c")
    def second(b: int, ctx: Context) -> int:
        made.append("second")
        ctx.record("call", lambda: made.append("the call"))
        if broken:
            raise OSError("down")
        return b + 1

    engine = Engine(Graph([first, second]), store=store)
    result = engine.run({"a": 1}, run_id="r", check=False)
    assert (result.status, str(result.error)) == ("failed", "down")
    assert [row.run_id for row in engine.runs(status="failed")] == ["r"]
    assert isinstance(engine.result("r").error, OSError)
    broken = False
    assert engine.resume("r")["c"] == 3
    assert made == ["first", "second", "the call", "second"]
    assert engine.result("r").status == "completed"


def test_a_call_that_failed_is_made_again_when_the_run_is_resumed(store: Store) -> None:
    answers: list[Any] = [OSError("down"), OSError("still down"), 42]

    def call() -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    @node(output="b")
    def ask(a: int, ctx: Context) -> int:
        return int(ctx.record("call", call))

    engine = Engine(Graph([ask]), store=store)
    assert str(engine.run({"a": 1}, run_id="r", check=False).error) == "down"
    assert str(engine.resume("r", check=False).error) == "still down"
    assert engine.resume("r")["b"] == 42


def test_a_subgraph_that_is_retried_retries_inside(store: Store) -> None:
    """Attempts inside belong to the attempt outside: their records must not meet."""
    tries: list[int] = []

    @node(output="b", retry=2)
    def inner(a: int, ctx: Context) -> int:
        def call() -> int:
            tries.append(ctx.attempt)
            if len(tries) < 4:
                raise ConnectionError(f"try {len(tries)}")
            return 1

        return int(ctx.record("call", call))

    from clew.testing import VirtualClock

    engine = Engine(
        Graph([Graph([inner], name="inside").as_node(retry=3)]), store=store, clock=VirtualClock(), lease=1e9
    )
    assert engine.run({"a": 1}, run_id="r")["b"] == 1
    assert tries == [0, 1, 0, 1]


def test_a_question_is_answered_by_another_engine(store: Store) -> None:
    @interrupt(output="approved")
    def approve(plan: str) -> str:
        return f"do {plan}?"

    @node(output="done")
    def act(plan: str, approved: bool) -> str:
        return plan if approved else "nothing"

    graph = Graph([approve, act])
    assert Engine(graph, store=store).run({"plan": "it"}, run_id="r").status == "waiting"
    other = Engine(graph, store=store)
    (question,) = other.result("r").questions
    assert question.question == "do it?"
    with pytest.raises(RunStateError, match="waits for an answer"):
        other.resume("r")
    assert other.resume("r", answer=True)["done"] == "it"


def test_a_fork_goes_on_from_a_step_with_other_values(store: Store) -> None:
    engine = Engine(TALK, store=store)
    engine.run({"most": 3}, run_id="r")
    before = engine.state("r").values
    fork = engine.fork("r", step=4, values={"most": 5}, run_id="f")
    assert len(fork["messages"]) > len(before["messages"])
    assert fork["messages"][:1] == before["messages"][:1]
    assert engine.state("r").values == before
    of_fork = engine.fork("f", step=7, values={"most": 9}, run_id="g")
    assert len(of_fork["messages"]) > len(fork["messages"])
    assert engine.state("g", 7).values["most"] == 9
    assert [row.parent for row in engine.runs()] == [None, "r", "f"]


def test_labels(store: Store) -> None:
    engine = Engine(TALK, store=store)
    engine.run({"most": 3}, run_id="r")
    assert engine.label_checkpoint("r", "early", step=2).step_id == 2
    assert engine.label_checkpoint("r", "last").label == "last"
    assert engine.state("r", "early").step == 2
    assert [c.label for c in engine.history("r") if c.label] == ["early", "last"]
    with pytest.raises(RunStateError, match="already"):
        engine.label_checkpoint("r", "early", step=3)
    with pytest.raises(UnknownRunError, match="no label 'never'"):
        engine.state("r", "never")


def test_ids_are_taken_once(store: Store) -> None:
    engine = Engine(TALK, store=store)
    engine.run({"most": 1}, run_id="r")
    with pytest.raises(RunExistsError):
        engine.run({"most": 1}, run_id="r")
    with pytest.raises(UnknownRunError):
        engine.resume("other")
    assert [row.run_id for row in engine.runs()] == ["r"]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_each_durability_ends_the_same(store: Store, durability: str) -> None:
    engine = Engine(TALK, store=store, durability=durability, seed=1)
    engine.run({"most": 6}, run_id="r")
    plain = Engine(TALK, seed=1)
    plain.run({"most": 6}, run_id="r")
    assert digests(engine, "r") == digests(plain, "r")


def test_a_state_that_is_read_after_the_engine_was_closed_is_explained(tmp_path: Path) -> None:
    from clew.errors import StoreError

    @node(output="b")
    def double(a: int) -> int:
        return 2 * a

    with Engine(Graph([double]), store=str(tmp_path / "runs.db")) as engine:
        early, late = engine.run({"a": 1}), engine.run({"a": 2})
        assert early.state.get("b") == 2
    assert (early.state.get("b"), late["b"], late.status) == (2, 4, "completed")
    with pytest.raises(StoreError, match=r"result\.state"):
        _ = late.state
