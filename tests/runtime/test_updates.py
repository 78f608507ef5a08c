"""``Engine.update``: one step by hand, on each store, with questions, failures, gates and subgraphs around it."""

from __future__ import annotations

import asyncio
import operator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from pydantic import BaseModel

from clew import END, Command, Context, Engine, Graph, Send, SQLiteStore, ifelse, interrupt, node, route
from clew.errors import GraphWarning, InputError, RunStateError, UnknownRunError
from clew.state import position_of
from clew.stores import Store
from tests.store_fixtures import every_store

CALLS: list[str] = []


@pytest.fixture(autouse=True)
def _fresh() -> None:
    CALLS.clear()


store = every_store


class State(TypedDict, total=False):
    question: str
    plan: str
    notes: Annotated[list[str], operator.add]
    sent: str


@node(output="plan")
def think(question: str) -> str:
    CALLS.append("think")
    return f"plan for {question}"


@node(output="notes")
def note(question: str) -> list[str]:
    CALLS.append("note")
    return [question]


@route(targets=["send", END])
def approve(plan: str) -> Any:
    CALLS.append("approve")
    return "send"


@node(output="sent")
def send(plan: str) -> str:
    CALLS.append("send")
    return f"sent {plan}"


AGENT = Graph([think, note, approve, send], state=State, name="agent")


def agent(store: Store, **stops: Any) -> Engine:
    engine = Engine(AGENT, store=store)
    assert (
        engine.run({"question": "q"}, run_id="r", **(stops or {"stop_before": ["send"]})).status == "paused"
    )
    return engine


def test_a_value_is_changed_and_the_run_goes_on(store: Store) -> None:
    engine = agent(store)
    result = engine.update("r", {"plan": "better"}, as_node="think")
    assert (result.status, result.last_step, result["plan"]) == ("paused", 3, "better")
    assert result.state.visits["think"] == 2
    assert [item.path for item in engine.frontier("r")] == ["approve#1"]
    result = Engine(AGENT, store=store).resume("r", stop_before=[])
    assert (result.status, result["sent"]) == ("completed", "sent better")
    assert [call for call in CALLS if call != "note"] == ["think", "approve", "approve", "send"]
    assert CALLS.count("note") == 1  # beside the others, in any order
    assert engine.replay("r").ok


def test_values_go_through_the_reducers(store: Store) -> None:
    engine = agent(store)
    assert engine.update("r", {"notes": ["more"]})["notes"] == ["q", "more"]
    assert engine.update("r", {"notes": ["and more"]}, as_node="note")["notes"] == ["q", "more", "and more"]
    assert engine.state("r").get_version("notes") == 3
    assert engine.state("r", 2).get("notes") == ["q"]


def test_a_gate_decides_by_hand(store: Store) -> None:
    engine = agent(store, stop_before=["approve"])
    result = engine.update("r", as_node="approve", decision=END)
    assert dict(result.state.gate_decisions) == {"approve": "END"}
    result = engine.resume("r")
    assert (result.status, "sent" in result, sorted(CALLS)) == ("completed", False, ["note", "think"])
    result = engine.update("r", as_node="approve", decision="send")
    assert engine.resume("r")["sent"] == "sent plan for q"
    assert (sorted(CALLS[:2]), CALLS[2:]) == (["note", "think"], ["send"])


def test_an_ifelse_takes_true_or_a_target() -> None:
    @ifelse(when_true="send", when_false=END)
    def good(plan: str) -> bool:
        return False

    engine = Engine(Graph([think, good, send]))
    for number, decision in enumerate((True, "send", send)):
        run = f"r{number}"
        engine.run({"question": "q"}, run_id=run, stop_before=["good"])
        engine.update(run, as_node="good", decision=decision)
        assert engine.resume(run)["sent"] == "sent plan for q"


def test_history_why_and_the_stored_run_say_that_a_person_made_the_step(store: Store) -> None:
    engine = agent(store)
    engine.update("r", {"plan": "better"}, as_node="think")
    engine.update("r", {"question": "other"})
    assert [checkpoint.by_hand for checkpoint in engine.history("r")] == [False, False, False, True, True]
    assert [checkpoint.items for checkpoint in engine.history("r")][3:] == [("think#1",), ("#4",)]
    why = engine.why("r", "plan")
    assert (why.node, why.path, [reason.kind for reason in why.reasons]) == ("think", "think#1", ["edited"])
    why = engine.why("r", "question")
    assert (why.node, why.step, [reason.kind for reason in why.reasons]) == ("", 4, ["edited"])
    engine.resume("r")
    reasons = {(reason.kind, reason.value) for reason in engine.why("r", "think").reasons}
    assert reasons == {("edited", "question")}
    without_code = Engine(store=store) if store.encodes else engine
    assert without_code.state("r").get("question") == "other"


def test_a_question_about_a_changed_value_is_withdrawn(store: Store) -> None:
    @interrupt(output="ok")
    def ask(plan: str) -> str:
        CALLS.append("ask")
        return f"send {plan}?"

    @node(output="other")
    def aside(question: str, ctx: Context) -> str:
        CALLS.append("aside")
        return str(ctx.interrupt("really?"))

    @node(output="done")
    def finish(ok: bool, other: str) -> str:
        return f"{ok} {other}"

    engine = Engine(Graph([think, ask, aside, finish], name="asking"), store=store)
    assert engine.run({"question": "q"}, run_id="r").status == "waiting"
    assert {asked.path for asked in engine.result("r").questions} == {"aside#0", "ask#0"}
    result = engine.update("r", {"other": "yes"}, as_node="aside")
    assert (result.status, [asked.path for asked in result.questions]) == ("paused", ["ask#0"])
    result = engine.resume("r")
    assert (result.status, [asked.path for asked in result.questions]) == ("waiting", ["ask#0"])
    result = engine.update("r", {"plan": "better"}, as_node="think")
    assert (result.status, result.questions) == ("paused", ())
    result = engine.resume("r")
    assert [asked.question for asked in result.questions] == ["send better?"]
    assert engine.resume("r", answer=True)["done"] == "True yes"
    assert engine.replay("r").ok


def test_what_the_change_does_not_touch_is_kept_and_recorded_calls_stay(store: Store) -> None:
    def looked_up(key: str) -> str:
        CALLS.append(key)
        return key

    @node(output="a")
    def reads(x: int, ctx: Context) -> str:
        ctx.record("look up", looked_up, "reads")
        CALLS.append("reads runs")
        return f"{ctx.interrupt('a?')}"

    @node(output="b")
    def apart(y: int) -> str:
        CALLS.append("apart")
        return f"apart {y}"

    engine = Engine(Graph([reads, apart], name="kept"), store=store)
    result = engine.run({"x": 1, "y": 2}, run_id="r")
    assert (result.status, dict(result.provisional)) == ("waiting", {"b": "apart 2"})
    result = engine.update("r", {"x": 5})
    assert (result.status, result.questions, dict(result.provisional)) == ("paused", (), {"b": "apart 2"})
    assert engine.resume("r").status == "waiting"
    assert engine.resume("r", answer="yes")["a"] == "yes"
    assert (CALLS.count("apart"), CALLS.count("reads")) == (1, 1)
    assert engine.replay("r").ok


def test_the_result_of_a_failed_node_can_be_given(store: Store) -> None:
    @node(output="b")
    def broken(a: int) -> int:
        CALLS.append("broken")
        raise OSError

    @node(output="c")
    def after(b: int) -> int:
        return b + 1

    for on_error in ("stop", "continue"):
        engine = Engine(Graph([broken, after], name="broken"), store=store, on_error=on_error)
        run = f"r-{on_error}"
        with suppress(OSError):
            engine.run({"a": 1}, run_id=run)
        assert engine.update(run, {"b": 10}, as_node="broken").status == "paused"
        result = engine.resume(run)
        assert (result.status, result["c"], CALLS) == ("completed", 11, ["broken"])
        assert not engine.runs()[-1].error
        CALLS.clear()


def test_a_failed_call_is_made_again_after_an_update(store: Store) -> None:
    def called(x: int) -> int:
        CALLS.append(f"called {x}")
        if len(CALLS) == 1:
            raise OSError
        return x

    @node(output="y")
    def calls(x: int, ctx: Context) -> int:
        return int(ctx.record("call", called, 7))

    engine = Engine(Graph([calls], name="calling"), store=store)
    with suppress(OSError):
        engine.run({"x": 1}, run_id="r")
    engine.update("r", {"x": 2})
    assert (engine.resume("r")["y"], len(CALLS)) == (7, 2)


def test_a_subgraph_that_was_begun_with_an_old_value_starts_over(store: Store) -> None:
    @node(output="first")
    def one(x: int) -> int:
        CALLS.append(f"one {x}")
        return x

    @interrupt(output="ok")
    def two(first: int) -> str:
        return f"{first}?"

    inside = Graph([one, two], name="inside")
    engine = Engine(
        Graph([inside.as_node("sub", inputs=("x",), outputs=("ok", "first"))], name="outside"), store=store
    )
    assert engine.run({"x": 1}, run_id="r").status == "waiting"
    assert engine.update("r", {"x": 2}).questions == ()
    result = engine.resume("r")
    assert [asked.question for asked in result.questions] == ["2?"]
    result = engine.resume("r", answer=True)
    assert (result["first"], CALLS) == (2, ["one 1", "one 2"])
    assert engine.update("r", {"first": 9, "ok": False}, as_node="sub")["first"] == 9
    assert engine.resume("r").status == "completed"
    assert engine.replay("r").ok


def test_a_terminated_run_goes_on_after_an_update(store: Store) -> None:
    engine = agent(store)
    state = engine.state("r").mark_terminated()
    assert engine.run(state, run_id="over").status == "completed"
    assert engine.frontier("over") == []
    result = engine.update("over", {"notes": ["again"]})
    assert (result.status, position_of(result.state).stopped) == ("paused", False)
    assert [item.path for item in engine.frontier("over")] == ["send#0"]
    assert engine.resume("over")["sent"] == "sent plan for q"
    assert engine.replay("over").ok


def test_a_rerun_drops_updates_with_a_warning(store: Store) -> None:
    engine = agent(store)
    engine.update("r", {"plan": "better"}, as_node="think")
    assert engine.resume("r", stop_before=[])["sent"] == "sent better"
    with pytest.warns(GraphWarning, match="step 3"):
        result = engine.rerun("r")
    assert result["sent"] == "sent plan for q"
    assert engine.fork("r", step=3)["sent"] == "sent better"


def test_an_update_is_exported_and_imported(store: Store, tmp_path: Path) -> None:
    engine = agent(store)
    engine.update("r", {"plan": "better"}, as_node="think")
    if store.encodes:
        other = Engine(AGENT, store=SQLiteStore(tmp_path / "other.db"))
        other.import_run(engine.export_run("r"))
        assert other.state("r").digest == engine.state("r").digest
        assert other.history("r")[3].by_hand
        assert other.resume("r", stop_before=[])["sent"] == "sent better"
        other.close()


def test_the_digest_covers_that_a_person_made_the_step() -> None:
    engine, other = Engine(AGENT, seed=1), Engine(AGENT, seed=1)
    for each in (engine, other):
        each.run({"question": "q"}, run_id="r", stop_before=["think"])
    engine.update("r", {"plan": "plan for q"}, as_node="think")
    other.resume("r", stop_after=["think"])
    assert engine.state("r").digest != other.state("r").digest


def test_what_cannot_be_updated() -> None:
    class Strict(BaseModel):
        question: str = ""
        count: int = 0

    @node(output="count")
    def work(question: str) -> int:
        return 1

    engine = Engine(Graph([work], state=Strict))
    engine.run({"question": "q"}, run_id="r")
    before = engine.state("r")
    for arguments, said in (
        ({"values": {"cuont": 1}}, "did you mean 'count'"),
        ({"values": {"count": "many"}}, "count"),
        ({"values": {"question": "x"}, "as_node": "work"}, "does not write 'question'"),
        ({"values": {"count": 1}, "as_node": "wrok"}, "did you mean 'work'"),
        ({"values": {"count": 1}, "as_node": "work", "decision": "END"}, "not a gate"),
        ({"values": {}, "decision": "END"}, "as_node"),
        ({"values": {}}, "at least one value"),
        ({"values": [1]}, "mapping"),
    ):
        with pytest.raises(InputError, match=said):
            engine.update("r", **arguments)
    assert (engine.state("r").digest, engine.runs()[0].status) == (before.digest, "completed")
    with pytest.raises(UnknownRunError):
        engine.update("nobody", {"count": 1})
    asking = Engine(AGENT)
    asking.run({"question": "q"}, run_id="r", stop_before=["approve"])
    with pytest.raises(InputError, match="targets"):
        asking.update("r", as_node="approve", decision="think")
    with pytest.raises(InputError, match="no graph"):
        Engine(store=engine.store).update("r", {"count": 1})


def test_a_running_run_cannot_be_updated(store: Store) -> None:
    told: list[Exception] = []

    @node(output="y")
    def meddles(x: int) -> int:
        try:
            engine.update("r", {"x": 2})
        except RunStateError as error:
            told.append(error)
        return x

    engine = Engine(Graph([meddles], name="meddling"), store=store)
    assert engine.run({"x": 1}, run_id="r")["y"] == 1
    assert len(told) == 1


def test_an_update_on_an_event_loop(store: Store) -> None:
    engine = Engine(AGENT, store=store)

    async def main() -> None:
        await engine.arun({"question": "q"}, run_id="r", stop_before=["send"])
        result = await engine.aupdate("r", {"plan": "better"}, as_node="think")
        assert result.status == "paused"
        assert (await engine.aresume("r", stop_before=[]))["sent"] == "sent better"

    asyncio.run(main())


class Rows(TypedDict, total=False):
    items: list[int]
    rows: Annotated[list[int], operator.add]
    total: int


@route(targets=["load"])
def each(items: list[int]) -> list[Send]:
    return [Send("load", {"item": item}) for item in items]


@node(output="rows")
def load(item: int, ctx: Context) -> list[int]:
    CALLS.append(f"load {item}")
    ctx.record("fetch", CALLS.append, f"fetch {item}")
    if item in (2, 4):
        raise ValueError(item)
    return [item]


@node(output="total", after="load")
def total(rows: list[int]) -> int:
    return sum(rows)


def test_the_finished_items_of_a_failed_fan_out_stay(store: Store) -> None:
    engine = Engine(Graph([each, load, total], state=Rows, name="fan"), store=store)
    assert engine.run({"items": [1, 2, 3, 4, 5]}, run_id="r", check=False).status == "failed"
    result = engine.update("r", {"rows": [20, 40]}, as_node="load")
    assert (result.status, result["rows"]) == ("paused", [1, 20, 40, 3, 5])
    checkpoint = engine.history("r")[-1]
    assert checkpoint.by_hand
    assert checkpoint.items == ("load#0[0]", "load#0[1]", "load#0[2]", "load#0[4]")
    result = Engine(engine.graph, store=store).resume("r")
    assert (result.status, result["total"]) == ("completed", 69)
    assert sorted(CALLS) == sorted(f"{what} {n}" for n in (1, 2, 3, 4, 5) for what in ("load", "fetch"))
    assert engine.replay("r").ok
    assert not list(engine.store.check())
    assert engine.why("r", "rows").node == "load"
    with pytest.warns(GraphWarning):
        assert engine.rerun("r", check=False).status == "failed"


class Seen(TypedDict, total=False):
    items: list[int]
    rows: Annotated[list[int], operator.add]
    last: int
    seen: int


@node(output=("rows", "last"))
def read_row(item: int) -> Command:
    if item == 2:
        raise ValueError(item)
    return Command(update={"rows": [item], "last": item})


@route(targets=["read_row"])
def each_row(items: list[int]) -> list[Send]:
    return [Send("read_row", {"item": item}) for item in items]


@node(output="seen", after="each_row", eager=True)
def look(last: int = 0) -> int:
    CALLS.append(f"look {last}")
    return last


def test_a_finished_item_that_reads_what_the_step_took_over_runs_again(store: Store) -> None:
    engine = Engine(Graph([each_row, read_row, look], state=Seen, name="seen"), store=store)
    assert engine.run({"items": [1, 2]}, run_id="r", check=False).status == "failed"
    assert CALLS == ["look 0"]
    result = engine.update("r", {"rows": [20]}, as_node="read_row")
    assert (result["last"], dict(result.provisional)) == (1, {})
    result = Engine(engine.graph, store=store).resume("r")
    assert (result["seen"], CALLS) == (1, ["look 0", "look 1"])
    assert engine.replay("r").ok


@node(output="level", cutoff=True)
def measure(sensor: int) -> int:
    CALLS.append("measure")
    return 7


@interrupt(output="agreed")
def agree(sensor: int) -> str:
    return "agreed?"


@pytest.mark.parametrize("level, measured", [(7, 1), (8, 2)])
def test_a_finished_item_with_a_cutoff_is_compared_with_the_written_value(
    store: Store, level: int, measured: int
) -> None:
    """7 by hand is what the item returns, so the item changes nothing."""
    engine = Engine(Graph([measure, agree], name="levels"), store=store)
    assert engine.run({"sensor": 1}, run_id="r").status == "waiting"
    assert engine.update("r", {"level": level}).status == "paused"
    result = Engine(engine.graph, store=store).resume("r", answer=True)
    assert (result.status, result["level"], result.state.versions["level"]) == ("completed", 7, measured)
    assert CALLS == ["measure", "measure"]
    assert engine.replay("r").ok
