"""Children with children, questions, failures and recorded calls; the process is killed in the middle, and goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import clew

PROGRAM = """
import asyncio, json, os, signal, sys, threading
from clew import Context, Engine, Graph, interrupt, node

folder, kill_at = sys.argv[1], int(sys.argv[2])
lock = threading.Lock()  # so that one effect is number `kill_at`


def effect(text):
    with lock:
        with open(f"{folder}/effects", "a") as file:
            file.write(text + "\\n")
        if sum(1 for _ in open(f"{folder}/effects")) == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
    return text


@node(output="a")
def first(x, ctx: Context):
    return ctx.record("first", effect, f"first-{x}")


@node(output="b")
async def second(a, ctx: Context):
    async def call(text):
        return effect(text)

    return await ctx.record("second", call, f"second-{a}")


grandchild = Graph([first, second], name="grandchild")


@node(output="b")
def nested(x, ctx: Context):
    return ctx.run(grandchild, {"x": x})["b"]


@interrupt(output="ok")
def ask(b):
    return f"ok {b}?"


@node(output="c")
def close(b, ok):
    if ok == "fail":
        raise ValueError(b)
    return f"{b}:{ok}"


child = Graph([nested, ask, close], name="child")


@node(output="out")
async def together(n, ctx: Context):
    async def one(i):
        try:
            return (await ctx.run(child, {"x": i}, key=str(i)))["c"]
        except ValueError as error:
            return f"failed {error}"

    return await asyncio.gather(*(one(i) for i in range(n)))


@node(output="later")
def in_turn(out, ctx: Context):
    return [ctx.run(grandchild, {"x": 100 + i})["b"] for i in range(2)]


with Engine(Graph([together, in_turn], name="top"), store=f"{folder}/runs.db") as engine:
    known = {row.run_id: row.status for row in engine.runs()}
    if "r" not in known:
        result = engine.run({"n": 3}, run_id="r")
    elif known["r"] == "waiting":
        question = engine.result("r").questions[0]
        result = engine.resume("r", answers={question.path: "fail" if "first-1" in question.question else "yes"})
    else:
        result = engine.resume("r")
    report = {"status": result.status, "questions": len(result.questions)}
    if result.status == "completed":
        report["values"] = [result["out"], result["later"]]
        report["ok"] = engine.replay("r").ok and not list(engine.store.check())
        report["children"] = sorted({row.status for row in engine.runs(children=True)})
    print(json.dumps(report))
"""


@pytest.mark.posix
@pytest.mark.parametrize("kill_at", [1, 5, 8])
def test_a_killed_parent_continues_with_its_children(tmp_path: Path, kill_at: int) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    paths = [str(Path(clew.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    kills, report = 0, dict[str, Any]()
    for _ in range(12):
        done = subprocess.run(
            [sys.executable, str(program), str(tmp_path), str(kill_at)],
            capture_output=True,
            text=True,
            env=environment,
            check=False,
            timeout=120,
        )
        if done.returncode == -signal.SIGKILL:
            kills += 1
            continue
        assert done.returncode == 0, done.stderr
        report = json.loads(done.stdout)
        if report["status"] == "completed":
            break
    assert kills == 1
    assert report == {
        "status": "completed",
        "questions": 0,
        "values": [
            ["second-first-0:yes", "failed second-first-1", "second-first-2:yes"],
            ["second-first-100", "second-first-101"],
        ],
        "ok": True,
        "children": ["completed", "failed"],
    }
    effects = Counter((tmp_path / "effects").read_text().split())
    assert len(effects) == 10
    assert max(effects.values()) <= 2  # a call in flight at the kill may be repeated
