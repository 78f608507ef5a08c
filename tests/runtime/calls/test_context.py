"""What a node is given by its context."""

from __future__ import annotations

import asyncio
import hashlib
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from clew import Context, Engine, Graph, RetryPolicy, Send, node, route
from clew.testing import VirtualClock


def drawing(name: str) -> Any:
    def draw(a: int, ctx: Context) -> float:
        return ctx.random.random()

    return node(draw, name=name, output=name)


def test_random_streams_are_a_function_of_seed_and_path() -> None:
    graph = Graph([drawing("x")])
    assert graph.run({"a": 1}, seed=7)["x"] == graph.run({"a": 1}, seed=7)["x"]
    assert graph.run({"a": 1}, seed=7)["x"] != graph.run({"a": 1}, seed=8)["x"]


def test_one_branch_s_draws_do_not_move_another_s() -> None:
    @node(output="greedy")
    def greedy(a: int, ctx: Context) -> int:
        return len([ctx.random.random() for _ in range(100)])

    alone = Graph([drawing("x")]).run({"a": 1}, seed=7)["x"]
    beside = Graph([greedy, drawing("x"), drawing("y")]).run({"a": 1}, seed=7)
    assert (beside["x"], beside["x"] == beside["y"]) == (alone, False)


def test_draws_go_on_within_an_attempt() -> None:
    @node(output="x")
    def twice(a: int, ctx: Context) -> bool:
        return ctx.random.random() == ctx.random.random()

    assert Graph([twice]).run(a=1)["x"] is False


def test_each_attempt_draws_anew() -> None:
    drawn: list[float] = []

    @node(output="x", retry=RetryPolicy(max_attempts=2, base_delay=1e-9))
    def draw(a: int, ctx: Context) -> float:
        drawn.append(ctx.random.random())
        if ctx.attempt == 0:
            raise ValueError
        return drawn[-1]

    Graph([draw]).run(a=1)
    assert drawn[0] != drawn[1]


def test_a_resumed_item_draws_what_it_would_have_drawn() -> None:
    fail = True

    @node(output="x")
    def draw(a: int, ctx: Context) -> float:
        drawn = ctx.random.random()
        if fail:
            raise ValueError(drawn)
        return drawn

    engine = Engine(Graph([draw]))
    first = engine.run({"a": 1}, run_id="r", check=False)
    fail = False
    assert engine.resume("r")["x"] == first.error.args[0]


def test_uuid4_is_a_uuid4_from_the_stream() -> None:
    @node(output="x")
    def make(a: int, ctx: Context) -> UUID:
        return ctx.uuid4()

    graph = Graph([make])
    made = graph.run({"a": 1}, seed=7)["x"]
    assert (made.version, made) == (4, graph.run({"a": 1}, seed=7)["x"])


def test_now_is_the_clock_s_time_in_utc() -> None:
    @node(output="x")
    def look(a: int, ctx: Context) -> datetime:
        return ctx.now()

    assert Graph([look]).run({"a": 1}, clock=VirtualClock(0.0))["x"] == datetime(1970, 1, 1, tzinfo=UTC)


def test_sleep_in_a_sync_node_moves_a_virtual_clock() -> None:
    @node(output="x")
    def nap(a: int, ctx: Context) -> datetime:
        ctx.sleep(3600)
        return ctx.now()

    assert Graph([nap]).run({"a": 1}, clock=VirtualClock(0.0))["x"] == datetime(1970, 1, 1, 1, tzinfo=UTC)


def test_sleep_in_a_sync_node_waits() -> None:
    @node(output="x")
    def nap(a: int, ctx: Context) -> float:
        before = ctx.now()
        ctx.sleep(0.01)
        return (ctx.now() - before).total_seconds()

    assert Graph([nap]).run(a=1)["x"] > 0.005


def test_what_sleep_returns_in_a_sync_node_may_be_awaited() -> None:
    async def wait_for(slept: Any) -> str:
        await slept
        return "awake"

    @node(output="x")
    def nap(a: int, ctx: Context) -> str:
        return asyncio.run(wait_for(ctx.sleep(0)))

    assert Graph([nap]).run(a=1)["x"] == "awake"


def test_sleeps_beside_each_other_take_the_longest() -> None:
    def sleeping(name: str, seconds: float) -> Any:
        async def nap(a: int, ctx: Context) -> float:
            await ctx.sleep(seconds)
            return seconds

        return node(nap, name=name, output=name)

    clock = VirtualClock()
    Graph([sleeping("x", 3), sleeping("y", 20), sleeping("z", 7)]).run({"a": 1}, clock=clock)
    assert clock.monotonic() == 20


def test_an_item_knows_its_place() -> None:
    @route(targets=["part"])
    def split(a: int) -> list[Send]:
        return [Send("part", {"n": n}) for n in range(2)]

    seen: list[tuple[int, str]] = []

    @node(output="last")
    def part(n: int, ctx: Context) -> int:
        seen.append((ctx.step_id, ctx.path))
        return n

    Graph([split, part]).run({"a": 1}, on_conflict="last")
    assert sorted(seen) == [(2, "part#0[0]"), (2, "part#0[1]")]


def test_an_item_sees_its_payload_before_the_state() -> None:
    @route(targets=["part"])
    def split(a: int) -> list[Send]:
        return [Send("part", {"n": n, "k": n}) if n else Send("part", {"n": n}) for n in range(2)]

    seen: list[tuple[int, int, int]] = []

    @node(output="last")
    def part(n: int, k: int, a: int) -> int:
        seen.append((n, k, a))
        return n

    Graph([split, part]).run({"a": 1, "k": 9}, on_conflict="last")
    assert sorted(seen) == [(0, 9, 1), (1, 1, 1)]


def test_an_item_inside_a_subgraph_has_the_path_of_its_nesting() -> None:
    @node(output="x")
    def look(a: int, ctx: Context) -> str:
        return ctx.path

    assert Graph([Graph([look], name="inner").as_node()]).run(a=1)["x"] == "inner#0/look#0"


# -- idempotency keys


def keys_of(**options: Any) -> list[str]:
    seen: list[str] = []

    @node(output="x", retry=RetryPolicy(max_attempts=3, base_delay=1e-9), **options)
    def ask(a: int, ctx: Context, k: int = 5) -> int:
        seen.append(ctx.idempotency_key)
        if ctx.attempt < 2:
            raise ValueError
        return a

    Engine(Graph([ask])).run({"a": 1}, run_id="r")
    return seen


def test_the_key_is_the_same_over_all_attempts() -> None:
    assert keys_of() == [hashlib.sha256(b"1:rask#0").hexdigest()] * 3


def test_the_key_may_be_a_function_of_the_inputs() -> None:
    assert keys_of(idempotency_key=lambda a: f"ask:{a}") == ["ask:1"] * 3


def test_a_key_function_sees_defaults() -> None:
    assert keys_of(idempotency_key=lambda k, a: f"ask:{a}:{k}") == ["ask:1:5"] * 3


def test_keys_of_different_runs_differ() -> None:
    @node(output="x")
    def key(a: int, ctx: Context) -> str:
        return ctx.idempotency_key

    graph = Graph([key])
    assert graph.run(a=1)["x"] != graph.run(a=1)["x"]


# -- events of one's own, and being cancelled


def test_emit_puts_an_event_into_the_stream() -> None:
    @node(output="x")
    def tell(a: int, ctx: Context) -> int:
        ctx.emit("progress", {"done": 1})
        return a

    (event,) = [event for event in Engine(Graph([tell])).stream({"a": 1}) if event.kind == "emitted"]
    assert (event.node, event.name, event.data["data"], event.path) == (
        "tell",
        "progress",
        {"done": 1},
        "tell#0",
    )


def test_emit_without_listeners_does_nothing() -> None:
    @node(output="x")
    def tell(a: int, ctx: Context) -> int:
        ctx.emit("progress")
        return a

    assert Graph([tell]).run(a=1)["x"] == 1


def test_cancelled_is_false_while_all_is_well() -> None:
    @node(output="x")
    def look(a: int, ctx: Context) -> bool:
        return ctx.cancelled

    assert Graph([look]).run(a=1)["x"] is False


def test_attempts_are_counted_from_zero() -> None:
    seen: list[int] = []

    @node(output="x", retry=RetryPolicy(max_attempts=3, base_delay=1e-9))
    def count(a: int, ctx: Context) -> int:
        seen.append(ctx.attempt)
        if ctx.attempt < 2:
            raise ValueError
        return a

    Graph([count]).run(a=1)
    assert seen == [0, 1, 2]


@pytest.mark.parametrize("asynchronously", [False, True])
def test_a_context_under_both_drivers(asynchronously: bool) -> None:
    @node(output="x")
    def look(a: int, ctx: Context) -> str:
        return ctx.path

    graph = Graph([look])
    result = asyncio.run(graph.arun(a=1)) if asynchronously else graph.run(a=1)
    assert result["x"] == "look#0"
