"""A conversation whose turns fan out, rescue bad items, pay and run children; each process is killed a little later."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

PROGRAM = """
import operator, sys
from typing import Annotated, TypedDict
from clew import Context, Engine, Graph, Send, node, route

folder, turns = sys.argv[1], int(sys.argv[2])


class Chat(TypedDict):
    turn: int
    messages: Annotated[list[str], operator.add]
    paid: Annotated[int, operator.add]


def charge(key, n):
    with open(f"{folder}/charges", "a") as file:
        file.write(f"{key}\\n")
    return n


@node(output="charged")
def pay(n, ctx: Context):
    return ctx.record("charge", charge, ctx.idempotency_key, n)


payment = Graph([pay], name="payment")


@route(targets=["work"])
def split(turn):
    return [Send("work", {"n": n}) for n in range(3)]


def note(error, n):
    return {"messages": [f"{n}: {error}"], "paid": 0}


@node(writes=("messages", "paid"), rescue=note)
def work(turn, n, ctx: Context):
    if n == 1:
        raise ValueError("bad")
    ctx.run(payment, {"n": n})
    return {"messages": [f"paid {n}"], "paid": 1}


@node(output="messages", after="work")
def close(turn, paid):
    return [f"turn {turn}: {paid}"]


engine = Engine(Graph([split, work, close], state=Chat, name="chat"), store=f"{folder}/chat.db")
if engine.threads() and engine.thread("t").status == "running":
    engine.resume(engine.thread("t").head)
said = engine.thread("t").state.values["messages"] if engine.threads() else []
finished = sum(text.startswith("turn") for text in said)
for turn in range(finished, turns):
    engine.run({"turn": turn, "messages": [f"user {turn}"]}, thread="t")
thread = engine.thread("t")
assert all(engine.replay(run.run_id).ok for run in thread.runs)
print(*thread.state.get("messages"), sep="\\n")
engine.close()
"""

TURNS = 3


@pytest.mark.parametrize("point", ["after-append", "after-call", "after-create"])
def test_every_turn_is_taken_once_and_paid_once(tmp_path: Path, point: str) -> None:
    program = [sys.executable, "-c", PROGRAM, str(tmp_path), str(TURNS)]
    killed = 0
    while True:
        crash = {"CLEW_CRASH": f"{point}:{2 + killed % 5}"} if killed < 6 else {}
        done = subprocess.run(
            program, env=os.environ | crash, capture_output=True, text=True, timeout=300, check=False
        )
        if done.returncode >= 0:
            break
        killed += 1
    assert done.returncode == 0, done.stderr
    assert killed
    said = done.stdout.splitlines()
    for turn in range(TURNS):
        assert Counter(said)[f"user {turn}"] == 1
        assert Counter(said)[f"turn {turn}: {2 * (turn + 1)}"] == 1
    assert (Counter(said)["1: bad"], len(said)) == (TURNS, 5 * TURNS)
    charges = (tmp_path / "charges").read_text().split()
    assert len(set(charges)) == 2 * TURNS  # a repeated call has the same key
    assert len(charges) <= 2 * TURNS + 2 * killed  # two items may call at the same time
