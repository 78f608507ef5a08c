"""Services that nobody prepared: each planted bug is found, and a correct service has none that is severe."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from clew.explore import ServiceExplorationResult, Severity, explore_api

pytest.importorskip("flask", reason="the service of these tests uses Flask")

from tests.foreign.journal_service import journal
from tests.foreign.rooms_service import DOCUMENT, rooms


def explored(path: Path, *bugs: str) -> ServiceExplorationResult:
    return explore_api(
        journal(str(path), *bugs),
        systems=path,
        login=["ann:secret1", "ben:secret2"],
        max_requests=700,
        settle=0,
        progress=False,
    )


def content(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return list(connection.iterdump())


def test_a_correct_service_with_sessions_and_csrf(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    journal(str(path))
    before = content(path)
    result = explored(path)
    assert [each.name for each in result.violations] == []
    assert result.service.never_succeeded == ()
    assert content(path) == before


@pytest.mark.parametrize(
    "bug, name, severity, steps",
    [
        ("duplicate", "server error: POST /posts", Severity.HIGH, 2),
        ("views", "read that writes: GET /posts/{slug}", Severity.HIGH, 2),
        ("anybody", "resource of another actor: DELETE /posts/{slug}", Severity.CRITICAL, 2),
        ("orphans", "server error: DELETE /posts/{slug}", Severity.HIGH, 3),
        ("huge", "server error: DELETE /posts/{slug}/comments/{comment_id}", Severity.HIGH, 2),
        ("anonymous", "write without credentials: POST /posts/{slug}/comments", Severity.CRITICAL, 2),
    ],
)
def test_a_planted_bug_is_found(tmp_path: Path, bug: str, name: str, severity: Severity, steps: int) -> None:
    result = explored(tmp_path / "journal.db", bug)
    (found,) = result.violations
    assert found.name.split(" (")[0] == name
    assert (found.severity, len(found.path), found.confirmed) == (severity, steps, True)


def booked(path: Path, *bugs: str) -> ServiceExplorationResult:
    return explore_api(
        rooms(str(path), *bugs),
        openapi=DOCUMENT,
        systems=path,
        login=["alice:secret", "bob:secret"],
        max_requests=300,
        settle=0,
        progress=False,
    )


def test_a_correct_service_with_signed_cookies_and_a_logout(tmp_path: Path) -> None:
    path = tmp_path / "rooms.db"
    rooms(str(path))
    before = content(path)
    result = booked(path)
    assert [each.name for each in result.violations] == []
    assert result.service.never_succeeded == ()
    assert content(path) == before


@pytest.mark.parametrize(
    "bug, name, severity, steps",
    [
        ("open", "write without credentials: POST /bookings", Severity.CRITICAL, 2),
        ("orphans", "server error: GET /bookings", Severity.HIGH, 3),
        ("receipts", "rejected, yet written: POST /bookings/{booking_id}/confirm", Severity.HIGH, 4),
    ],
)
def test_a_bug_that_needs_some_steps_is_found(
    tmp_path: Path, bug: str, name: str, severity: Severity, steps: int
) -> None:
    (found,) = booked(tmp_path / "rooms.db", bug).violations
    assert found.name.split(" (")[0] == name
    assert (found.severity, len(found.path), found.confirmed) == (severity, steps, True)
