"""The notifications that the machine sends to listeners."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

from clew import Engine, Graph, NodePolicy, RetryPolicy, Send, interrupt, node, route
from clew.testing import VirtualClock


class State(TypedDict, total=False):
    x: int
    found: Annotated[list[int], operator.add]


def notified(graph: Graph, values: dict[str, Any], *kinds: str, **options: Any) -> list[tuple[Any, ...]]:
    events: list[Any] = []
    engine = Engine(graph, clock=VirtualClock(), listeners=[events.append], max_concurrent_nodes=1, **options)
    engine.run(values)
    return [(event.kind, event.step, event.path, dict(event.data)) for event in events if event.kind in kinds]


FAN = route(name="fan", targets=["scan"])(lambda x: [Send("scan", {"n": n}) for n in range(3)])
SCAN = node(name="scan", output="found")(lambda n: [n])


def test_a_step_is_planned_queued_and_committed() -> None:
    found = notified(
        Graph([FAN, SCAN], state=State), {"x": 1}, "step_planned", "item_queued", "step_committed"
    )
    assert found == [
        ("step_planned", 1, "", {"nodes": ["fan"]}),
        ("item_queued", 1, "fan#0", {"node": "fan", "items": 1}),
        ("step_committed", 1, "", {"items": 1}),
        ("step_planned", 2, "", {"nodes": ["scan"]}),
        ("item_queued", 2, "scan#0", {"node": "scan", "items": 3}),
        ("step_committed", 2, "", {"items": 3}),
    ]


def test_an_item_starts_and_finishes() -> None:
    found = notified(
        Graph([FAN, SCAN], state=State), {"x": 1}, "item_started", "item_finished", "gate_decided"
    )
    assert [(kind, path) for kind, _, path, _ in found[:3]] == [
        ("item_started", "fan#0"),
        ("item_finished", "fan#0"),
        ("gate_decided", "fan#0"),
    ]
    assert found[-1][3]["update"] == {"found": [2]}


def test_backpressure_is_told_with_the_depth() -> None:
    found = notified(Graph([FAN, SCAN], state=State), {"x": 1}, "backpressure", queue_depth=2)
    assert found == [("backpressure", 2, "", {"depth": 2})]


def test_a_failure_and_a_retry_are_told() -> None:
    calls: list[int] = []

    @node(
        output="y", policy=NodePolicy(retry_policy=RetryPolicy(max_attempts=2, base_delay=1.0, max_delay=1.0))
    )
    def shaky(x: int) -> int:
        calls.append(x)
        return 1 // (len(calls) - 1)

    failed, retried = notified(Graph([shaky]), {"x": 1}, "item_failed", "item_retried")
    assert (failed[2], failed[3]["attempt"]) == ("shaky#0", 0)
    assert retried == ("item_retried", 1, "shaky#0", {"node": "shaky", "attempt": 1, "delay": 1.0})


def test_a_question_is_told() -> None:
    ask = interrupt(name="ask", output="a")(lambda x: "well?")
    assert notified(Graph([ask]), {"x": 1}, "interrupted") == [
        ("interrupted", 1, "ask#0", {"node": "ask", "question": "well?", "number": 0})
    ]


def test_what_happens_inside_a_subgraph_is_told_with_its_path() -> None:
    inner = Graph([node(name="work", output="y")(lambda x: x)])
    found = notified(
        Graph([inner.as_node("sub")]), {"x": 1}, "item_started", "item_finished", "step_committed"
    )
    assert [(kind, path) for kind, _, path, _ in found] == [
        ("item_started", "sub#0"),
        ("item_started", "sub#0/work#0"),
        ("item_finished", "sub#0/work#0"),
        ("step_committed", "sub#0/"),
        ("item_finished", "sub#0"),
        ("step_committed", ""),
    ]


def test_a_step_planned_ahead_is_told_too() -> None:
    slow = node(name="slow", output="s")(lambda x: x)
    one, two = (
        node(name=n, output=n)(lambda v: v).rename(inputs={"v": v}) for n, v in (("one", "x"), ("two", "one"))
    )
    planned = notified(Graph([one, slow, two]), {"x": 1}, "step_planned")
    assert [(step, data["nodes"]) for _, step, _, data in planned] == [(1, ["one", "slow"]), (2, ["two"])]
