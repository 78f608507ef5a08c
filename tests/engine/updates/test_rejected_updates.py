"""Rejected updates: lookahead next to an update that a reducer rejects, or that is in conflict.

The commit decides whether an update is valid. Until then a conflicting update counts as unfinished, and a reduced one
is assumed valid. Work that started from a rejected update is discarded.
"""

from __future__ import annotations

import warnings
from typing import Annotated, Any, TypedDict

import pytest

from clew import Engine, Graph, Send, SQLiteStore, node, route
from clew.engine.options import PriorWork
from clew.engine.records import Start
from clew.errors import ConflictError
from clew.graph import Node
from clew.testing import Stepper, VirtualClock
from tests.refusing import below_ten

RUN = "run"


class State(TypedDict, total=False):
    x: int
    total: Annotated[int, below_ten]
    slow: str
    quick: str
    next: str
    side: str
    extra: str
    v: str
    seen: tuple[str, str]


def value(name: str, output: str | None = None) -> Node:
    return node(name=name, output=output or name)(lambda x: name)


def update(name: str, **values: Any) -> Node:
    return node(name=name, writes=tuple(values))(lambda x: values)


@node(output="next")
def follow(quick: str) -> str:
    return "next"


@node(output="seen")
def look(side: str, extra: str = "none") -> tuple[str, str]:
    return side, extra


def stepper(graph: Graph, **options: Any) -> Stepper:
    return Stepper(Engine(graph, clock=VirtualClock(), seed=0, **options), {"x": 1}, run_id=RUN)


def complete(run: Stepper, *paths: str) -> None:
    for path in paths:
        run.complete(path)


@pytest.mark.parametrize("on_error", ["stop", "continue"])
def test_beside_an_update_that_is_refused_all_that_others_wrote_is_seen(on_error: str) -> None:
    """``quick`` has the step after planned; ``much`` is rejected there, and ``some``, which is not, comes after it."""
    nodes = [
        value("slow"),
        value("quick"),
        follow,
        update("much", total=20),
        update("some", total=1, extra="more"),
    ]
    run = stepper(Graph([*nodes, value("side"), look], state=State), on_error=on_error)
    complete(run, "quick#0", "follow#0", "much#0", "some#0", "side#0")
    assert run.running == ["slow#0", "look#0"]
    complete(run, "look#0", "slow#0")
    result = run.finish()
    status = "failed" if on_error == "stop" else "completed"
    assert (result.status, str(result.error)) == (status, "0 + 20 is too much")
    if on_error == "continue":
        assert (result["seen"], result["total"]) == (("side", "more"), 1)


def test_what_builds_on_an_update_that_a_reducer_has_not_taken_yet_is_started() -> None:
    """``much`` alone would be refused; it is taken after ``less``, which is declared before it and comes later."""
    nodes = [update("less", total=-15), value("quick"), follow, update("much", total=20, extra="more")]
    run = stepper(Graph([*nodes, value("side"), look], state=State))
    complete(run, "quick#0", "follow#0", "much#0", "side#0")
    assert run.running == ["less#0", "look#0"], "`look` does not read the value that the reducer makes"
    complete(run, "look#0", "less#0")
    result = run.finish()
    assert (result["seen"], result["total"], result.last_step) == (("side", "more"), 5, 2)


def test_an_item_that_was_planned_on_an_update_sees_it_though_others_come_before_it() -> None:
    """``far`` and ``much`` together would be refused; ``less`` has them taken in the end."""
    nodes = [
        update("less", total=-15),
        update("far", total=9),
        update("much", total=9, extra="more"),
        value("side"),
    ]
    run = Stepper(
        Engine(Graph([*nodes, look], state=State), clock=VirtualClock(), seed=0),
        {"x": 1},
        run_id=RUN,
        workers=4,
    )
    complete(run, "much#0", "side#0")
    assert run.running == ["less#0", "far#0", "look#0"]
    run.complete("far#0")
    run.complete("look#0")
    run.complete("less#0")
    result = run.finish()
    assert (result["seen"], result["total"], result.last_step) == (("side", "more"), 3, 2)


def test_beside_a_conflict_nothing_is_started_that_it_has_a_say_in() -> None:
    @route(targets=["write"])
    def twice(x: int) -> list[Send]:
        return [Send("write", {"what": "a"}), Send("write", {"what": "b"})]

    write = node(name="write", output="extra")(lambda what: what)
    run = stepper(Graph([value("slow"), twice, write, value("quick"), follow, value("side"), look]))
    complete(run, "quick#0", "twice#0", "follow#0", "write#0[0]", "write#0[1]", "side#0")
    assert run.running == ["slow#0"]
    run.complete("slow#0")
    assert isinstance(run.finish().error, ConflictError)
    again = Engine(run.engine.graph, store=run.engine.store, on_conflict="last").resume(
        RUN, accept_changes=True
    )
    assert (again["seen"], again["extra"]) == (("side", "b"), "b")


@pytest.mark.parametrize("kept", [True, False])
def test_what_was_started_on_an_update_that_was_refused_runs_again_on_resume(
    kept: bool, tmp_path: Any
) -> None:
    """``look`` ran ahead on what ``much`` wrote, which was then refused. Resumed, ``much`` writes something else."""
    calls: list[str] = []

    def graph(much: int, extra: str) -> Graph:
        @node(output="seen")
        def look(side: str, extra: str) -> tuple[str, str]:
            calls.append("look")
            return side, extra

        @node(output="next")
        def follow(quick: str) -> str:
            calls.append("follow")
            return "next"

        nodes = [update("first", total=6), update("much", total=much, extra=extra), value("side"), look]
        return Graph([*nodes, value("quick"), follow], state=State)

    store = SQLiteStore(tmp_path / "runs.db") if kept else None
    run = stepper(graph(7, "refused"), **({"store": store} if store else {}))
    complete(run, "much#0", "side#0", "quick#0", "look#0", "follow#0", "first#0")
    assert str(run.finish().error) == "6 + 7 is too much"
    with warnings.catch_warnings(action="ignore"):  # the code has changed
        result = Engine(graph(1, "taken"), store=run.engine.store).resume(RUN)
    assert (result["seen"], result["total"], result.last_step) == (("side", "taken"), 7, 2)
    assert calls == ["look", "follow", "look"]


def sub(name: str, *functions: Node, reads: str, writes: str) -> Node:
    return Graph(list(functions), name=name).as_node(name, inputs=(reads,), outputs=(writes,))


def resumed(graph: Graph, run: Stepper) -> Any:
    with warnings.catch_warnings(action="ignore"):
        return Engine(graph, store=run.engine.store).resume(RUN, check=False)


@pytest.mark.parametrize("kept", [True, False])
def test_a_subgraph_whose_result_was_refused_begins_anew_on_resume(kept: bool, tmp_path: Any) -> None:
    def graph(much: int) -> Graph:
        count = node(name="count", output="total")(lambda x: much)
        return Graph([update("first", total=6), sub("inner", count, reads="x", writes="total")], state=State)

    run = stepper(graph(7), **({"store": SQLiteStore(tmp_path / "runs.db")} if kept else {}))
    complete(run, "first#0", "inner#0/count#0")
    assert str(run.finish().error) == "6 + 7 is too much"
    result = resumed(graph(1), run)
    assert (result.status, result["total"]) == ("completed", 7)


@pytest.mark.parametrize("died", [True, False])
@pytest.mark.parametrize("finishes", [True, False])
@pytest.mark.parametrize("kept", [True, False])
def test_a_subgraph_that_was_begun_on_a_refused_update_begins_anew(
    kept: bool, finishes: bool, died: bool, tmp_path: Any
) -> None:
    """``died``: the process that started it ahead has not seen that its ground was refused."""

    def graph(much: int, extra: str) -> Graph:
        one = node(name="one", output="half")(lambda extra: f"{extra}!")
        two = node(name="two", output="seen")(lambda half: half)
        nodes = [update("first", total=6), update("much", total=much, extra=extra), value("side")]
        return Graph([*nodes, sub("inner", one, two, reads="extra", writes="seen")], state=State)

    run = stepper(graph(7, "refused"), **({"store": SQLiteStore(tmp_path / "runs.db")} if kept else {}))
    complete(run, "much#0", "side#0", "inner#0/one#0")
    if finishes:
        run.complete("inner#0/two#0")
    if not died:
        run.complete("first#0")
    run.finish()
    if died:
        assert str(resumed(graph(7, "refused"), run).error) == "6 + 7 is too much"
    result = resumed(graph(1, "taken"), run)
    assert (result.status, result["total"], result["seen"]) == ("completed", 7, "taken!")
    assert [len(checkpoint.items) for checkpoint in run.engine.history(RUN)] == [0, 3, 1]
    again = Engine(graph(1, "taken"), store=run.engine.store)
    assert again.replay(RUN, strict=False).divergences == ()


def test_which_subgraphs_earlier_work_had_begun() -> None:
    """Of some nodes, each from a visit on; not of nested or other nodes."""
    one = Graph([value("side")], name="one")
    graph = Graph([one.as_node("one", inputs=("x",), outputs=("side",)), value("other", "quick")])
    mapped = Graph([one.map_over("x").nodes["one"]])
    frames = {
        prefix: (Start(prefix, {}, frozenset(), epoch), ())
        for prefix, epoch in {
            "one#0/": (0,),
            "one#1/": (2,),
            "one#2[1]/": (1,),
            "one#2[1]/deep#0/": (1, 0),
            "two#7/": (0,),
        }.items()
    }
    prior_work = PriorWork(frames=frames)
    assert prior_work.begun("", {"one": 1}, graph) == {"one#1": 2, "one#2[1]": 1}
    assert prior_work.begun("", {"one": 2}, mapped) == {"one#2": 1}
    assert prior_work.begun("one#2[1]/", {"one": 0}, graph) == {}
