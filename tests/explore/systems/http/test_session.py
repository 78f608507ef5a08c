"""`HTTPSession`: credentials and cookies are rolled back, and a client without it is noticed."""

from __future__ import annotations

import warnings
from http.cookies import SimpleCookie
from typing import Any

import httpx
import pytest

from clew.errors import ExplorationWarning
from clew.explore import Action, Agent, World
from clew.explore.systems import HTTPSession


def test_credentials_of_actors_are_rolled_back() -> None:
    session = HTTPSession()
    start = session.checkpoint("start")
    session.sign_in("alice", {"Authorization": "Bearer 1"}, cookies={"sid": "x"})
    session.actor = "alice"
    shown = session.observe().data
    assert shown["actors"]["alice"]["headers"] == {"Authorization": "Bearer 1"}
    later = session.checkpoint("later")
    session.receive_cookies("alice", {"sid": None, "csrf": "y"})
    found = session.credentials("alice")
    assert found is not None
    assert found.cookies == (("csrf", "y"),)
    session.rollback(later)
    assert session.observe().data == shown
    session.sign_out("alice")
    assert session.credentials("alice") is None
    session.rollback(start)
    assert session.actor is None
    assert session.observe().data["actors"] == {}
    session.release(start)
    assert not session.is_valid(start)


def test_cookies_and_the_authorization_of_a_client_are_rolled_back() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(
            200, headers={"set-cookie": "sid=1; Path=/"}, text=request.headers.get("cookie", "")
        )

    with httpx.Client(transport=httpx.MockTransport(answer), base_url="http://testserver") as client:
        session = HTTPSession(client)
        empty = session.checkpoint("empty")
        client.get("/")
        client.headers["Authorization"] = "Bearer 1"
        signed_in = session.checkpoint("signed in")
        session.rollback(empty)
        assert client.get("/").text == ""
        assert "Authorization" not in client.headers
        session.rollback(signed_in)
        assert client.get("/").text == "sid=1"
        assert client.headers["Authorization"] == "Bearer 1"


class Shop:
    """A client in the style of Django's: its cookies are a SimpleCookie. A basket is possible after a login."""

    def __init__(self) -> None:
        self.cookies = SimpleCookie()

    def login(self) -> None:
        self.cookies["sid"] = "1"

    def logout(self) -> None:
        self.cookies.pop("sid", None)


def actions() -> list[Action]:
    def signed_in(world: World) -> bool:
        return "sid" in world.api.cookies

    def basket(world: World) -> None:
        world.context.set("basket", signed_in(world))

    return [
        Action("login", lambda world: world.api.login()),
        Action("logout", lambda world: world.api.logout()),
        Action("basket", basket),
    ]


def explored(**systems: Any) -> int:
    api = systems.pop("api")
    return len(Agent(World(api=api, systems=systems), actions(), progress=False).explore().states)


def test_an_exploration_with_the_session_finds_every_state() -> None:
    shop = Shop()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert explored(api=shop, session=HTTPSession(shop)) == 6


def test_an_exploration_without_the_session_warns() -> None:
    with pytest.warns(ExplorationWarning, match="HTTPSession"):
        assert explored(api=Shop()) < 6


def test_a_client_that_receives_no_cookies_needs_no_session() -> None:
    with httpx.Client() as client, warnings.catch_warnings():
        warnings.simplefilter("error")
        world = World(api=client)
        Agent(world, [Action("wait", lambda world: world.context.set("n", 1))], progress=False).explore()
