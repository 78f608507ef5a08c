"""Every pattern, and the example of clew-nl2sql, runs by itself, in an empty folder, and exits with 0."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


SCRIPTS = [*sorted(ROOT.glob("examples/patterns/*.py")), ROOT / "nl2sql/examples/ask_across_databases.py"]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_example(script: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
