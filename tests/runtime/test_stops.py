"""Runs that pause at stops: on each store, on both drivers, inside subgraphs, and after a resume with other stops."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from clew import Context, Engine, Graph, SQLiteStore, interrupt, node
from clew.errors import InputError, RunStateError, UnknownValueError
from clew.stores import Store
from tests.store_fixtures import every_store

CALLS: list[str] = []


@pytest.fixture(autouse=True)
def _fresh() -> None:
    CALLS.clear()


store = every_store


@node(output="plan")
def think(question: int) -> int:
    CALLS.append("think")
    return question + 1


@node(output="found")
def tool(plan: int) -> int:
    CALLS.append("tool")
    return plan * 10


@node(output="aside")
def note(plan: int) -> int:
    CALLS.append("note")
    return -plan


@node(output="reply")
def answer(found: int, aside: int) -> int:
    CALLS.append("answer")
    return found + aside


AGENT = Graph([think, tool, note, answer], name="agent")


def sub(**options: Any) -> Graph:
    inside = Graph([think, tool, note, answer], name="inside")
    return Graph(
        [inside.as_node("sub", inputs=("question",), outputs=("reply",), **options), done], name="outside"
    )


@node(output="final")
def done(reply: int) -> int:
    CALLS.append("done")
    return reply


def test_nothing_of_the_step_starts(store: Store) -> None:
    engine = Engine(AGENT, store=store)
    result = engine.run({"question": 1}, run_id="r", stop_before=["tool"])
    assert (result.status, result.last_step, result.values) == ("paused", 1, {"question": 1, "plan": 2})
    assert CALLS == ["think"]
    assert [row.status for row in engine.runs(status="paused")] == ["paused"]
    assert engine.result("r").status == "paused"
    assert {item.node_id for item in engine.frontier("r")} == {"tool", "note"}
    with pytest.raises(UnknownValueError):
        result["reply"]
    result = Engine(AGENT, store=store).resume("r")
    assert (result.status, result["reply"], sorted(CALLS)) == (
        "completed",
        18,
        ["answer", "note", "think", "tool"],
    )
    unbroken = Engine(AGENT)
    unbroken.run({"question": 1}, run_id="r")
    assert [c.digest for c in engine.history("r")] == [c.digest for c in unbroken.history("r")]
    assert engine.replay("r").ok


def test_the_run_stops_when_the_step_is_committed(store: Store) -> None:
    engine = Engine(AGENT, store=store)
    result = engine.run({"question": 1}, run_id="r", stop_after="think")
    assert (result.status, result.last_step, CALLS) == ("paused", 1, ["think"])
    assert engine.resume("r").status == "completed"
    assert engine.run({"question": 1}, stop_after=["answer"]).status == "paused"  # also at the end
    assert engine.resume(engine.runs()[-1].run_id).status == "completed"


def test_a_resume_keeps_later_stops_unless_new_ones_are_given(store: Store) -> None:
    engine = Engine(AGENT, store=store)
    both = {"stop_before": ["think", "answer"], "stop_after": ["think"]}
    assert engine.run({"question": 1}, run_id="a", **both).last_step == 0
    paused = [engine.resume("a") for _ in range(3)]
    assert [(each.status, each.last_step) for each in paused] == [
        ("paused", 1),
        ("paused", 2),
        ("completed", 3),
    ]
    engine.run({"question": 1}, run_id="b", **both)
    assert engine.resume("b", stop_after=[tool]).last_step == 2
    assert engine.resume("b", stop_before=[]).status == "completed"
    engine.run({"question": 1}, run_id="c", stop_before=["answer"])
    assert engine.resume("c", stop_before=["answer"]).status == "completed"  # this one is passed


@pytest.mark.parametrize("verb", ["fork", "rerun"])
def test_forks_and_reruns_stop_where_they_are_asked_to(store: Store, verb: str) -> None:
    engine = Engine(AGENT, store=store)
    engine.run({"question": 1}, run_id="r", stop_before=["tool"])
    engine.resume("r")
    asked = {"step": 0} if verb == "fork" else {}
    made = getattr(engine, verb)("r", run_id="other", stop_after=["tool"], **asked)
    assert (made.status, made.last_step) == ("paused", 2)
    assert engine.resume("other").status == "completed"
    assert getattr(engine, verb)("r", **asked).status == "completed"  # stops are not inherited


def test_async_runs_and_streams_stop(store: Store) -> None:
    engine = Engine(AGENT, store=store)

    async def main() -> None:
        result = await engine.arun({"question": 1}, run_id="a", stop_before=["answer"])
        assert (result.status, result.last_step) == ("paused", 2)
        assert (await engine.aresume("a", stop_after=["answer"])).status == "paused"
        assert (await engine.aresume("a")).status == "completed"
        assert (await engine.afork("a", step=0, run_id="f", stop_before=["tool"])).last_step == 1
        assert (await engine.arerun("a", run_id="g", stop_before=["tool"])).last_step == 1
        events = [event async for event in engine.astream({"question": 1}, run_id="b", stop_before=["tool"])]
        assert (events[-1].kind, events[-1].data["status"]) == ("run_finished", "paused")

    asyncio.run(main())
    events = list(engine.stream({"question": 1}, run_id="c", stop_after=["think"]))
    assert (events[-1].kind, events[-1].data["status"]) == ("run_finished", "paused")
    assert not any(event.kind == "item_started" and event.data["node"] == "tool" for event in events)


def test_a_node_in_a_subgraph_is_named_by_its_path(store: Store) -> None:
    engine = Engine(sub(), store=store)
    result = engine.run({"question": 1}, run_id="r", stop_before=["sub/tool"], stop_after=["sub/answer"])
    assert (result.status, result.last_step, CALLS) == ("paused", 0, ["think"])
    result = Engine(sub(), store=store).resume("r")
    assert (result.status, result.last_step, sorted(CALLS)) == (
        "paused",
        0,
        ["answer", "note", "think", "tool"],
    )
    result = engine.resume("r")
    assert (result.status, result["final"], len(CALLS)) == ("completed", 18, 5)


def test_each_frame_of_a_mapped_subgraph_stops_and_the_rest_goes_on(store: Store) -> None:
    inside = Graph([think, tool], name="inside")
    each = inside.map_over("question").as_node("each", inputs=("question",), outputs=("found",))

    @node(output="other")
    def beside(question: Any) -> int:
        CALLS.append("beside")
        return 0

    engine = Engine(Graph([each, beside], name="mapped"), store=store)
    result = engine.run({"question": [1, 2, 3]}, run_id="r", stop_before=["each/inside/tool"])
    assert (result.status, sorted(CALLS)) == ("paused", ["beside", "think", "think", "think"])
    assert dict(result.provisional) == {"other": 0}
    assert dict(engine.result("r").provisional) == {"other": 0}
    result = engine.resume("r")
    assert (result.status, result["found"], CALLS.count("beside")) == ("completed", [20, 30, 40], 1)


def test_what_lookahead_has_finished_is_provisional_and_does_not_run_again(store: Store) -> None:
    """``slow`` runs beside ``quick``; ``early`` belongs to the step of ``held``, which only ``slow`` can lead to."""
    gate = threading.Event()

    @node(output="s")
    def slow(x: int) -> int:
        assert gate.wait(300)
        return x

    @node(output="q")
    def quick(x: int) -> int:
        return x

    @node(output="e")
    def early(q: int) -> int:
        CALLS.append("early")
        gate.set()
        return q

    @node(output="h")
    def held(s: int) -> int:
        CALLS.append("held")
        return s

    engine = Engine(Graph([slow, quick, early, held], name="ahead"), store=store)
    result = engine.run({"x": 1}, run_id="r", stop_before=["held"])
    assert (result.status, result.last_step, CALLS) == ("paused", 1, ["early"])
    assert dict(result.provisional) == {"e": 1}
    assert engine.resume("r").status == "completed"
    assert CALLS == ["early", "held"]


def test_a_failure_behind_a_stop_waits_for_the_resume() -> None:
    gate = threading.Event()

    @node(output="s")
    def slow(x: int) -> int:
        assert gate.wait(300)
        return x

    @node(output="e")
    def early(x: int, ctx: Context) -> int:
        return x

    @node(output="f")
    def fails(e: int) -> int:
        gate.set()
        raise OSError

    @node(output="h")
    def held(s: int) -> int:
        return s

    engine = Engine(Graph([slow, early, fails, held]))
    result = engine.run({"x": 1}, run_id="r", stop_before=["held"])
    assert (result.status, result.failures, engine.runs()[0].error) == ("paused", (), None)
    with suppress(OSError):
        engine.resume("r")
    assert engine.runs()[0].status == "failed"


def test_a_question_beside_a_stop_is_still_asked(store: Store) -> None:
    @interrupt(output="ok")
    def approve(question: int) -> str:
        return "go on?"

    inside = Graph([think, tool], name="inside")
    engine = Engine(
        Graph([inside.as_node("sub", inputs=("question",), outputs=("found",)), approve], name="asking"),
        store=store,
    )
    result = engine.run({"question": 1}, run_id="r", stop_before=["sub/tool"])
    assert (result.status, [asked.path for asked in result.questions]) == ("paused", ["approve#0"])
    result = engine.resume("r")  # passes the stop, and waits for the answer
    assert result.status == "waiting"
    with pytest.raises(RunStateError):
        engine.resume("r")
    assert engine.resume("r", answer=True).status == "completed"


def test_wrong_stops_are_rejected() -> None:
    engine = Engine(sub())
    for wrong, said in (
        ("sub/tol", "did you mean 'sub/tool'"),
        ("sob/tool", "did you mean 'sub'"),
        (["don"], "did you mean 'done'"),
        (7, "expected nodes"),
    ):
        with pytest.raises(InputError, match=said):
            engine.run({"question": 1}, run_id="r", stop_before=wrong)
    assert engine.runs() == []


def test_a_paused_run_is_exported_imported_and_kept(store: Store, tmp_path: Path) -> None:
    engine = Engine(AGENT, store=store)
    engine.run({"question": 1}, run_id="r", stop_before=["tool", "answer"])
    engine.resume("r")
    if store.encodes:
        other = Engine(AGENT, store=SQLiteStore(tmp_path / "other.db"))
        other.import_run(engine.export_run("r"))
        assert other.runs()[0].status == "paused"
        assert other.resume("r").status == "completed"
        other.close()
    assert engine.prune(keep=0) == []
    assert engine.prune(keep=0, status="paused") == ["r"]
