"""An agent that plans by itself: each task may become smaller ones, as runs inside of runs, 60 levels deep.

The process is killed in the innermost task. Another one continues, and nothing that was paid for is paid again.
"""

from __future__ import annotations

import importlib.util
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from clew import Engine

DEPTH = 60
PLANNER = """
import os, signal, sys
from pathlib import Path

from clew import Context, Engine, Graph, node

BILL = Path(__file__).with_name("bill.txt")


def think(size):
    with BILL.open("a") as bill:
        bill.write(f"{size}\\n")
    return size - 1


@node(output="cost")
def solve(size, ctx: Context):
    rest = ctx.record("model", think, size)
    if rest == 0:
        if not ctx.interrupt("really?"):
            raise PermissionError("not allowed")
        if "die" in sys.argv:
            os.kill(os.getpid(), signal.SIGKILL)
        return 1
    return 1 + ctx.run(graph, {"size": rest}, key=f"size {rest}")["cost"]


graph = Graph([solve], name="planner")

if __name__ == "__main__":
    with Engine(graph, store="runs.db") as engine:
        engine.resume("r", answer=True)
"""


@pytest.fixture
def planner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The program, as a module of this process."""
    (tmp_path / "planner.py").write_text(PLANNER)
    spec = importlib.util.spec_from_file_location("planner", tmp_path / "planner.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "planner", module)
    spec.loader.exec_module(module)
    return module


@pytest.mark.posix
def test_a_killed_planner_continues_where_it_was(planner: ModuleType, tmp_path: Path) -> None:
    bill = tmp_path / "bill.txt"
    with Engine(planner.graph, store=tmp_path / "runs.db") as engine:
        waiting = engine.run({"size": DEPTH}, run_id="r")
        assert waiting.questions[0].path.count("!") == DEPTH - 1
    command = [sys.executable, "planner.py", "die"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=120, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    with Engine(planner.graph, store=tmp_path / "runs.db") as engine:
        assert engine.resume("r")["cost"] == DEPTH
        assert bill.read_text().split() == [str(size) for size in range(DEPTH, 0, -1)]
        assert engine.replay("r").ok
        refused = engine.fork("r", step=0, check=False)
        with pytest.raises(PermissionError):
            engine.resume(refused.run_id, answer=False)
