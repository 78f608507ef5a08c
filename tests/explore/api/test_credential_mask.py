"""Credentials in reports: none is shown, wherever it occurs, and what is no credential stays."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clew.explore import ServiceExplorationResult, explore_api
from clew.explore.api.credential_mask import CredentialMask, holds_credential
from clew.explore.systems.http.session import ActorCredentials
from clew.views.checks import exploration_document

pytest.importorskip("fastapi", reason="the services of these tests use FastAPI")

from tests.explore.api.blog_service import blog
from tests.explore.api.library_service import DOCUMENT, library
from tests.explore.api.shelves_service import SCHEMES, login_of, shelves

REPORTS = ("found.json", "found.html", "found.xml", "found.md", "found.dot")


def exported(result: ServiceExplorationResult, folder: Path) -> dict[str, str]:
    """Return everything that people may see of a result, by its name."""
    for name in REPORTS:
        result.save(folder / name)
    files = [*(folder / name for name in REPORTS), *result.save_reproductions(folder / "scripts")]
    page = exploration_document("a service", result)
    return {
        "text": str(result),
        "notebook": result._repr_html_(),
        "JSON": json.dumps(result.to_dict(), ensure_ascii=False),
        "page": json.dumps(page, ensure_ascii=False),
    } | {file.name: file.read_text("utf-8") for file in files}


@pytest.fixture
def tokens(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """All tokens that a service gives out."""
    given: set[str] = set()

    def recorded(make: Callable[[int], str]) -> Callable[[int], str]:
        def made(size: int) -> str:
            token = make(size)
            given.add(token)
            return token

        return made

    for name in ("token_hex", "token_urlsafe"):
        monkeypatch.setattr(secrets, name, recorded(getattr(secrets, name)))
    return given


def explored(app: Any, path: Path, **options: Any) -> ServiceExplorationResult:
    return explore_api(app, systems=path, max_requests=200, settle=0, progress=False, **options)


def test_tokens_of_users_that_sign_up_are_in_no_report(tmp_path: Path, tokens: set[str]) -> None:
    path = tmp_path / "blog.db"
    result = explored(blog(str(path), "any_actor", "token"), path)
    texts = exported(result, tmp_path)
    assert tokens
    for name, text in texts.items():
        assert not [each for each in tokens if each in text], name
    found = json.loads(texts["found.json"])
    rows = [row for state in found["states"] for row in state["data"]["db"]["users"]]
    assert {row["name"] for row in rows} >= {"username100"}
    assert all(row["password"].startswith("***") for row in rows)
    assert "***1" in texts["found.md"]
    assert "Secret-pass1" in texts["test_found.py"]  # the script signs up by itself


@pytest.mark.parametrize("scheme", SCHEMES)
def test_credentials_that_a_user_gave_are_in_no_report_and_no_script(tmp_path: Path, scheme: str) -> None:
    path = tmp_path / "shelves.db"
    logins = [login_of(scheme, name) for name in ("ann", "ben")]
    result = explored(shelves(str(path), "anybody", scheme=scheme), path, login=logins)
    assert result.reproductions
    for name, text in exported(result, tmp_path).items():
        for secret in ("key-of", ":secret", "'secret'", "YW5uOnNlY3JldA", "YmVuOnNlY3JldA"):
            assert secret not in text, (name, secret)


def test_cookies_and_passwords_are_in_no_report_and_no_script(tmp_path: Path, tokens: set[str]) -> None:
    path = tmp_path / "library.db"
    logins = ["ann:secret", "ben:secret"]
    result = explored(library(str(path), late=True), path, openapi=DOCUMENT, login=logins)
    assert result.reproductions
    assert tokens
    for name, text in exported(result, tmp_path).items():
        assert "secret" not in text, name
        assert not [each for each in tokens if each in text], name


@pytest.mark.parametrize(
    "name",
    [
        *("password", "hashed_password", "password_hash", "passwordHash", "userPassword", "pwd"),
        *("access_token", "refreshToken", "token", "tokens", "Authorization", "Set-Cookie", "api_key"),
        *("apiKey", "X-API-Key", "client_secret", "jwt"),
    ],
)
def test_names_of_credentials(name: str) -> None:
    assert holds_credential(name)


@pytest.mark.parametrize(
    "name", ["token_type", "password_changed_at", "passenger", "compass", "bypass", "key", "is_token_valid"]
)
def test_names_of_what_is_no_credential(name: str) -> None:
    assert not holds_credential(name)


def mask() -> CredentialMask:
    found = CredentialMask(["alice-wonder"])
    found.add_given("p a$$: word", "alice-wonder", "short")
    found.add(ActorCredentials((("Authorization", "Bearer abc.def-=="),), (), (("sid", "c00kie"),)))
    return found


def test_equal_credentials_are_masked_alike() -> None:
    found = mask().data({"token": "one", "rows": [{"password": "two"}, {"token": "one"}]})
    assert found == {"token": "***1", "rows": [{"password": "***2"}, {"token": "***1"}]}


@pytest.mark.parametrize(
    "text, masked",
    [
        ("Bearer abc.def-==", "Bearer ***1"),
        ("sid=c00kie; Path=/", "sid=***1; Path=/"),
        ("GET /reset/c00kie answered 500", "GET /reset/***1 answered 500"),
        ("no user with 'p a$$: word'", "no user with '***1'"),
        ("alice-wonder is short, c00kies too", "alice-wonder is short, c00kies too"),
    ],
)
def test_a_credential_is_masked_inside_a_text(text: str, masked: str) -> None:
    assert mask().text(text) == masked


def test_only_texts_are_masked_by_their_name() -> None:
    value = {"tokens": 5, "password": None, "secret": "", "cookies": [{"name": "chocolate"}]}
    assert mask().data(value) == value


def test_bytes_are_masked_by_their_name() -> None:
    assert mask().data({"salt": {"$bytes": "AAEC"}}) == {"salt": {"$bytes": "***1"}}
