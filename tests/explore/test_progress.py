"""Live progress: on a terminal, and nowhere else."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from clew.explore import Agent
from clew.explore.progress import ExplorationProgress, watching
from tests.explore.models import records

ROOT = Path(__file__).resolve().parents[2]


def test_the_line_says_how_far_it_is() -> None:
    board = ExplorationProgress()
    assert board.line() == "exploring"
    board({"states": 1200, "steps": 9000, "open": 31, "violations": 2})
    assert board.line().startswith("exploring: 1,200 states, 9,000 transitions (")
    assert "31 open, 2 violations" in board.line()


def test_it_is_told_while_the_exploration_runs() -> None:
    seen = []
    world, actions = records(values=3)

    class Watched(Agent):
        pass

    agent = Watched(world, actions, progress=False)
    real = agent._search
    agent._search = lambda repertoire, journal, watch: real(repertoire, journal, seen.append)  # type: ignore[method-assign]
    result = agent.explore()
    assert seen[0]["states"] == 1
    assert seen[-1] == {"states": 64, "steps": len(result.transitions), "open": 0, "violations": 0}


def test_without_a_terminal_it_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    stderr = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stderr)
    with watching(None) as watch:
        watch({"states": 1, "steps": 1, "open": 1, "violations": 0})
    assert stderr.getvalue() == ""


def test_without_rich_it_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich.console", None)
    with watching(True) as watch:
        watch({"states": 1, "steps": 1, "open": 1, "violations": 0})


def test_on_a_terminal_it_shows_and_leaves_nothing_behind_on_standard_output() -> None:
    program = (
        "from clew.explore import Agent\nfrom tests.explore.models import records\n"
        "print(len(Agent(*records(values=12)).explore().states))"
    )
    path = os.pathsep.join([str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    master, slave = pty.openpty()
    with os.fdopen(master, "rb", buffering=0) as terminal:
        process = subprocess.Popen(
            [sys.executable, "-c", program],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": path, "TERM": "xterm"},
            stdout=subprocess.PIPE,
            stderr=slave,
        )
        os.close(slave)
        shown = b""
        try:
            while piece := terminal.read(4096):
                shown += piece
        except OSError:  # Linux says so when the last writer is gone
            pass
        out, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    assert out == b"2197\n"
    assert b"exploring" in shown
