"""Conversations: threads that are busy, dropped, forked, pruned and long; and the events of their runs."""

from __future__ import annotations

import operator
import threading
import warnings
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from clew import Engine, Graph, SQLiteStore, interrupt, node, route
from clew.errors import GraphWarning, RunStateError


class Chat(TypedDict, total=False):
    q: str
    m: Annotated[list[str], operator.add]
    ok: bool


@pytest.fixture(params=["memory", "file"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return None if request.param == "memory" else SQLiteStore(tmp_path / "runs.db")


def test_a_conversation_is_longer_than_the_limit_of_a_run(store: Any) -> None:
    @node(output="m")
    def reply(m):
        return ["r"]

    engine = Engine(Graph([reply], state=Chat), store=store, max_steps=5)
    for turn in range(12):
        assert engine.run({"m": [str(turn)]}, thread="t").status == "completed"
    assert len(engine.thread("t").state.get("m")) == 24


def test_a_question_that_nobody_will_answer(store: Any) -> None:
    @interrupt(output="ok")
    def ask(q):
        return q

    engine = Engine(Graph([ask], state=Chat), store=store)
    engine.run({"q": "one"}, thread="t", run_id="a")
    with pytest.warns(GraphWarning):
        engine.run({"q": "two"}, thread="t", run_id="b", drop=True)
    assert [run.run_id for run in engine.runs(status="waiting")] == ["b"]
    assert engine.result("a").status == "cancelled"
    engine.resume("b", answer=True)
    assert engine.thread("t").state.get("ok") is True


def test_going_back_while_a_turn_is_running(store: Any) -> None:
    started, may_end = threading.Event(), threading.Event()

    @node(output="m")
    def reply(m):
        if m[-1] == "slow":
            started.set()
            may_end.wait(300)
        return ["re " + m[-1]]

    engine = Engine(Graph([reply], state=Chat), store=store, default_node_timeout=None)
    engine.run({"m": ["a"]}, thread="t", run_id="a")
    slow = engine.start({"m": ["slow"]}, thread="t", run_id="s")
    assert started.wait(300)
    with pytest.raises(RunStateError, match="'s'"):
        engine.fork("a", thread="t", on_busy="refuse")
    may_end.set()
    assert slow.result(300)["m"] == ["a", "re a", "slow", "re slow"]
    assert engine.thread("t").head == "s"
    assert engine.fork("a", thread="t").status == "completed"
    assert engine.thread("t").state.get("m") == ["a", "re a"]


@pytest.mark.parametrize("how", ["fails", "is cancelled", "completes"])
def test_following_a_run_until_it_ends(store: Any, how: str) -> None:
    @interrupt(output="ok")
    def ask(q):
        return "?"

    @node(output="m")
    def reply(ok):
        if how == "fails":
            raise ValueError("no")
        return ["yes"]

    engine = Engine(Graph([ask, reply], state=Chat), store=store)
    handle = engine.start({"q": "x"}, run_id="r")
    seen = []
    for event in handle.events(follow=True):
        seen.append(event)
        if event.kind == "interrupted" and how == "is cancelled":
            handle.result(300, check=False)
            handle.cancel()
        elif event.kind == "interrupted":
            handle.answer(True)
    ends = {"fails": "failed", "is cancelled": "cancelled", "completes": "completed"}
    assert (seen[-1].kind, seen[-1].status) == ("run_finished", ends[how])


def test_two_questions_that_are_answered_one_after_the_other(store: Any) -> None:
    @node(output="a")
    def quick(x):
        return x

    @interrupt(output="b")
    def first(x):
        return "one?"

    @interrupt(output="c")
    def second(x):
        return "two?"

    @node(output="d")
    def end(a, b, c):
        return a, b, c

    engine = Engine(Graph([quick, first, second, end]), store=store)
    events = [
        *engine.stream({"x": 1}, run_id="r"),
        *engine.stream(run_id="r", answers={"first#0": 1}),
        *engine.stream(run_id="r", answer=2),
    ]
    assert Counter(event.path for event in events if event.kind == "item_finished") == Counter(
        ["quick#0", "first#0", "second#0", "end#0"]
    )
    handle = engine.start({"x": 1}, run_id="s")
    finished = Counter[str]()
    for event in handle.events():
        if event.kind == "interrupted":
            handle.answer(1, question=event.path)
        elif event.kind == "item_finished":
            finished[event.path] += 1
    assert handle.status == "completed"
    assert finished == Counter(["quick#0", "first#0", "second#0", "end#0"])


def test_a_listener_can_tell_what_it_has_heard_before(store: Any) -> None:
    @node(output="a")
    def quick(x):
        return x

    @interrupt(output="b")
    def ask(x):
        return "?"

    heard: list[Any] = []
    engine = Engine(Graph([quick, ask]), store=store, listeners=[heard.append])
    engine.run({"x": 1}, run_id="r")
    engine.resume("r", answer=1)
    found = [(each.path, each.data.get("restored", False)) for each in heard if each.kind == "item_finished"]
    assert found == [("quick#0", False), ("quick#0", True), ("ask#0", False)]


def test_pruning_keeps_the_end_of_a_conversation(store: Any) -> None:
    @route(targets=["ask", "reply"])
    def pick(q):
        return "ask" if "risky" in q else "reply"

    @interrupt(output="ok")
    def ask(q):
        return q

    @node(output="m")
    def reply(q):
        return [f"re {q}"]

    engine = Engine(Graph([pick, ask, reply], state=Chat), store=store)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphWarning)
        for q in ("one", "two risky", "three", "four"):
            engine.run({"q": q, "m": [q]}, thread="t", run_id=q, drop=True)
    said = engine.thread("t").state.get("m")
    assert "four" not in engine.prune(keep=0)
    assert (engine.thread("t").head, engine.thread("t").state.get("m")) == ("four", said)
    assert engine.run({"q": "five", "m": ["five"]}, thread="t")["m"] == [*said, "five", "re five"]
    assert list(engine.store.check()) == []
