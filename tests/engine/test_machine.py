"""The machine without a driver: late reports, and items that have to wait."""

from __future__ import annotations

from typing import Any

import pytest

from clew import Graph, RetryPolicy, node
from clew.engine.machine import Machine
from clew.engine.options import Options, PriorWork
from clew.engine.program import program_of
from clew.engine.records import Outcome, Retry
from clew.state import assemble


def machine_of(*nodes: Any, prior_work: PriorWork | None = None, **options: Any) -> Machine:
    graph = Graph(nodes)
    program = program_of(graph, frozenset({"n"}))
    state = Machine.begin(program, {"n": 1}, Options()).root.working_state
    made = assemble(
        values=state.plain_values(),
        versions=state.plain_versions(),
        decisions={},
        terminated=False,
        position=state.position(step=0, seed=0, began=0),
        history={},
    )
    return Machine.restore(program, made, Options(**options), prior_work)


def taken(machine: Machine) -> dict[str, Any]:
    return {item.path: item for item in iter(machine.take, None)}


F = node(name="f", output="x")(lambda n: n)
LATE = [
    lambda machine, item: machine.finish(item, 1),
    lambda machine, item: machine.fail(item, ValueError("late")),
    lambda machine, item: machine.ask(item, "late?"),
    lambda machine, item: machine.adopt(item, Outcome("f", 0, -1, {"x": 5})),
    lambda machine, item: machine.postpone(item),
    lambda machine, item: machine.wake(item),
]


@pytest.mark.parametrize("say", LATE)
def test_what_is_said_of_an_item_that_has_ended_changes_nothing(say: Any) -> None:
    machine = machine_of(F)
    item = taken(machine)["f#0"]
    machine.finish(item, 7)
    machine.outbox.clear()
    say(machine, item)
    assert (machine.outbox, machine.status, machine.root.working_state.values["x"]) == ([], "completed", 7)
    assert (taken(machine), item.waited, machine.counters.active) == ({}, False, 0)


@pytest.mark.parametrize("say", LATE)
def test_what_is_said_of_an_item_that_was_let_fall_changes_nothing(say: Any) -> None:
    inner = Graph([F, node(name="g", output="y")(lambda n: n)], name="sub")
    machine = machine_of(inner.as_node(timeout=5.0))
    items = taken(machine)
    outer = items["sub#0/f#0"].frame.owner
    machine.expire(outer, TimeoutError("over"), 0.0, 0.0)
    machine.outbox.clear()
    say(machine, items["sub#0/f#0"])
    assert (machine.outbox, machine.status, str(machine.failures()[0].error)) == ([], "failed", "over")


def test_a_subgraph_between_two_attempts_is_handed_to_the_driver_once() -> None:
    inner = Graph([F], name="sub")
    prior_work = PriorWork(attempts={"sub#0": 1}, held={"sub#0"})
    retry = RetryPolicy(max_attempts=2, base_delay=1.0)
    machine = machine_of(inner.as_node(retry=retry), prior_work=prior_work)
    (item,) = taken(machine).values()
    assert (item.path, item.attempt) == ("sub#0", 1)
    machine.postpone(item)
    assert taken(machine) == {}
    machine.wake(item)
    (inside,) = taken(machine).values()
    assert inside.path == "sub#0/f#0"
    machine.finish(inside, 3)
    assert (machine.status, machine.root.working_state.values["x"]) == ("completed", 3)


def test_an_outcome_of_another_run_takes_the_place_of_executing() -> None:
    machine = machine_of(F, node(name="g", output="y")(lambda x: x))
    machine.adopt(taken(machine)["f#0"], Outcome("old", 3, 2, {"x": 9}, cached=False), cached=True)
    (step,) = [record for record in machine.outbox if not isinstance(record, Retry)]
    assert [(o.path, dict(o.update), o.cached) for o in step.outcomes] == [("f#0", {"x": 9}, True)]
    assert list(taken(machine)) == ["g#0"]
