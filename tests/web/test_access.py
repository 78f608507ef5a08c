"""Who may send which request: the rules as a table, and the same as requests of an attacker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from clew import SQLiteStore
from clew.web.access import AccessRules, host_name, is_loopback
from clew.web.server import create_app

GOOD = {"host": "localhost:8790", "clew-request": "1", "content-type": "application/json"}


def refused(
    method: str, path: str = "/api/runs/x/cancel", access: AccessRules | None = None, **headers: str
) -> Any:
    given = {**GOOD, **{name.replace("_", "-"): value for name, value in headers.items()}}
    found = (access or AccessRules()).refuse(method, path, {n: v for n, v in given.items() if v}, {})
    return None if found is None else (found.status, found.type)


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:8790", "127.0.0.1:1", "[::1]:8790", "LOCALHOST", "localhost."]
)
def test_loopback_hosts_are_accepted(host: str) -> None:
    assert refused("GET", host=host) is None


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "evil.example:8790", "localhost.evil.example", "127.0.0.1.evil.example", "",
        "localhost@evil.example", "evil.example#localhost", "localhost/..", "127.1", "0.0.0.0:8790", "[::2]:8790", "[",
    ],
)  # fmt: skip
def test_dns_rebinding_is_refused(host: str) -> None:
    """A name that an attacker points to 127.0.0.1 is not the name of this server."""
    for method, path in (("GET", "/"), ("GET", "/api/runs"), ("POST", "/api/runs/x/answer")):
        assert refused(method, path, host=host or " ") == (403, "WrongHost")


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://localhost:9999"},  # another program on this machine
        {"origin": "http://localhost.evil.example:8790"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"clew_request": ""},  # a form cannot send it
        {"content_type": "text/plain"},  # a form can send these three
        {"content_type": "application/x-www-form-urlencoded"},
        {"content_type": "multipart/form-data"},
    ],
)
def test_cross_site_changes_are_refused(headers: dict[str, str]) -> None:
    assert refused("POST", **headers) == (403, "CrossSite")


def test_the_page_itself_may_change_runs() -> None:
    assert refused("POST", origin="http://localhost:8790", sec_fetch_site="same-origin") is None
    assert refused("DELETE", content_type="") is None
    assert refused("POST", content_type="application/json; charset=utf-8") is None


def test_other_sites_cannot_read_the_api_but_can_link_to_the_page() -> None:
    assert refused("GET", "/api/runs", sec_fetch_site="cross-site") == (403, "CrossSite")
    assert refused("GET", "/api", sec_fetch_site="cross-site") == (403, "CrossSite")
    assert refused("GET", "/runs/x/answer/y", sec_fetch_site="cross-site") is None


def test_a_token_is_needed_by_every_request() -> None:
    access = AccessRules(["runs.example.org"], token="a-long-secret")
    place = {"host": "runs.example.org"}
    assert refused("GET", "/api/runs", access, **place) == (401, "TokenNeeded")
    assert refused("GET", "/static/main.js", access, **place) == (401, "TokenNeeded")
    assert refused("GET", "/api/runs", access, **place, authorization="Bearer a-long-secreT") == (
        401,
        "TokenNeeded",
    )
    assert refused("GET", "/api/runs", access, **place, authorization="Basic a-long-secret") == (
        401,
        "TokenNeeded",
    )
    assert refused("GET", "/api/runs", access, **place, authorization="Bearer a-long-secret") is None
    cookies = {"clew-token": access.cookie}
    assert access.refuse("GET", "/api/runs", {"host": "localhost"}, cookies) is None
    assert "a-long-secret" not in access.cookie


@pytest.mark.parametrize("method", ["POST", "DELETE", "PUT", "PATCH"])
def test_a_read_only_server_refuses_changes(method: str) -> None:
    assert refused(method, access=AccessRules(read_only=True)) == (403, "ReadOnly")
    assert refused("GET", "/api/runs", AccessRules(read_only=True)) is None


def test_addresses_of_this_machine() -> None:
    assert all(map(is_loopback, ("localhost", "127.0.0.1", "127.9.9.9", "::1", "[::1]")))
    assert not any(
        map(is_loopback, ("0.0.0.0", "::", "10.0.0.1", "example.org", "localhost.example.org", ""))
    )
    assert host_name("Example.ORG.:80") == "example.org"


# -- the same through the server ---------------------------------------------------------------------------------------


@pytest.fixture
def guarded(store: SQLiteStore) -> Iterator[TestClient]:
    app = create_app(store, token="a-long-secret", hosts=["runs.example.org"])
    with TestClient(app, base_url="http://runs.example.org", follow_redirects=False) as client:
        yield client


def test_the_address_with_the_token_sets_a_cookie_that_scripts_cannot_read(guarded: TestClient) -> None:
    assert guarded.get("/runs").status_code == 401
    wrong = guarded.get("/runs?token=guess")
    assert wrong.status_code == 401
    assert "set-cookie" not in wrong.headers
    found = guarded.get("/runs?q=x&token=a-long-secret")
    assert (found.status_code, found.headers["location"]) == (303, "/runs?q=x")
    cookie = found.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "a-long-secret" not in cookie
    assert guarded.get("/runs").status_code == 200
    assert guarded.get("/api/runs").status_code == 200


def test_the_redirection_stays_on_this_server(guarded: TestClient) -> None:
    for path in ("//evil.example/", "/\\evil.example/", "///evil.example"):
        found = guarded.get(f"http://runs.example.org{path}?token=a-long-secret")
        assert not found.headers.get("location", "/").startswith(("//", "/\\", "http"))


def test_every_answer_has_the_policy(client: TestClient) -> None:
    paths = (
        "/",
        "/runs/x?k=1",
        "/api/runs",
        "/api/nothing",
        "/static/nothing.js",
        "/api/runs/ticket-8841/values/3/plan?raw=1",
    )
    for path in paths:
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
    assert (
        "access-control-allow-origin"
        not in client.get("/api/runs", headers={"origin": "http://evil.example"}).headers
    )
    assert client.options("/api/runs").status_code in (403, 405)


def test_a_read_only_page_says_so(store: SQLiteStore, place: Path) -> None:
    with TestClient(create_app(store, read_only=True), base_url="http://localhost") as client:
        assert client.get("/api").json()["read_only"] is True
        verbs = client.get("/api/runs/ticket-8841").json()["verbs"]
        assert [verb["verb"] for verb in verbs if verb["enabled"]] == ["export"]
        headers = {"clew-request": "1", "content-type": "application/json"}
        answer = client.post("/api/runs/ticket-8841/answer", content="{}", headers=headers)
        assert (answer.status_code, answer.json()["error"]["type"]) == (403, "ReadOnly")
        assert client.delete("/api/runs/walk-77", headers=headers).status_code == 403
