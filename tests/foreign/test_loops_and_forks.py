"""An agent that plans, fans out, asks a person and goes round again: answered, forked at every step, on every store."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, TypedDict

import pytest

from clew import Engine, Graph, RunResult, Send, SQLiteStore, interrupt, node, route


class Work(TypedDict, total=False):
    task: str
    plan: list[str]
    turn: int
    ok: bool
    answer: str
    notes: Annotated[list[str], operator.add]


@node(writes=("plan", "turn"))
def think(task, turn=0):
    return {"plan": [f"{task}{turn}{part}" for part in range(2)], "turn": turn + 1}


@route(targets=["tool"])
def act(plan) -> list[Send]:
    return [Send("tool", {"job": job}) for job in plan]


@node(output="notes")
async def tool(job):
    await asyncio.sleep(0)
    return [job]


@interrupt(output="ok")
def review(notes, turn):
    return f"turn {turn}: {len(notes)} notes, fine?"


@route(targets=["think", "finish", "give_up"])
def judge(ok, turn):
    return "finish" if ok else "give_up" if turn >= 3 else "think"


@node(output="answer")
def finish(notes):
    return "+".join(notes)


@node(output="answer")
def give_up(notes):
    return f"gave up after {len(notes)}"


GRAPH = Graph([think, act, tool, review, judge, finish, give_up], state=Work)


def drive(engine: Engine, answers: Sequence[bool], run_id: str) -> RunResult:
    result = engine.run({"task": "t"}, run_id=run_id)
    for answer in answers:
        assert result.status == "waiting"
        result = engine.resume(run_id, answer=answer)
    return result


@pytest.fixture(params=["memory", "one at a time", "sqlite"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Engine:
    if request.param == "memory":
        return Engine(GRAPH)
    if request.param == "one at a time":
        return Engine(GRAPH, max_concurrent_nodes=1)
    return Engine(GRAPH, store=SQLiteStore(tmp_path / "runs.db"))


def test_it_ends_the_same_way_everywhere(engine: Engine) -> None:
    expected = drive(Engine(GRAPH), [False, True], "r")
    result = drive(engine, [False, True], "r")
    assert (result.status, result["answer"]) == ("completed", "t00+t01+t10+t11")
    assert result.state.digest == expected.state.digest
    assert engine.replay("r").ok


def test_it_gives_up_after_three_turns(engine: Engine) -> None:
    result = drive(engine, [False, False, False], "r")
    assert (result.status, result["answer"]) == ("completed", "gave up after 6")
    assert "finish" in result.never_ran
    assert engine.replay("r").ok


def test_a_fork_at_any_step_comes_to_the_same_end(engine: Engine) -> None:
    result = drive(engine, [False, True], "r")
    for step in range(result.last_step + 1):
        fork = engine.fork("r", step=step, run_id=f"f{step}")
        while fork.status == "waiting":
            fork = engine.resume(fork.run_id, answer=fork.questions[0].question.startswith("turn 2"))
        assert fork["answer"] == result["answer"]
        assert fork.state.digest == result.state.digest


def test_the_two_ends_can_be_told_apart(engine: Engine) -> None:
    drive(engine, [False, True], "r")
    drive(engine, [False, False, False], "g")
    diff = engine.diff("r", "g")
    assert diff.first is not None
    assert [item.path for item in diff.first.items] == ["review#1"]
    assert "judge#1" in str(engine.why("r", "answer"))
