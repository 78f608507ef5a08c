"""A blog with planted bugs: each is found on a short path, and its correct twin shows nothing serious."""

from __future__ import annotations

import hashlib
import sqlite3
from pathlib import Path

import pytest

from clew.errors import RefusedServiceError
from clew.explore import ServiceExplorationResult, Severity, explore_api

pytest.importorskip("fastapi", reason="the services of these tests use FastAPI")

from tests.explore.api.blog_service import blog


def digest(path: Path) -> str:
    """The content of a SQLite database, without what an open journal adds to the file."""
    with sqlite3.connect(path) as connection:
        lines = [line for line in connection.iterdump() if "_clew_" not in line]
    connection.close()
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def explored(tmp_path: Path, *bugs: str, requests: int = 250, **options: object) -> ServiceExplorationResult:
    path = tmp_path / "blog.db"
    app = blog(str(path), *bugs)
    before = digest(path)
    try:
        return explore_api(
            app,
            systems=str(path),
            max_requests=requests,
            settle=0,
            progress=False,
            **options,
        )
    finally:
        assert digest(path) == before


def serious(result: ServiceExplorationResult) -> dict[str, tuple[Severity, int]]:
    return {
        each.name.split(" (")[0]: (each.severity, len(each.path))
        for each in result.violations
        if each.severity in (Severity.CRITICAL, Severity.HIGH)
    }


CRITICAL, HIGH = Severity.CRITICAL, Severity.HIGH
# bug: the violations, and the shortest path that shows each
PLANTED: dict[str, dict[str, tuple[Severity, int]]] = {
    "null": {"server error: POST /articles": (HIGH, 1)},
    "commit": {
        "server error: POST /articles": (HIGH, 1),
        "rejected, yet written: POST /articles": (HIGH, 1),
    },
    "former_slug": {"deleted, but still there: DELETE /articles/{slug}": (HIGH, 3)},
    "token": {"answers as another actor: GET /me": (CRITICAL, 2)},
    "open_write": {"write without credentials: POST /articles": (CRITICAL, 2)},
    "any_actor": {
        "resource of another actor: PUT /articles/{slug}": (CRITICAL, 2),
        "resource of another actor: DELETE /articles/{slug}": (CRITICAL, 2),
    },
    "still_there": {"deleted, but still there: DELETE /articles/{slug}": (HIGH, 2)},
}


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found_on_a_short_path(tmp_path: Path, bug: str) -> None:
    result = explored(tmp_path, bug)
    assert serious(result) == PLANTED[bug]
    assert all(each.confirmed for each in result.violations)
    assert len(result.reproductions) == len(result.violations)


def test_a_put_that_appends_is_found(tmp_path: Path) -> None:
    (found,) = explored(tmp_path, "append").violations
    assert (found.name, found.severity) == (
        "PUT twice is not PUT once: PUT /articles/{slug}",
        Severity.MEDIUM,
    )
    assert len(found.path) == 3  # the first PUT moves the article to another slug


def test_the_correct_service_shows_nothing(tmp_path: Path) -> None:
    result = explored(tmp_path, requests=1500)
    assert result.violations == []
    assert result.service.never_succeeded == ()
    assert result.service.actors == ("alice", "bob")
    assert result.service.volatile == ("sessions.token",)
    assert set(result.service.times) == {"articles.updated_at", "sessions.created_at"}
    printed = [line.split(":")[0] for line in str(result).split("\n")]
    assert {"never answered 2xx", "left open", "volatile"} <= set(printed)


def test_a_service_with_a_cache_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(RefusedServiceError) as refused:
        explored(tmp_path, "cache")
    assert "GET /articles" in str(refused.value)
    assert "POST /articles [#0]" in str(refused.value)


def test_a_service_with_a_cache_can_be_explored_nevertheless(tmp_path: Path) -> None:
    result = explored(tmp_path, "cache", requests=500, allow_stale=True)
    assert result.service.stale


def test_a_service_with_a_rate_limit_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(RefusedServiceError) as refused:
        explored(tmp_path, "rate_limit")
    assert "429" in str(refused.value)
    assert "/articles" in str(refused.value)


def test_writes_that_do_not_show_in_the_database_are_refused(tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    sqlite3.connect(other).execute("CREATE TABLE t (x)").connection.close()
    with pytest.raises(RefusedServiceError) as refused:
        explore_api(
            blog(str(tmp_path / "blog.db")), systems=str(other), max_requests=300, settle=0, progress=False
        )
    assert "--allow-stale" in str(refused.value) or "--db" in str(refused.value)


def test_serial_numbers_and_uuids_give_the_same_states(tmp_path: Path) -> None:
    skip = ["PUT /articles/{slug}", "POST /login"]
    counts = []
    for kind in ("serial", "uuid"):
        (tmp_path / kind).mkdir()
        result = explored(tmp_path / kind, kind, requests=20_000, resources=1, actors=1, skip=skip)
        assert not result.truncated
        counts.append((len(result.states), len(result.transitions)))
    assert counts[0] == counts[1]
