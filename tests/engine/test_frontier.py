"""The frontier and the names of items: bounded, ordered, and never blocking."""

from __future__ import annotations

import asyncio
import operator
from typing import Annotated, Any, TypedDict

import pytest

from clew import Engine, Graph, RetryPolicy, Send, node, route
from clew.engine import Machine, Options
from clew.engine.frame import Item
from clew.engine.program import check_values, program_of
from clew.engine.records import item_path, order_key
from clew.testing import Stepper, VirtualClock, random_order


class State(TypedDict, total=False):
    count: int
    found: Annotated[list[int], operator.add]
    total: int


@route(targets=["scan"])
def fan(count: int) -> list[Send]:
    return [Send("scan", {"place": place}) for place in range(count)]


@node(output="found")
def scan(place: int) -> list[int]:
    return [place]


@node(output="total", after=["scan"])
def add(found: list[int]) -> int:
    return sum(found)


FAN_OUT = Graph([fan, scan, add], state=State)
RETRIED = Graph([fan, node(output="found", retry=RetryPolicy(max_attempts=2))(scan.func), add], state=State)


def machine_of(graph: Graph, values: dict[str, Any], **options: Any) -> Machine:
    given, seeded = check_values(graph, values)
    return Machine.begin(program_of(graph, given), seeded, Options(**options))


def items_at_once(machine: Machine) -> list[Item]:
    """Take all that can be taken without completing anything."""
    items = []
    while (item := machine.take()) is not None:
        items.append(item)
    return items


@node(output="found", name="scan")
async def scan_later(place: int) -> list[int]:
    await asyncio.sleep(0)
    return [place]


@pytest.mark.parametrize("workers", [1, 2, 64])
@pytest.mark.parametrize("asynchronously", [False, True])
def test_a_fan_out_of_ten_thousand_through_a_queue_of_one(workers: int, asynchronously: bool) -> None:
    graph = Graph([fan, scan_later if asynchronously else scan, add], state=State)
    result = Engine(graph, queue_depth=1, max_concurrent_nodes=workers).run({"count": 10_000})
    assert result["total"] == sum(range(10_000))
    assert result.metrics.max_queue_depth == 1
    assert result.metrics.total_backpressure_blocks > 0


def test_the_queue_never_holds_more_than_its_depth() -> None:
    machine = machine_of(FAN_OUT, {"count": 50}, queue_depth=3)
    (first,) = items_at_once(machine)
    machine.finish(first, fan.func(50))
    depths = set()
    while (item := machine.take()) is not None:
        depths.add(len(machine.frontier))
        machine.finish(item, scan.func(item.payload["place"]) if item.payload else 0)
    assert max(depths) == machine.frontier.peak == 3
    assert machine.status == "completed"


def test_blocks_are_counted_once_for_each_time_that_there_was_no_room() -> None:
    machine = machine_of(FAN_OUT, {"count": 5}, queue_depth=2)
    (first,) = items_at_once(machine)
    machine.finish(first, fan.func(5))
    assert machine.frontier.blocks == 1  # two of five fit
    assert len(items_at_once(machine)) == 5
    assert machine.frontier.blocks == 3  # the third and the fourth still had others behind them


def test_nothing_blocks_where_there_is_room() -> None:
    result = FAN_OUT.run({"count": 100}, queue_depth=1024)
    assert result.metrics.total_backpressure_blocks == 0


def test_a_small_queue_does_not_change_the_chain() -> None:
    digests = set()
    for depth in (1, 2, 1024):
        engine = Engine(FAN_OUT, queue_depth=depth, clock=VirtualClock(), seed=0)
        run = Stepper(engine, {"count": 30}, run_id="run")
        choose = random_order(depth)
        while run.running:
            run.complete(choose(run.running))
        digests.add(run.finish().state.digest)
    assert len(digests) == 1


def test_items_are_taken_lowest_order_first() -> None:
    machine = machine_of(FAN_OUT, {"count": 4})
    machine.finish(items_at_once(machine)[0], fan.func(4))
    assert [item.path for item in machine.frontier.items()] == [f"scan#0[{i}]" for i in range(4)]
    assert [item.index for item in items_at_once(machine)] == [0, 1, 2, 3]


def test_an_item_that_is_queued_again_comes_before_those_of_its_batch_that_were_not_taken_yet() -> None:
    machine = machine_of(RETRIED, {"count": 5})
    machine.finish(items_at_once(machine)[0], fan.func(5))
    first = machine.take()
    assert first is not None
    assert machine.take() is not None
    machine.fail(first, OSError())
    machine.wake(first)
    assert [item.index for item in machine.frontier.items()] == [0, 2, 3, 4]
    assert [item.index for item in items_at_once(machine)] == [0, 2, 3, 4]


def test_what_waits_is_counted_up_to_the_depth_of_the_queue() -> None:
    machine = machine_of(FAN_OUT, {"count": 5}, queue_depth=2)
    machine.finish(items_at_once(machine)[0], fan.func(5))
    seen = []
    while machine.take() is not None:
        seen.append((len(machine.frontier), [item.index for item in machine.frontier.items()]))
    assert seen == [(2, [1, 2]), (2, [2, 3]), (2, [3, 4]), (1, [4]), (0, [])]


# ---- paths


def test_the_only_plain_item_of_a_batch_has_no_index() -> None:
    assert item_path("scan", 2, -1) == "scan#2"
    assert item_path("scan", 2, 0) == "scan#2[0]"


def test_one_send_has_an_index_although_it_is_alone() -> None:
    result = FAN_OUT.run({"count": 1})
    engine = Engine(FAN_OUT)
    engine.run({"count": 1}, run_id="run")
    assert [c.items for c in engine.history("run")[1:]] == [("fan#0",), ("scan#0[0]",), ("add#0",)]
    assert result["found"] == [0]


# ---- order keys


def test_an_order_key_is_sixteen_bits_of_declaration_24_of_index_and_24_of_a_hash() -> None:
    key = order_key(3, 5, "scan#0[5]", 1)
    assert (key >> 48, key >> 24 & 0xFFFFFF) == (3, 5)
    assert key < 2**64
    assert order_key(0xFFFF, 0xFFFFFF, "p", 0) >> 24 == 2**40 - 1


def test_the_tail_of_an_order_key_is_a_function_of_path_and_edge() -> None:
    assert order_key(0, 0, "a#0", 0) == order_key(0, -1, "a#0", 0)
    assert order_key(0, 0, "a#0", 0) != order_key(0, 0, "a#0", 1)
    assert order_key(0, 0, "a#0", 0) != order_key(0, 0, "b#0", 0)


def test_order_keys_are_the_same_in_every_process() -> None:
    assert order_key(1, 2, "scan#0[2]", 2) == 0x0001_000002_A9117F


def test_ascending_keys_are_the_order_of_declaration_then_of_index() -> None:
    machine = machine_of(FAN_OUT, {"count": 300})
    machine.finish(items_at_once(machine)[0], fan.func(300))
    works = [item.work_item() for item in items_at_once(machine)]
    keys = [work.order_key for work in works]
    assert keys == sorted(keys)
    assert len(set(keys)) == 300


def test_a_work_item_says_who_sent_it_and_what_it_sees() -> None:
    machine = machine_of(FAN_OUT, {"count": 2})
    (plain,) = items_at_once(machine)
    assert (plain.work_item().parent_node_id, plain.work_item().edge_index) == ("", 0)
    machine.finish(plain, fan.func(2))
    work = items_at_once(machine)[1].work_item()
    assert (work.step_id, work.node_id, work.parent_node_id, work.edge_index) == (2, "scan", "fan", 1)
    assert (work.path, work.attempt) == ("scan#0[1]", 0)
    assert work.state == {"count": 2, "found": [], "place": 1}


def test_a_plain_item_beside_sends_was_selected_by_the_gate() -> None:
    @route(targets=["scan"])
    def both(count: int) -> list[Any]:
        return ["scan", Send("scan", {"place": 1})]

    @node(output="found")
    def scan(place: int = 7) -> list[int]:
        return [place]

    machine = machine_of(Graph([both, scan], state=State), {"count": 1})
    (gate,) = items_at_once(machine)
    machine.finish(gate, both.func(1))
    plain, sent = (item.work_item() for item in items_at_once(machine))
    assert (plain.parent_node_id, sent.parent_node_id, sent.edge_index) == ("both", "both", 0)


@pytest.mark.parametrize("say", ["finish", "fail", "ask"])
def test_what_is_said_twice_about_an_item_counts_once(say: str) -> None:
    machine = machine_of(FAN_OUT, {"count": 1})
    (item,) = items_at_once(machine)
    machine.finish(item, None)
    executed, status = machine.counters.executed, machine.status
    getattr(machine, say)(item, ValueError("late"))
    assert (machine.counters.executed, machine.counters.active, machine.status) == (executed, 0, status)


def test_a_wake_without_a_retry_is_nothing() -> None:
    machine = machine_of(FAN_OUT, {"count": 1})
    (item,) = items_at_once(machine)
    machine.wake(item)
    assert machine.take() is None


def test_a_machine_has_something_to_do_before_anything_was_taken() -> None:
    assert machine_of(FAN_OUT, {"count": 1}).has_more
