"""Real file systems that refuse to be written: one that is full, and one that may only be read."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.crash.test_disk import unbroken

OWN = ["unshare", "--user", "--map-root-user", "--mount"]


def may_mount() -> bool:
    if shutil.which("unshare") is None:
        return False
    done = subprocess.run([*OWN, "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True, check=False)
    return done.returncode == 0


pytestmark = pytest.mark.skipif(not may_mount(), reason="nothing may be mounted here; see test_disk")


def on_a_disk_of_its_own(case: str, folder: Path, place: str) -> dict[str, Any]:
    done = subprocess.run(
        [*OWN, sys.executable, "-m", "tests.crash.mounted", case, str(folder), place],
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert done.returncode == 0, done.stderr.decode()
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def effects(folder: Path) -> list[str]:
    return (folder / "effects").read_text().splitlines()


@pytest.mark.parametrize("place", ["before-append:1", "before-append:9", "after-call:5", "before-update:1"])
def test_a_disk_that_fills_up_under_a_run(tmp_path: Path, place: str) -> None:
    found = on_a_disk_of_its_own("full", tmp_path, place)
    kind, told = found["told"]
    assert (kind, found["free"], found["status"]) == ("StoreUnavailableError", 0, "running")
    assert "run 'killed'" in told
    assert "nothing is lost" in told
    assert (found["end"], found["digests"]) == ("completed", unbroken(tmp_path))
    lines = effects(tmp_path)
    assert len(lines) - len(set(lines)) <= 1  # the call in flight


@pytest.mark.parametrize("place", ["after-create:1", "after-append:9", "after-call:5"])
def test_a_disk_that_may_only_be_read_from_now_on(tmp_path: Path, place: str) -> None:
    found = on_a_disk_of_its_own("read-only", tmp_path, place)
    for kind, told in (found["told"], found["new"]):
        assert kind == "StoreUnavailableError"
        assert "is read-only" in told
    runs, step = found["seen"]
    assert runs == ["killed"]
    assert step < len(found["digests"]) - 1
    assert (found["end"], found["digests"]) == ("completed", unbroken(tmp_path))
    lines = effects(tmp_path)
    assert len(lines) - len(set(lines)) <= 1
