"""`HTTPSession`: what clients of a service hold between two requests, as a system.

A cookie or a token belongs to the state: after a rollback to a state before a login, the client must not send the
cookie of that login. The session therefore holds the credentials of each *actor* (a user of the service) and the
current actor. They are observed and rolled back with the databases.

With `HTTPSession(client)` the session also covers the cookies and the authorization header of a client: `httpx.Client`,
`requests.Session`, a test client of Starlette, FastAPI, Flask or Django.

A client whose cookie jar is not a part of the world sends the cookies of a state that was rolled back: the exploration
then misses states, and nothing else shows it. So `CookieWatch` warns about it.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping
from http.cookiejar import CookieJar
from http.cookies import BaseCookie
from typing import Any, Literal

import msgspec

from clew.errors import ExplorationWarning
from clew.explore.model.system import Observation
from clew.explore.systems.version_tokens import TokenSystem

_AUTHORIZATION = "Authorization"

Pairs = tuple[tuple[str, str], ...]


class ActorCredentials(msgspec.Struct, frozen=True):
    """What an actor sends with each request."""

    headers: Pairs = ()
    query: Pairs = ()
    cookies: Pairs = ()


class SessionContent(msgspec.Struct, frozen=True):
    """The content of a session: a version that checkpoints share."""

    actor: str | None = None
    credentials: tuple[tuple[str, ActorCredentials], ...] = ()
    jar: Any = None  # of the client
    authorization: str | None = None


class HTTPSession(TokenSystem[SessionContent]):
    """The credentials of actors, the current actor, and the cookies of a client.

    Args:
        client: A client whose cookies and authorization header are part of the session. [default: none]
    """

    ordering: Literal["any"] = "any"

    def __init__(self, client: Any = None) -> None:
        super().__init__()
        self.client = client
        self._now = SessionContent()

    # -- actors ---------------------------------------------------------------------------------------------

    @property
    def actor(self) -> str | None:
        """Return the current actor."""
        return self._now.actor

    @actor.setter
    def actor(self, name: str | None) -> None:
        self._now = msgspec.structs.replace(self._now, actor=name)

    def credentials(self, actor: str) -> ActorCredentials | None:
        """Return the credentials of an actor, or None if it has not signed in."""
        return dict(self._now.credentials).get(actor)

    def sign_in(
        self,
        actor: str,
        headers: Mapping[str, str] = {},
        query: Mapping[str, str] = {},
        cookies: Mapping[str, str] = {},
    ) -> None:
        """Store the credentials of an actor."""
        found = ActorCredentials(*(tuple(sorted(part.items())) for part in (headers, query, cookies)))
        self._store({**dict(self._now.credentials), actor: found})

    def receive_cookies(self, actor: str, cookies: Mapping[str, str | None]) -> None:
        """Add the cookies of a response; None deletes one."""
        before = self.credentials(actor) or ActorCredentials()
        merged: dict[str, str | None] = {**dict(before.cookies), **cookies}
        left = {name: value for name, value in merged.items() if value is not None}
        self.sign_in(actor, dict(before.headers), dict(before.query), left)

    def sign_out(self, actor: str) -> None:
        """Delete the credentials of an actor."""
        self._store({name: value for name, value in self._now.credentials if name != actor})

    def _store(self, credentials: Mapping[str, ActorCredentials]) -> None:
        self._now = msgspec.structs.replace(self._now, credentials=tuple(sorted(credentials.items())))

    # -- the system -----------------------------------------------------------------------------------------

    def observe(self) -> Observation:
        """Return the current actor, and the credentials and cookies by name."""
        now = self._now
        data: dict[str, Any] = {
            "actor": now.actor,
            "actors": {
                name: {"headers": dict(c.headers), "query": dict(c.query), "cookies": dict(c.cookies)}
                for name, c in now.credentials
            },
        }
        if self.client is not None:
            data["cookies"] = cookies_of(self.client)
            data["authorization"] = _authorization(self.client)
        return Observation("session", data)

    def checkpoint(self, name: str) -> int:
        """Return a token for the current content."""
        now = self._now
        if self.client is not None:
            now = msgspec.structs.replace(
                now, jar=_copied(jar_of(self.client)), authorization=_authorization(self.client)
            )
        return self._versions.keep(now)

    def rollback(self, token: int) -> None:
        """Restore the content of a token."""
        self._now = self._versions[token]
        if self.client is None:
            return
        _replace(jar_of(self.client), self._now.jar)
        headers = getattr(self.client, "headers", None)
        if headers is not None and _authorization(self.client) != self._now.authorization:
            if self._now.authorization is None:
                del headers[_AUTHORIZATION]
            else:
                headers[_AUTHORIZATION] = self._now.authorization


def jar_of(client: Any) -> CookieJar | BaseCookie[str] | dict[Any, Any] | None:
    """Return the cookie jar of a client, or None if it has none."""
    cookies = getattr(client, "cookies", None)
    cookies = getattr(cookies, "jar", cookies)
    if cookies is None:
        cookies = getattr(client, "_cookies", None)  # of Werkzeug: a dict of its own cookies
        return cookies if isinstance(cookies, dict) else None
    return cookies if isinstance(cookies, CookieJar | BaseCookie) else None


def cookies_of(client: Any) -> dict[str, str]:
    jar = jar_of(client)
    if jar is None:
        return {}
    if isinstance(jar, CookieJar):
        return {f"{each.domain}{each.path}{each.name}": each.value or "" for each in jar}
    return {str(name): str(getattr(each, "value", each)) for name, each in jar.items()}


def _authorization(client: Any) -> str | None:
    headers = getattr(client, "headers", None)
    found = headers.get(_AUTHORIZATION) if headers is not None and hasattr(headers, "get") else None
    return None if found is None else str(found)


def _copied(jar: Any) -> Any:
    if isinstance(jar, CookieJar):
        return [copy.copy(each) for each in jar]
    return None if jar is None else {name: copy.copy(each) for name, each in jar.items()}


def _replace(jar: Any, content: Any) -> None:
    if jar is None:
        return
    jar.clear()
    if isinstance(jar, CookieJar):
        for each in content or ():
            jar.set_cookie(copy.copy(each))
    else:
        for name, each in (content or {}).items():
            dict.__setitem__(jar, name, copy.copy(each))


class CookieWatch:
    """Compares the cookies of `world.api` with those at the start, and warns once."""

    def __init__(self, world: Any) -> None:
        self._api = world.api
        covered = any(
            isinstance(system, HTTPSession) and system.client is world.api
            for system in world.systems.values()
        )
        self._on = not covered and world.api is not None and jar_of(world.api) is not None
        self._before = cookies_of(self._api) if self._on else {}

    def check(self) -> None:
        """Warn if the cookies changed."""
        if self._on and cookies_of(self._api) != self._before:
            self._on = False
            warnings.warn(
                "the client in world.api received cookies, and no system rolls them back; add "
                'HTTPSession(client) to the systems: World(api=client, systems={"session": HTTPSession(client), ...})',
                ExplorationWarning,
                stacklevel=2,
            )
