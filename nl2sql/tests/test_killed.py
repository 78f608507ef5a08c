"""Killed in the middle and resumed: finished scans do not run again, and the answer is that of an unbroken run."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from clew import MemoryStore
from clew_nl2sql import Pipeline
from clew_nl2sql.sample_data import make_samples
from nl2sql.tests.killed import PLANS, pipeline
from nl2sql.tests.scripted import TOP_FIVE, Scripted
from tests.cli.command import until

ROOT = Path(__file__).resolve().parents[2]


def lines(file: Path) -> int:
    return len(file.read_text().splitlines()) if file.exists() else 0


def test_finished_scans_do_not_run_again(tmp_path: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-m", "nl2sql.tests.killed", str(tmp_path)],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
    )
    try:
        until(lambda: lines(tmp_path / "done") == 2 and (tmp_path / "started").exists(), seconds=300)
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
    with pipeline(tmp_path, hangs=False) as again:
        answer = again.resume("killed")
        assert answer.status == "answered"
        assert {name: lines(tmp_path / f"ran-{name}") for name in PLANS} == {
            "sales": 1,
            "support": 1,
            "erp": 2,
        }
        with Pipeline(
            make_samples(tmp_path / "other"), planner=Scripted(PLANS), store=MemoryStore()
        ) as whole:
            unbroken = whole.ask(TOP_FIVE)
        assert (answer.rows, answer.plan_hash, answer.content_hash) == (
            unbroken.rows,
            unbroken.plan_hash,
            unbroken.content_hash,
        )
        assert again.replay("killed").ok
