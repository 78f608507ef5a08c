"""Services in other styles: tokens that are not stored, sessions in cookies, data that belongs to everybody."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from clew.explore import ServiceExplorationResult, Severity, explore_api

pytest.importorskip("fastapi", reason="the services of these tests use FastAPI and Starlette")

from clew.explore.api.signed_in_states import SignedInStates
from tests.explore.api.accounts_service import accounts
from tests.explore.api.library_service import DOCUMENT, library
from tests.explore.api.tasks_service import tasks


def found(result: ServiceExplorationResult) -> dict[str, tuple[Severity, int]]:
    return {each.name.split(" (")[0]: (each.severity, len(each.path)) for each in result.violations}


@pytest.mark.parametrize("open_patch", [False, True])
def test_tokens_of_users_that_sign_up_are_valid_only_where_they_exist(
    tmp_path: Path, open_patch: bool
) -> None:
    path = str(tmp_path / "tasks.db")
    app = tasks(path, open_patch=open_patch)
    result = explore_api(app, systems=path, max_requests=250, settle=0, progress=False)
    assert "Bearer" not in str(result)  # credentials stay off the terminal
    planted = {"resource of another actor: PATCH /tasks/{task_id}": (Severity.CRITICAL, 3)}
    assert found(result) == (planted if open_patch else {})
    assert all(each.confirmed for each in result.violations)
    assert result.service.never_succeeded == ()
    assert result.service.actors == ("alice", "bob")
    assert not any("login" in note for note in result.service.notes)
    for each in result.reproductions:
        assert (
            "'priority': 1" in each.pytest()
        )  # a number that is equal to an id is not taken from a response


@pytest.mark.parametrize("late", [False, True])
def test_data_of_everybody_and_sessions_in_cookies(tmp_path: Path, late: bool) -> None:
    path = str(tmp_path / "library.db")
    result = explore_api(
        library(path, late=late),
        openapi=DOCUMENT,
        systems=path,
        login=["ann:secret", "ben:secret"],
        max_requests=250,
        settle=0,
        progress=False,
    )
    planted = {
        "server error: POST /loans": (Severity.HIGH, 3),
        "rejected, yet written: POST /loans": (Severity.HIGH, 3),
    }
    assert found(result) == (planted if late else {})
    assert all(each.confirmed for each in result.violations)
    assert result.service.never_succeeded == ()  # a loan names a book by its isbn
    shared = [note for note in result.service.notes if "PUT /books/{isbn}" in note]
    assert len(shared) == 1
    assert not any("DELETE /loans/{id}" in note for note in shared)  # a loan belongs to its reader
    assert result.service.volatile == ("sessions.id",)


def test_the_log_of_the_application_stays_off_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, handler = logging.getLogger("library"), logging.StreamHandler()
    log.addHandler(handler)
    try:
        path = str(tmp_path / "library.db")
        result = explore_api(
            library(path, late=True),
            openapi=DOCUMENT,
            systems=path,
            login="ann:secret",
            max_requests=600,
            settle=0,
            progress=False,
        )
        assert any("IntegrityError" in each.name for each in result.violations)
        assert capsys.readouterr().err == ""
        log.error("after it")
        assert capsys.readouterr().err == "after it\n"
    finally:
        log.removeHandler(handler)


def test_a_login_by_http_basic_gives_out_tokens(tmp_path: Path) -> None:
    path = str(tmp_path / "accounts.db")
    result = explore_api(accounts(path), systems=path, max_requests=600, settle=0, progress=False)
    assert found(result) == {}
    assert result.service.never_succeeded == ()
    assert result.service.actors == ("alice", "bob")
    assert not any("login" in note for note in result.service.notes)


def test_an_actor_signs_up_once_in_a_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def hashed(name: str) -> int:
        path = str(tmp_path / name)
        app = accounts(path)
        skip = ["POST /tokens"]
        explore_api(app, systems=path, max_requests=600, settle=0, skip=skip, progress=False)
        return int(app.state.hashed)

    once = hashed("once.db")
    monkeypatch.setattr(SignedInStates, "restore", lambda *_: False)
    assert once < hashed("each call.db")


def test_actors_that_cannot_get_credentials_are_named(tmp_path: Path) -> None:
    path = str(tmp_path / "accounts.db")
    app = accounts(path, has_login=False)
    result = explore_api(app, systems=path, max_requests=200, settle=0, progress=False)
    assert "GET /notes" in result.service.never_succeeded
    assert [note for note in result.service.notes if "login of alice" in note]
