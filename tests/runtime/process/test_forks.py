"""A node forks its process, and lets the child return: only the parent continues the run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from clew import Engine

PROGRAM = """
import os, sys

from clew import Engine, Graph, node
from clew.errors import RunOwnedError

kind, end, durability = sys.argv[1:]
parent = os.getpid()


def fork(x):
    if (child := os.fork()) == 0:
        if end == "exit":
            sys.exit(7)
        if end == "raise":
            raise ValueError("in the child")
        return object() if end == "unstorable" else "child"
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


async def fork_on_loop(x):
    return fork(x)


@node(output="told")
def tell(code):
    with open("told.txt", "a") as told:
        told.write(f"{code}\\n")


nodes = {
    "inline": node(fork, output="code"),
    "loop": node(fork_on_loop, output="code"),
    "thread": node(fork, output="code", timeout=60),
}
with Engine(Graph([nodes[kind], tell]), store="runs.db", durability=durability) as engine:
    try:
        engine.run({"x": 1}, run_id="r")
    except RunOwnedError:
        assert os.getpid() != parent
        os._exit(9)
    assert os.getpid() == parent
"""


@pytest.mark.parametrize(
    "kind, end, durability, code",
    [
        ("inline", "return", "sync", 9),
        ("inline", "return", "async", 9),
        ("inline", "raise", "sync", 9),
        ("inline", "unstorable", "sync", 9),
        ("inline", "exit", "sync", 7),
        ("loop", "return", "async", 1),
        ("loop", "exit", "async", 7),
        ("thread", "return", "sync", 1),
        ("thread", "exit", "sync", 7),
    ],
)
@pytest.mark.posix
def test_only_the_parent_continues(tmp_path: Path, kind: str, end: str, durability: str, code: int) -> None:
    command = [sys.executable, "-c", PROGRAM, kind, end, durability]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert ("RunOwnedError" in done.stderr) == (code == 1)
    assert (tmp_path / "told.txt").read_text() == f"{code}\n"
    with Engine(store=tmp_path / "runs.db") as engine:
        result = engine.result("r")
        assert (result.status, result["code"]) == ("completed", code)


LATER = """
import asyncio, os

from clew import Engine, Graph


async def double(x):
    return 2 * x


with Engine(Graph([double]), store="runs.db") as engine:
    asyncio.run(engine.arun({"x": 1}))
    child = os.fork()
    assert asyncio.run(engine.arun({"x": 2}))["double"] == 4
    if child == 0:
        os._exit(8)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 8
"""


@pytest.mark.posix
def test_runs_that_a_fork_starts_are_its_own(tmp_path: Path) -> None:
    """An engine that has waited for its store on threads does so in a fork as well."""
    command = [sys.executable, "-c", LATER]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    with Engine(store=tmp_path / "runs.db") as engine:
        assert [row.status for row in engine.runs()] == ["completed"] * 3
