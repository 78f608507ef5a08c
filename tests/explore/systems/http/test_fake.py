"""HTTPFake, called over real HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from clew.errors import DefinitionError, EncodeError, UnknownCheckpointError
from clew.explore.model.system import System
from clew.explore.systems import HTTPFake


@pytest.fixture
def fake() -> Iterator[HTTPFake]:
    with HTTPFake({"charges": {}}) as made:

        @made.route("POST", "/charges/{id}")
        def charge(request: Any, state: dict[str, Any]) -> Any:
            if request.params["id"] in state["charges"]:
                return 409, {"error": "there is one"}
            state["charges"][request.params["id"]] = request.json()["amount"]
            return 201, {"id": request.params["id"]}, {"Location": request.path}

        @made.route("GET", "/charges")
        def charges(request: Any, state: dict[str, Any]) -> Any:
            return [key for key in state["charges"] if key.startswith(request.query.get("prefix", ""))]

        @made.route("DELETE", "/charges/{id}")
        def refund(request: Any, state: dict[str, Any]) -> None:
            state["charges"].pop(request.params["id"])

        yield made


@pytest.fixture
def client(fake: HTTPFake) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=fake.url, trust_env=False) as made:
        yield made


def test_routes_work_on_the_state(fake: HTTPFake, client: httpx.Client) -> None:
    made = client.post("/charges/a b", json={"amount": 5})
    assert (made.status_code, made.json(), made.headers["location"]) == (201, {"id": "a b"}, "/charges/a b")
    assert client.post("/charges/a b", json={"amount": 5}).status_code == 409
    assert client.get("/charges", params={"prefix": "a"}).json() == ["a b"]
    assert fake.state == {"charges": {"a b": 5}}
    assert client.delete("/charges/a b").status_code == 204
    assert client.get("/charges").json() == []


def test_what_no_route_answers(fake: HTTPFake, client: httpx.Client) -> None:
    assert client.get("/nothing").status_code == 404
    wrong = client.put("/charges")
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "GET")
    broken = client.delete("/charges/none")
    assert (broken.status_code, broken.json()) == (500, {"error": "KeyError: 'none'"})
    assert client.head("/charges").status_code == 405


@pytest.mark.parametrize(
    "returned, status, kind, body",
    [
        ("text 🧵", 200, "text/plain; charset=utf-8", "text 🧵".encode()),
        (b"\xff", 200, "application/octet-stream", b"\xff"),
        (None, 204, None, b""),
        ((202,), 202, None, b""),
        (
            (200, {"a": 1}, {"Content-Type": "application/problem+json"}),
            200,
            "application/problem+json",
            b'{"a":1}',
        ),
    ],
)
def test_what_a_route_may_return(returned: Any, status: int, kind: str | None, body: bytes) -> None:
    with HTTPFake(routes={"GET /": lambda request, state: returned}) as fake:
        answer = httpx.get(fake.url, trust_env=False)
    assert (answer.status_code, answer.headers.get("content-type"), answer.content) == (status, kind, body)


def test_requests_are_recorded(fake: HTTPFake, client: httpx.Client) -> None:
    token = fake.checkpoint("start")
    client.post("/charges/a", json={"amount": 5}, headers={"X-Key": "k"})
    (request,) = fake.requests
    assert (request.method, request.path, request.headers["x-key"], request.json()) == (
        "POST",
        "/charges/a",
        "k",
        {"amount": 5},
    )
    fake.rollback(token)
    assert fake.requests == ()


def test_any_checkpoint_is_restored_from_any_other(fake: HTTPFake, client: httpx.Client) -> None:
    assert isinstance(fake, System)
    held = fake.state
    found = [(fake.checkpoint("initial"), fake.observe())]
    for name in ("a", "b"):
        client.post(f"/charges/{name}", json={"amount": 1})
        found.append((fake.checkpoint("step"), fake.observe()))
    assert len({each.digest for _, each in found}) == 3
    for start, _ in found:
        for token, observation in found:
            fake.rollback(start)
            fake.rollback(token)
            assert fake.observe() == observation
    assert fake.state is held


def test_requests_do_not_count_for_the_state(fake: HTTPFake, client: httpx.Client) -> None:
    start = fake.observe()
    client.get("/charges")
    assert fake.observe().digest == start.digest
    assert fake.observe().data == start.data


def test_mistakes(fake: HTTPFake) -> None:
    with pytest.raises(DefinitionError, match="route: expected"):
        HTTPFake(routes={"/items": lambda request, state: None})
    with pytest.raises(EncodeError, match="state"):
        HTTPFake({"a": object()})
    with pytest.raises(UnknownCheckpointError, match="Checkpoint not found: 7"):
        fake.rollback(7)
    token = fake.checkpoint("a")
    fake.release(token)
    assert not fake.is_valid(token)
