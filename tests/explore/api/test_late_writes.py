"""A running service that commits after its response: its writes are seen, and only real violations are reported."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from clew.explore import explore_api
from clew.explore.api import late_writes
from clew.explore.api.reproductions import Reproduction
from clew.explore.systems import SQLiteSystem

pytest.importorskip("fastapi", reason="the service of these tests uses FastAPI")
pytest.importorskip("httpx", reason="a client for the scripts")
pytest.importorskip("uvicorn", reason="only a running service answers before it commits")

import httpx

from tests.explore.api.late_service import notes
from tests.explore.api.test_reproductions import TOOLS, run_tests, serving

PAUSE = 1.0  # seconds after a write in a script


class Events:
    """Counts what happens. `wait` returns when it has happened once more."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._count = 0

    def add(self) -> None:
        with self._changed:
            self._count += 1
            self._changed.notify_all()

    def wait(self) -> None:
        with self._changed:
            seen = self._count
            self._changed.wait_for(lambda: self._count > seen, timeout=1)


@pytest.mark.parametrize("broken", [False, True])
def test_a_commit_that_waits_until_the_database_was_observed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: bool
) -> None:
    monkeypatch.setattr(late_writes, "FIRST", 2.0)  # a busy machine may need more time
    monkeypatch.setattr(late_writes, "UNSHOWN", 1.0 if broken else 30.0)
    monkeypatch.setattr(late_writes, "CERTAIN", 0.2 if broken else 30.0)
    path = tmp_path / "notes.db"
    observed = Events()
    app = notes(str(path), observed.wait, broken=broken, secured=True)
    with SQLiteSystem(path, rows_shown=100) as system, serving(app) as url:
        observe = system.observe
        monkeypatch.setattr(system, "observe", lambda: (observe(), observed.add())[0])
        result = explore_api(url=url, systems=system, max_requests=250, settle=0, progress=False)
    names = ["deleted, but still there: DELETE /notes/{note_id}"] if broken else []
    assert [each.name for each in result.violations] == names
    assert all(each.confirmed for each in result.violations)
    (note,) = [each for each in result.service.notes if "before it commits" in each]
    assert "POST /notes" in note
    assert "POST /notes/{note_id}/copies" in note  # a background task writes a part
    assert result.service.never_succeeded == ()
    for each in result.reproductions:
        check_scripts(msgspec.structs.replace(each, pause=PAUSE), tmp_path)


def wait(seconds: float) -> None:
    threading.Event().wait(seconds)


def check_scripts(found: Reproduction, tmp_path: Path) -> None:
    """Run the scripts on services that commit late: they show the violation, and pass on the correct service."""
    script = tmp_path / "found.sh"
    script.write_text(found.curl())
    for broken in (True, False):
        path = tmp_path / f"fresh {broken}.db"
        app = notes(str(path), lambda: wait(PAUSE / 10), broken=broken, secured=True)
        with serving(app) as url:
            with httpx.Client(base_url=url) as client:
                assert run_tests(found.pytest(), client, path) == [not broken], found.pytest()
            if TOOLS:
                done = subprocess.run(["sh", script, url], capture_output=True, text=True)
                assert done.returncode == int(broken), (found.curl(), done)


def test_a_commit_that_waits_until_a_read_was_answered(tmp_path: Path) -> None:
    answered = Events()
    app = notes(str(tmp_path / "notes.db"), answered.wait)

    @app.middleware("http")
    async def count(request: Any, call_next: Any) -> Any:
        response = await call_next(request)
        if request.method == "GET":
            answered.add()
        return response

    with serving(app) as url:
        result = explore_api(url=url, allow_stale=True, max_requests=80, settle=0, progress=False)
    assert [each.name for each in result.violations] == []
