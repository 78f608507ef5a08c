"""Joins (``after=all_of(...)``) in runs: loops, gates, Sends, subgraphs, and runs that are resumed or forked."""

from __future__ import annotations

import operator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from clew import END, Engine, Graph, GraphState, Send, SQLiteStore, all_of, node, route
from clew.errors import StalledError, UnknownRunError
from clew.state import position_of


class Log(TypedDict):
    log: Annotated[list[str], operator.add]
    x: int


CALLS: list[str] = []
BROKEN: list[bool] = []


def entry(name: str, **options: Any) -> Any:
    return node(lambda: [name], name=name, output="log", **options)


def loop(turns: int = 2) -> Graph:
    """``plan`` leads to ``fetch`` at once and to ``parse`` after ``read``; ``judge`` needs both, and turns back."""

    @route(targets=["plan", END], after=all_of("fetch", "parse"))
    def judge(log: list[str]) -> Any:
        return "plan" if log.count("plan") < turns else END

    return Graph(
        [
            entry("plan"),
            entry("fetch", after="plan"),
            entry("read", after="plan"),
            entry("parse", after="read"),
            judge,
        ],
        state=Log,
        entry="plan",
    )


def test_a_join_runs_once_for_each_turn() -> None:
    engine = Engine(loop(3))
    result = engine.run({"x": 1})
    assert result.status == "completed"
    assert result.state.visits == {"plan": 3, "fetch": 3, "read": 3, "parse": 3, "judge": 3}


def test_a_join_waits_where_a_link_does_not() -> None:
    @route(targets=["a", END])
    def choose(x: int) -> Any:
        return "a"

    def nodes(after: Any) -> list[Any]:
        return [choose, entry("a"), entry("b", after="never"), entry("never"), entry("end", after=after)]

    @route(targets=["never", END])
    def closed(x: int) -> Any:
        return END

    linked = Graph([*nodes(["a", "b"]), closed], state=Log).run({"x": 1})
    joined = Graph([*nodes(all_of("a", "b")), closed], state=Log).run({"x": 1})
    assert (linked["log"], joined["log"]) == (["a", "end"], ["a"])
    assert joined.status == "completed"
    assert joined.never_ran["end"] == ()


def test_a_run_that_waits_for_a_join_can_be_explained() -> None:
    @route(targets=["b", END])
    def closed(x: int) -> Any:
        return END

    engine = Engine(Graph([entry("a"), closed, entry("b"), entry("end", after=all_of("a", "b"))], state=Log))
    result = engine.run({"x": 1})
    with pytest.raises(UnknownRunError, match="waits for 'b'"):
        engine.why(result.run_id, "end")
    engine = Engine(Graph([entry("a"), entry("b"), entry("end", after=all_of("a", "b"))], state=Log))
    result = engine.run({"x": 1})
    reasons = engine.why(result.run_id, "end").reasons
    assert [(reason.kind, reason.path) for reason in reasons] == [("control", "a#0"), ("control", "b#0")]


def test_a_selected_join_whose_sources_never_run_stalls() -> None:
    @route(targets=["end", END])
    def choose(x: int) -> Any:
        return "end"

    @route(targets=["b", END])
    def closed(x: int) -> Any:
        return END

    graph = Graph([choose, closed, entry("b"), entry("end", after=all_of("b"))], state=Log)
    engine = Engine(graph)
    with suppress(StalledError):
        engine.run({"x": 1}, run_id="r")
    (row,) = engine.runs()
    assert (row.run_id, row.status) == ("r", "failed")


def test_sends_wait_for_the_sources_of_a_join() -> None:
    @route(targets=["scan"])
    def fan(x: int) -> list[Send]:
        return [Send("scan", {"part": 1}), Send("scan", {"part": 2})]

    @node(output="log", after=all_of("late"))
    def scan(part: int) -> list[str]:
        return [f"scan {part}"]

    graph = Graph([fan, entry("early"), entry("late", after="early"), scan], state=Log)
    assert graph.run({"x": 1})["log"] == ["early", "late", "scan 1", "scan 2"]


def test_a_restored_state_remembers_who_has_run() -> None:
    engine = Engine(loop())
    whole = engine.run({"x": 1}, run_id="whole")
    digests = [checkpoint.digest for checkpoint in engine.history("whole")]
    between = 0
    for step, checkpoint in enumerate(engine.history("whole")):
        state = GraphState.from_checkpoint(checkpoint.state.to_checkpoint())
        between += position_of(state).arrived == {"judge": ("fetch",)}
        rest = Engine(loop()).run(state)
        assert rest["log"] == whole["log"]
        assert rest.state.digest == digests[-1], step
    assert between == 2


def test_a_join_in_a_subgraph_survives_a_failure_between_its_sources(tmp_path: Path) -> None:
    CALLS.clear()
    BROKEN.append(True)

    def graph() -> Graph:
        @node(output="left")
        def fetch(x: int) -> int:
            CALLS.append("fetch")
            return x

        @node(output="right")
        def read(x: int) -> int:
            return x

        @node(output="parsed")
        def parse(right: int) -> int:
            CALLS.append("parse")
            if BROKEN:
                raise OSError(BROKEN.pop())
            return right

        @node(output="text", after=all_of("fetch", "parse"))
        def join(x: int) -> str:
            CALLS.append("join")
            return f"joined {x}"

        inside = Graph([fetch, read, parse, join], name="inside")
        return Graph([inside.as_node("sub", inputs=("x",), outputs=("text",))])

    store = SQLiteStore(tmp_path / "runs.db")
    with suppress(OSError):
        Engine(graph(), store=store).run({"x": 1}, run_id="r")
    engine = Engine(graph(), store=store)
    result = engine.resume("r")
    assert (result.status, result["text"]) == ("completed", "joined 1")
    assert CALLS == ["fetch", "parse", "parse", "join"]
    assert engine.replay("r").ok
    assert engine.fork("r", step=0, run_id="f")["text"] == "joined 1"
    store.close()
