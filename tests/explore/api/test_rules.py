"""Rules that the other planted bugs do not break, and users that need no login operation."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.explore import ServiceExplorationResult, Severity, explore_api

pytest.importorskip("fastapi", reason="the service of these tests uses FastAPI")

from tests.explore.api.shelves_service import SCHEMES, USERS, login_of, shelves


def explored(path: Path, *bugs: str, scheme: str = "key") -> ServiceExplorationResult:
    return explore_api(
        shelves(str(path), *bugs, scheme=scheme),
        systems=path,
        login=[login_of(scheme, name) for name in USERS],
        max_requests=250,
        settle=0,
        progress=False,
    )


@pytest.mark.parametrize(
    "bug, name, severity, steps",
    [
        ("missing", "created, but not there: POST /shelves", Severity.HIGH, 2),
        ("shape", "response does not match its schema: GET /shelves/{shelf_id}", Severity.MEDIUM, 2),
        ("unknown", "unknown id accepted: PATCH /shelves/{shelf_id}", Severity.MEDIUM, 1),
        ("open_read", "read without credentials: GET /shelves/{shelf_id}", Severity.MEDIUM, 2),
        ("seen", "time column touched by a read: shelves.seen_at", Severity.LOW, 2),
        ("anybody", "resource of another actor: DELETE /shelves/{shelf_id}", Severity.CRITICAL, 2),
    ],
)
def test_a_rule_and_its_severity(tmp_path: Path, bug: str, name: str, severity: Severity, steps: int) -> None:
    (found,) = explored(tmp_path / "shelves.db", bug).violations
    assert (found.name, found.severity, len(found.path)) == (name, severity, steps)
    assert found.confirmed


@pytest.mark.parametrize("scheme", SCHEMES)
def test_users_without_a_login_operation(tmp_path: Path, scheme: str) -> None:
    result = explored(tmp_path / "shelves.db", scheme=scheme)
    assert result.violations == []
    assert result.service.never_succeeded == ()
    assert len(result.service.actors) == 2
    counted = sum(result.service.undeclared.values())  # no violation: the document declares no 401 and no 404
    assert counted > 0
    (found,) = explored(tmp_path / "other.db", "anybody", scheme=scheme).violations
    assert found.severity is Severity.CRITICAL
