"""Recorded calls on a store that outlives the process: what was journaled is never made again."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from clew import Context, Engine, Graph, RetryPolicy, SideEffectPolicy, SQLiteStore, node
from clew.errors import EncodeError, NodeError, RecordCorruptError
from clew.runtime.log.entries.call_records import RecordedCall
from clew.stores import LogEntry
from clew.stores.sql_rows import checksum
from tests.runtime.killed import as_if_killed

TWICE = RetryPolicy(max_attempts=2, base_delay=1e-9)


class ApiError(Exception):
    """An error of a client library: more than a message."""

    def __init__(self, status: int, body: str) -> None:
        super().__init__(f"{status}: {body}")
        self.status = status


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


def recordings(store: SQLiteStore, run_id: str = "r") -> list[LogEntry]:
    return [entry for entry in store.entries(run_id) if entry.kind == "call"]


def test_a_recording_is_durable_before_the_node_goes_on(file: Path) -> None:
    found: list[int] = []

    @node(output="x")
    def act(a: int, ctx: Context) -> int:
        answer = ctx.record("call", lambda: 7)
        found.append(len(recordings(as_if_killed(file))))
        return answer

    Engine(Graph([act]), store=SQLiteStore(file)).run({"a": 1}, run_id="r")
    assert found == [1]


def test_of_several_calls_at_once_each_is_durable_when_it_returns(file: Path) -> None:
    found: list[int] = []

    async def one(name: str) -> str:
        await asyncio.sleep(0)
        return name

    @node(output="x")
    async def act(a: int, ctx: Context) -> list[str]:
        async def call(name: str) -> str:
            answer = await ctx.record("call", one, name)
            found.append(len(recordings(as_if_killed(file))))
            return answer

        return await asyncio.gather(*(call(name) for name in "abc"))

    result = Engine(Graph([act]), store=SQLiteStore(file)).run({"a": 1}, run_id="r")
    assert result["x"] == ["a", "b", "c"]
    assert all(number >= returned for returned, number in enumerate(found, start=1))


def test_a_call_that_was_journaled_is_not_made_again_after_a_crash(file: Path) -> None:
    calls: list[str] = []
    left: list[SQLiteStore] = []

    @node(output="x")
    def act(a: int, ctx: Context) -> str:
        first = ctx.record("call", lambda: calls.append("first") or "one")
        if not left:
            left.append(as_if_killed(file))
        return first + ctx.record("call", lambda: calls.append("second") or "two")

    graph = Graph([act])
    Engine(graph, store=SQLiteStore(file)).run({"a": 1}, run_id="r")
    calls.clear()
    assert (Engine(graph, store=left[0]).resume("r")["x"], calls) == ("onetwo", ["second"])


def test_only_items_that_run_again_are_looked_up(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fail = True

    @node(output="b")
    def early(a: int, ctx: Context) -> int:
        return ctx.record("call", lambda: a + 1)

    @node(output="c")
    def late(b: int, ctx: Context) -> int:
        found = ctx.record("call", lambda: b + 1)
        if fail:
            raise ValueError
        return found

    looked, find = [], SQLiteStore.find

    def watched(self: SQLiteStore, run_id: str, kind: str, path: str) -> Any:
        looked.append((kind, path))
        return find(self, run_id, kind, path)

    monkeypatch.setattr(SQLiteStore, "find", watched)
    engine = Engine(Graph([early, late]), store=SQLiteStore(file))
    engine.run({"a": 1}, run_id="r", check=False)
    assert looked == []
    fail = False
    assert engine.resume("r")["c"] == 3
    assert looked == [("call", "late#0")]


def test_resuming_reads_no_recording_that_it_does_not_need(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail = True

    @node(output="b")
    def early(a: int, ctx: Context) -> int:
        return ctx.record("call", lambda: a + 1)

    @node(output="c")
    def late(b: int) -> int:
        if fail:
            raise ValueError
        return b

    engine = Engine(Graph([early, late]), store=SQLiteStore(file))
    engine.run({"a": 1}, run_id="r", check=False)
    fail, kinds, entries = False, set(), SQLiteStore.entries

    def watched(self: SQLiteStore, run_id: str, **more: Any) -> Any:
        found = entries(self, run_id, **more)
        kinds.update(entry.kind for entry in found)
        return found

    monkeypatch.setattr(SQLiteStore, "entries", watched)
    engine.resume("r")
    assert "call" not in kinds


def test_an_exception_comes_back_as_its_own_class_after_a_crash(file: Path) -> None:
    calls: list[int] = []
    left: list[SQLiteStore] = []

    def fails() -> None:
        calls.append(1)
        raise ApiError(503, "busy")

    @node(output="x")
    def act(a: int, ctx: Context) -> str:
        try:
            ctx.record("call", fails)
        except ApiError as error:
            if not left:
                left.append(as_if_killed(file))
            return f"{error.status}, {error}"
        return ""

    graph = Graph([act])
    Engine(graph, store=SQLiteStore(file)).run({"a": 1}, run_id="r")
    assert Engine(graph, store=left[0]).resume("r")["x"] == "503, 503: busy"
    assert len(calls) == 1


def test_an_exception_is_not_met_again_when_a_failed_run_is_resumed(file: Path) -> None:
    answers: list[Any] = [ConnectionError("down"), "up"]

    def ask() -> str:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    @node(output="x")
    def act(a: int, ctx: Context) -> str:
        return ctx.record("call", ask)

    engine = Engine(Graph([act]), store=SQLiteStore(file))
    assert engine.run({"a": 1}, run_id="r", check=False).status == "failed"
    assert engine.resume("r")["x"] == "up"


def test_nor_when_the_resumed_run_crashes_before_it_calls_again(file: Path) -> None:
    left: list[SQLiteStore] = []
    answers: list[Any] = [ConnectionError("down"), "up", "up"]

    def ask() -> str:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    @node(output="x")
    def act(a: int, ctx: Context) -> str:
        if len(answers) == 2:
            left.append(as_if_killed(file))
        return ctx.record("call", ask)

    graph = Graph([act])
    engine = Engine(graph, store=SQLiteStore(file))
    engine.run({"a": 1}, run_id="r", check=False)
    engine.resume("r")
    assert Engine(graph, store=left[0]).resume("r").status == "completed"


def test_a_success_is_used_again_by_a_later_attempt_of_the_subgraph_around_it(file: Path) -> None:
    calls: list[int] = []

    @node(output="b")
    def act(a: int, ctx: Context) -> int:
        return ctx.record("call", lambda: calls.append(1) or len(calls))

    @node(output="c")
    def fail_once(b: int) -> int:
        if len(fails) < 1:
            fails.append(1)
            raise ValueError
        return b

    fails: list[int] = []
    inner = Graph([act, fail_once], name="inner").as_node(retry=TWICE)
    result = Engine(Graph([inner]), store=SQLiteStore(file)).run({"a": 1}, run_id="r")
    assert (result["c"], calls) == (1, [1])


def test_calls_of_two_attempts_of_a_subgraph_do_not_meet(file: Path) -> None:
    answers: list[Any] = [ConnectionError("down"), "up"]

    def ask() -> str:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    @node(output="b")
    def act(a: int, ctx: Context) -> str:
        return ctx.record("call", ask)

    inner = Graph([act], name="inner").as_node(retry=TWICE)
    assert Engine(Graph([inner]), store=SQLiteStore(file)).run({"a": 1})["b"] == "up"


def test_recordings_are_let_go_of_when_their_item_has_finished(file: Path) -> None:
    known: list[int] = []

    @node(output="n")
    def count(n: int, ctx: Context) -> int:
        known.append(len(session.recorder._histories))
        return ctx.record("call", lambda: n + 1)

    @node(output="m")
    def again(n: int, ctx: Context) -> int:
        known.append(len(session.recorder._histories))
        return ctx.record("call", lambda: n + 1)

    engine = Engine(Graph([count.rename(outputs={"n": "k"}), again]), store=SQLiteStore(file))
    session = engine._execution.open_session({"n": 1}, "r")
    while (item := session.take()) is not None:
        session.returned(item, 0, session.call(item), 0.0, 0.0)
    engine._execution.close_session(session)
    assert known == [0, 0]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_request_that_cannot_be_stored_is_refused_before_the_call(file: Path, durability: str) -> None:
    calls: list[object] = []

    @node(output="x")
    def act(a: int, ctx: Context) -> None:
        ctx.record("llm", calls.append, object())

    result = Engine(Graph([act]), store=SQLiteStore(file), durability=durability).run({"a": 1}, check=False)
    assert isinstance(result.error, EncodeError)
    assert "node 'act' at act#0, call 0 ('llm') cannot be recorded: request" in str(result.error)
    assert calls == []


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_response_that_cannot_be_stored_is_told_to_its_node(file: Path, durability: str) -> None:
    @node(output="x")
    def act(a: int, ctx: Context) -> str:
        try:
            ctx.record("llm", object)
        except EncodeError as error:
            return str(error)
        return ""

    result = Engine(Graph([act]), store=SQLiteStore(file), durability=durability).run({"a": 1})
    assert result["x"].startswith("node 'act' at act#0, call 0 ('llm') cannot be recorded: response: ")


def test_before_a_call_all_that_it_builds_on_is_durable(file: Path) -> None:
    found: list[int] = []

    @node(output="b")
    def first(a: int) -> int:
        return a + 1

    @node(output="c")
    def second(b: int, ctx: Context) -> int:
        return ctx.record("call", lambda: found.append(len(as_if_killed(file).find("r", "step", ""))) or b)

    Engine(Graph([first, second]), store=SQLiteStore(file), durability="async").run({"a": 1}, run_id="r")
    assert found == [1]


def test_before_a_node_with_side_effects_all_that_it_builds_on_is_durable(file: Path) -> None:
    found: list[int] = []

    @node(output="b")
    def first(a: int) -> int:
        return a + 1

    @node(output="c", side_effects=SideEffectPolicy(recordable=True))
    def second(b: int) -> int:
        found.append(len(as_if_killed(file).find("r", "step", "")))
        return b

    Engine(Graph([first, second]), store=SQLiteStore(file), durability="async").run({"a": 1}, run_id="r")
    assert found == [1]


def test_an_attempt_that_is_over_makes_no_more_calls() -> None:
    calls: list[int] = []
    contexts: list[Context] = []

    @node(output="x", retry=TWICE)
    def act(a: int, ctx: Context) -> str:
        contexts.append(ctx)
        if ctx.attempt == 0:
            raise ValueError
        try:
            contexts[0].record("call", calls.append, 0)  # as a thread that was abandoned would
        except Exception as error:
            return str(error)
        return ""

    with pytest.raises(NodeError):
        Graph([act]).run(a=1)
    assert calls == []


def damage(file: Path, change: Callable[[bytes], bytes]) -> None:
    """Change the body of the recordings, checksums and all: somebody has tampered with it."""
    with closing(sqlite3.connect(file)) as db, db:
        recordings = db.execute("SELECT path, n, body, digest FROM log WHERE kind = 'call'").fetchall()
        for path, n, body, digest in recordings:
            changed = change(body)
            db.execute(
                "UPDATE log SET body = ?, crc = ? WHERE kind = 'call'",
                (changed, checksum("r", "call", path, n, changed, digest)),
            )


@pytest.mark.parametrize("verb", ["resume", "replay"])
def test_a_recording_that_was_tampered_with_is_named_by_node_path_and_call(file: Path, verb: str) -> None:
    fail = True

    @node(output="x")
    def act(a: int, ctx: Context) -> str:
        found = ctx.record("llm", lambda: "yes, do")
        if fail:
            raise ValueError
        return found

    engine = Engine(Graph([act]), store=SQLiteStore(file))
    engine.run({"a": 1}, run_id="r", check=False)
    damage(file, lambda body: body.replace(b"yes, do", b"no, do!"))
    fail = False
    told = (
        "run 'r': node 'act' at act#0, call 0 ('llm') is damaged (digest mismatch); other runs can "
        "be read, and the parts of this one that do not need the call"
    )
    if verb == "replay":
        with pytest.raises(RecordCorruptError) as caught:
            engine.replay("r")
        assert str(caught.value) == told
    else:
        error = engine.resume("r", check=False).error
        assert (type(error), str(error)) == (RecordCorruptError, told)


def test_a_damaged_recording_does_not_keep_a_run_from_going_on_that_does_not_need_it(file: Path) -> None:
    fail = True

    @node(output="b")
    def early(a: int, ctx: Context) -> int:
        return ctx.record("call", lambda: a + 1)

    @node(output="c")
    def late(b: int) -> int:
        if fail:
            raise ValueError
        return b

    engine = Engine(Graph([early, late]), store=SQLiteStore(file))
    engine.run({"a": 1}, run_id="r", check=False)
    damage(file, lambda body: b"x" + body[1:])
    fail = False
    assert engine.resume("r")["c"] == 2


def test_recordings_come_back_as_they_were(file: Path) -> None:
    @node(output="x")
    def act(a: int, ctx: Context) -> int:
        return ctx.record("add", lambda n, k: n + k, 1, k=2)

    engine = Engine(Graph([act]), store=SQLiteStore(file))
    engine.run({"a": 1}, run_id="r")
    (call,) = engine.history("r")[-1].recorded_ios
    assert isinstance(call, RecordedCall)
    assert (call.path, call.attempt, call.number, call.name) == ("act#0", 0, 0, "add")
    assert (call.request, call.response, call.error) == (((1,), {"k": 2}), 3, None)


def test_in_async_mode_a_recording_is_handed_over_at_once(file: Path) -> None:
    """It does not wait in memory for the node to end: the writer thread has it, and it is durable soon."""
    found: list[int] = []

    @node(output="x")
    def act(a: int, ctx: Context) -> int:
        answer = ctx.record("call", lambda: 7)
        background = engine._live["r"].writer._background
        assert background is not None
        background.join()
        found.append(len(recordings(as_if_killed(file))))
        return answer

    engine = Engine(Graph([act]), store=SQLiteStore(file), durability="async")
    engine.run({"a": 1}, run_id="r")
    assert found == [1]
