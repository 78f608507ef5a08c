"""When a step was: a step that an answer completes, and one of a subgraph, have a time like any other."""

from __future__ import annotations

from typing import Any

import pytest

from clew import Context, Engine, Graph, interrupt, node
from clew.stores import Store
from clew.testing import VirtualClock
from tests.store_fixtures import local_store


@node(output="b")
async def work(a: int, ctx: Context) -> int:
    await ctx.sleep(2)
    return a + 1


@interrupt(output="ok")
def ask(b: int) -> str:
    return f"{b}?"


@node(output="c")
def last(b: int, ok: bool) -> int:
    return b + ok


store = local_store


def engine_of(graph: Graph, store: Store, clock: VirtualClock, **options: Any) -> Engine:
    return Engine(graph, store=store, clock=clock, **options)


def seconds(engine: Engine, start: float) -> list[float]:
    return [round(each.timestamp - start, 3) for each in engine.history("r")]


def test_an_answered_question_has_the_time_of_its_answer(store: Store) -> None:
    clock = VirtualClock()
    engine = engine_of(Graph([work, ask, last]), store, clock)
    start = clock.time()
    engine.run({"a": 1}, run_id="r")
    clock.advance(clock.monotonic() + 60)
    engine.resume("r", answer=True)
    assert seconds(engine, start) == [0, 2, 62, 62]
    asked = engine.state("r").node_history["ask"]
    assert (round(asked.timestamp - start, 3), asked.duration_ms) == (62, 0)
    assert engine.replay("r").ok


def test_a_subgraph_has_the_time_of_its_items(store: Store) -> None:
    clock = VirtualClock()
    engine = engine_of(Graph([Graph([work, ask], name="inside"), last]), store, clock)
    start = clock.time()
    engine.run({"a": 1}, run_id="r")
    clock.advance(clock.monotonic() + 60)
    engine.resume("r", answer=True)
    assert seconds(engine, start) == [0, 62, 62]
    inside = engine.state("r").node_history["inside"]
    assert inside.duration_ms == pytest.approx(2000)  # nobody worked while the answer was awaited
    assert inside.timestamp + inside.duration_ms / 1000 == pytest.approx(start + 62)
    assert engine.replay("r").ok


def test_a_failed_subgraph_has_the_time_of_its_items(store: Store) -> None:
    @node(output="ok")
    def broken(b: int) -> bool:
        raise OSError("no")

    clock = VirtualClock()
    engine = engine_of(Graph([Graph([work, broken], name="inside")]), store, clock, on_error="continue")
    start = clock.time()
    engine.run({"a": 1}, run_id="r")
    assert seconds(engine, start) == [0, 2]


def test_a_subgraph_over_nothing_is_no_earlier_than_the_step_before(store: Store) -> None:
    clock = VirtualClock()
    inside = Graph([work], name="inside").map_over("a")
    engine = engine_of(Graph([inside]), store, clock)
    start = clock.time()
    engine.run({"a": []}, run_id="r")
    assert seconds(engine, start) == [0, 0]
