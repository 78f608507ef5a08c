"""A work item says what spawned it and how many attempts were used; recorded calls and replays, in the specification's
words."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from clew import (
    END,
    Context,
    Engine,
    Graph,
    GraphState,
    RetryPolicy,
    Send,
    ifelse,
    interrupt,
    node,
    route,
)
from clew.errors import ReplayError, ReplayMismatchError, ReplayMissingError
from clew.stores import Store
from clew.testing import Stepper
from tests.store_fixtures import local_store

store = local_store


def spawned(items: Any) -> dict[str, tuple[str, int]]:
    return {item.path: (item.parent_node_id, item.edge_index) for item in items}


@node(output="b")
def first(a: int) -> int:
    return a + 1


@node(output="c")
def second(b: int) -> int:
    return b + 1


@node(output="d")
def third(b: int, c: int) -> int:
    return b + c


@node(output="e", after="first")
def beside(a: int) -> int:
    return a


@ifelse(when_true="second_round", when_false=END)
def again(d: int) -> bool:
    return True


@node(output="f")
def second_round(a: int) -> int:
    return a


GRAPH = Graph([first, second, third, beside, again, second_round])


def test_the_parent_is_the_writer_the_gate_or_the_control_link(store: Store) -> None:
    engine = Engine(GRAPH, store=store)
    engine.run({"a": 1}, run_id="r")
    frontiers = [spawned(checkpoint.frontier) for checkpoint in engine.history("r")]
    assert frontiers == [
        {"first#0": ("", 0)},
        {"second#0": ("first", 0), "beside#0": ("first", 2)},
        {"third#0": ("second", 0)},  # of two writers, the one that ran last
        {"again#0": ("third", 0)},
        {"second_round#0": ("again", 0)},
        {},
    ]
    for step, expected in enumerate(frontiers):
        assert spawned(engine.frontier("r", step)) == expected


def test_the_parent_of_a_send_is_its_gate_and_the_edge_its_number(store: Store) -> None:
    @route(targets=["work"])
    def scatter(a: int) -> list[Send]:
        return [Send("work", {"item": item}) for item in range(3)]

    @node(output="found")
    def work(item: int) -> int:
        return item

    engine = Engine(Graph([scatter, work]), store=store, on_conflict="last")
    engine.run({"a": 1}, run_id="r")
    assert spawned(engine.frontier("r", 1)) == {f"work#0[{i}]": ("scatter", i) for i in range(3)}


def test_what_was_set_by_hand_was_spawned_by_nobody(store: Store) -> None:
    engine = Engine(GRAPH, store=store)
    state = engine.run({"a": 1}, run_id="r").state
    engine.fork("r", values={"b": 5}, run_id="f")
    assert spawned(engine.frontier("f", state.step)) == {"second#1": ("", 0)}


def test_a_second_turn_of_a_loop_was_spawned_by_the_gate() -> None:
    @node(output="n")
    def add(n: int) -> int:
        return n + 1

    @ifelse(when_true="add", when_false=END)
    def more(n: int) -> bool:
        return n < 2

    engine = Engine(Graph([add, more]))
    engine.run({"n": 0}, run_id="r")
    parents = [spawned(checkpoint.frontier) for checkpoint in engine.history("r")]
    assert parents == [
        {"more#0": ("", 0)},
        {"add#0": ("more", 0)},
        {"more#1": ("add", 0)},
        {"add#1": ("more", 0)},
        {"more#2": ("add", 0)},
        {},
    ]


def test_items_of_a_running_run_know_their_parents() -> None:
    seen: list[Any] = []
    engine: Engine

    @node(output="x")
    def look(b: int) -> int:
        seen.append(engine.scheduler_state("r"))
        return b

    engine = Engine(Graph([first, look, second]), max_concurrent_nodes=1)
    engine.run({"a": 1}, run_id="r")
    assert spawned(seen[0].frontier) == {"second#0": ("first", 1)}


def test_an_item_that_was_started_ahead_knows_its_parent() -> None:
    stepper = Stepper(Graph([first, second, node(lambda a: a, name="slow")]), {"a": 1})
    stepper.complete("first#0")
    item = stepper._running["second#0"].work_item()
    assert (item.parent_node_id, item.step_id) == ("first", 2)


def test_a_nested_frontier_knows_its_parents() -> None:
    inner = Graph([first, second], name="inner")
    engine = Engine(Graph([inner.as_node()]))
    engine.run({"a": 1}, run_id="r")
    (chain,) = engine.history("r", nested=True)[-1].nested.values()
    assert spawned(chain[1].frontier) == {"inner#0/second#0": ("first", 0)}


def test_attempts_are_those_that_were_used(store: Store) -> None:
    @node(output="b", retry=RetryPolicy(max_attempts=3, base_delay=1e-9))
    def fails(a: int, ctx: Context) -> int:
        if ctx.attempt < a:
            raise OSError("no")
        return a

    engine = Engine(Graph([fails]), store=store)
    assert engine.run({"a": 9}, run_id="failed", check=False).status == "failed"
    assert [item.attempt for item in engine.frontier("failed")] == [2]
    assert [item.attempt for item in engine.history("failed")[-1].frontier] == [2]
    assert engine.run({"a": 1}, run_id="done").status == "completed"
    assert [item.attempt for item in engine.frontier("done", 0)] == [1]
    assert [item.attempt for item in engine.history("done")[0].frontier] == [1]


def test_an_item_that_waits_for_an_answer_has_its_attempts(store: Store) -> None:
    @node(output="b", retry=RetryPolicy(max_attempts=3, base_delay=1e-9))
    def asks(a: int, ctx: Context) -> int:
        if ctx.attempt == 0:
            raise OSError("once")
        return ctx.interrupt("?")

    engine = Engine(Graph([asks]), store=store)
    assert engine.run({"a": 1}, run_id="r").status == "waiting"
    assert [item.attempt for item in engine.frontier("r")] == [1]


# -- recorded calls and replays ---------------------------------------------------------------------------


class Shop:
    def __init__(self, store: Store) -> None:
        self.name, self.request, self.value = "ask", 1, 7

        @node(output="reply")
        def order(a: int, ctx: Context) -> int:
            ctx.record(self.name, lambda what: {"got": what}, self.request)
            return self.value

        inner = Graph([order], name="inner")
        self.engine = Engine(Graph([inner.as_node()]), store=store)
        self.engine.run({"a": 1}, run_id="r")


def test_a_recorded_call_has_its_node_and_the_hash_of_its_response(store: Store) -> None:
    shop = Shop(store)
    (call,) = shop.engine.history("r")[-1].recorded_ios
    assert (call.node_id, call.path) == ("order", "inner#0/order#0")
    assert call.hash == "sha256:" + hashlib.sha256(b'{"got":1}').hexdigest()


def test_the_hash_of_a_recorded_call_follows_its_response(store: Store) -> None:
    @node(output="reply")
    def twice(a: int, ctx: Context) -> int:
        ctx.record("one", lambda: 1)
        ctx.record("other", lambda: 2)
        ctx.record("one again", lambda: 1)
        return a

    engine = Engine(Graph([twice]), store=store)
    engine.run({"a": 1}, run_id="r")
    one, other, again = (call.hash for call in engine.history("r")[-1].recorded_ios)
    assert one == again != other


@pytest.mark.parametrize(
    "change, expected",
    [("request", ReplayMismatchError), ("name", ReplayMismatchError), ("value", ReplayError)],
)
def test_check_raises_what_differs(store: Store, change: str, expected: type[Exception]) -> None:
    shop = Shop(store)
    shop.engine.replay("r").check()
    setattr(shop, change, "other" if change == "name" else 99)
    with pytest.raises(ReplayError) as caught:
        shop.engine.replay("r").check()
    assert type(caught.value) is expected


def test_check_raises_a_call_that_was_never_recorded(store: Store) -> None:
    calls = [1]

    @node(output="reply")
    def order(a: int, ctx: Context) -> int:
        for number in calls:
            ctx.record("ask", lambda what: what, number)
        return a

    engine = Engine(Graph([order]), store=store)
    engine.run({"a": 1}, run_id="r")
    calls.append(2)
    with pytest.raises(ReplayMissingError):
        engine.replay("r").check()


# -- keys of checkpoints ----------------------------------------------------------------------------------


def test_the_key_of_a_checkpoint_is_of_run_step_and_digest(store: Store) -> None:
    @interrupt(output="b")
    def ask(a: int) -> str:
        return "?"

    engine = Engine(Graph([ask]), store=store)
    for run in ("r", "s"):
        engine.run({"a": 1}, run_id=run)
    one, other = (engine.history(run)[0] for run in ("r", "s"))
    assert one.digest == other.digest
    assert one.idempotency_key != other.idempotency_key  # run
    state = GraphState({"a": 1})
    keys = {_checkpoint("r", step, state).idempotency_key for step in (0, 1)}
    assert len(keys) == 2  # step
    assert _checkpoint("r", 0, state).idempotency_key == _checkpoint("r", 0, state).idempotency_key
    assert (
        _checkpoint("r", 0, state).idempotency_key != _checkpoint("r", 0, state.set("a", 2)).idempotency_key
    )


def _checkpoint(run: str, step: int, state: GraphState) -> Any:
    from clew import Checkpoint

    return Checkpoint(run, step, state, 0, 0.0, None, ())
