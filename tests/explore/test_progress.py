"""Live progress, shown only on a terminal."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from clew.explore import Agent
from clew.explore.progress import CalibrationProgress, ExplorationProgress, watching
from tests.explore.models import records

ROOT = Path(__file__).resolve().parents[2]


def test_the_line_shows_the_counts() -> None:
    board = ExplorationProgress()
    assert board.line() == "exploring"
    board.counts = {"states": 1200, "steps": 9000, "open": 31, "violations": 2}
    assert board.line().startswith("exploring: 1,200 states, 9,000 transitions (")
    assert "31 open, 2 violations" in board.line()


def test_counts_are_reported_while_the_exploration_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    world, actions = records(values=3)

    agent = Agent(world, actions, progress=False)
    monkeypatch.setattr("clew.explore.agent.watching", lambda show: nullcontext(seen.append))
    result = agent.explore()
    assert seen[0]["states"] == 1
    assert seen[-1] == {"states": 64, "steps": len(result.transitions), "open": 0, "violations": 0}


def test_without_a_terminal_it_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    stderr = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stderr)
    with watching(True) as watch:
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
        except OSError:  # Linux raises this when the last writer has closed
            pass
        out, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    assert out == b"2197\n"
    assert b"exploring" in shown


def test_calibration_shows_the_number_of_requests() -> None:
    (line,) = CalibrationProgress(lambda: 1234).lines()
    assert line[0][0].startswith("calibrating: 1,234 requests")
