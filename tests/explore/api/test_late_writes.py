"""A running service that commits after its response: its writes are seen, and only real violations are reported."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from clew.explore import explore_api
from clew.explore.api import late_writes
from clew.explore.api.reports.reproductions import Reproduction
from clew.explore.systems import PostgresSystem, SQLiteSystem

pytest.importorskip("fastapi", reason="the service of these tests uses FastAPI")
pytest.importorskip("httpx", reason="a client for the scripts")
pytest.importorskip("uvicorn", reason="only a running service answers before it commits")

import httpx

from tests.explore.api.late_service import notes
from tests.explore.api.reports.test_reproductions import TOOLS, run_script_at, run_tests, serving

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


@pytest.mark.parametrize("broken", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_commit_that_waits_until_the_database_was_observed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, kind: str, broken: bool
) -> None:
    monkeypatch.setattr(late_writes, "FIRST", 3.0)  # a busy machine may need more time
    monkeypatch.setattr(late_writes, "UNSHOWN", 1.0 if broken else 30.0)
    monkeypatch.setattr(late_writes, "CERTAIN", 0.2 if broken else 30.0)
    address = str(tmp_path / "notes.db") if kind == "sqlite" else request.getfixturevalue("database").dsn
    observed = Events()
    app = notes(address, observed.wait, broken=broken, secured=True)
    System: Any = SQLiteSystem if kind == "sqlite" else PostgresSystem
    with System(address, rows_shown=100) as system, serving(app) as url:
        observe = system.observe
        monkeypatch.setattr(system, "observe", lambda: (observe(), observed.add())[0])
        skip = (
            () if broken else ("PUT /notes/{note_id}",)
        )  # nothing tells when a second PUT has changed nothing
        options: dict[str, Any] = {"max_requests": 250, "settle": 0, "progress": False, "skip": skip}
        result = explore_api(url=url, systems=system, **options)
    names = ["deleted, but still there: DELETE", "PUT twice is not PUT once: PUT"] if broken else []
    assert [each.name for each in result.violations] == [f"{name} /notes/{{note_id}}" for name in names]
    assert all(each.confirmed for each in result.violations)
    (note,) = [each for each in result.service.notes if "before it commits" in each]
    assert "POST /notes" in note
    assert "POST /notes/{note_id}/copies" in note  # a background task writes a part
    assert set(result.service.never_succeeded) == set(skip)
    if broken:
        deleted, put = (msgspec.structs.replace(each, pause=PAUSE) for each in result.reproductions)
        check_on_late_services(tmp_path, lambda url, path: run_in_pytest(deleted, url, path))
        if TOOLS:
            script = tmp_path / "found.sh"
            script.write_text(put.curl())
            script.chmod(0o755)
            check_on_late_services(tmp_path, lambda url, path: run_script_at(url, script, path).returncode)


def check_on_late_services(tmp_path: Path, run: Callable[[str, Path], int]) -> None:
    """Check that a script shows the violation of a service that commits late, and none of a correct one."""
    for broken in (True, False):
        path = tmp_path / f"{id(run)} {broken}.db"
        app = notes(str(path), lambda: wait(PAUSE / 10), broken=broken, secured=True)
        with serving(app) as url:
            assert run(url, path) == int(broken)


def run_in_pytest(found: Reproduction, url: str, path: Path) -> int:
    with httpx.Client(base_url=url) as client:
        (passed,) = run_tests(found.pytest(), client, path)
    return int(not passed)


def wait(seconds: float) -> None:
    threading.Event().wait(seconds)


def test_a_commit_that_waits_until_a_read_was_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(late_writes, "PAUSES", (*late_writes.PAUSES, 5.0, 20.0))  # for a busy machine
    answered = Events()
    app = notes(str(tmp_path / "notes.db"), answered.wait)

    @app.middleware("http")
    async def count(request: Any, call_next: Any) -> Any:
        response = await call_next(request)
        if request.method == "GET":
            answered.add()
        return response

    with serving(app) as url:
        options: dict[str, Any] = {"max_requests": 80, "settle": 0, "progress": False}
        result = explore_api(url=url, allow_stale=True, skip=["PUT /notes/{note_id}"], **options)
    assert [each.name for each in result.violations] == []


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_running_service_on_another_event_loop(tmp_path: Path, loop: str) -> None:
    pytest.importorskip(loop, reason="uvloop does not run on Windows")
    path = tmp_path / "notes.db"
    app = notes(str(path), lambda: None, broken=True)
    loops: set[str] = set()

    @app.middleware("http")
    async def note_loop(request: Any, call_next: Any) -> Any:
        loops.add(type(asyncio.get_running_loop()).__module__.split(".")[0])
        return await call_next(request)

    with serving(app, loop) as url:
        result = explore_api(url=url, systems=path, max_requests=250, settle=0, progress=False)
    assert loops == {loop}
    # on a busy machine, a late commit may be taken for a write of the request after it
    found = {each.name for each in result.violations if each.confirmed}
    names = ["deleted, but still there: DELETE", "PUT twice is not PUT once: PUT"]
    assert {f"{name} /notes/{{note_id}}" for name in names} <= found
