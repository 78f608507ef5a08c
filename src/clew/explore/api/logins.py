"""Actors: users of the service, and how they authenticate.

`--login` gives actors: `name:password` for a login operation or HTTP basic, or one word for an API key or a token.
A login operation takes a password in its body, or HTTP basic and gives out a token for all others.
Without it a sign-up operation creates them. The document says which operation is which: the token URL of an OAuth2
scheme, or a POST with a password whose path says so.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import msgspec

from clew.errors import DefinitionError
from clew.explore.api.openapi.document import ApiDocument, Operation
from clew.explore.api.openapi.values import PASSWORD, merged, value_of
from clew.explore.api.resources import scalars
from clew.explore.api.transports.messages import HttpResponse

NAMES = ("alice", "bob", "carol", "dave")
SIGN_UP_NUMBER = 100  # of the values of the first actor that signs up
_LOGIN = re.compile(r"/(log-?in|sign-?in|tokens?|sessions?|auth|authenticate|access-token|obtain)(/|$)", re.I)
_SIGN_OUT = re.compile(r"/(log|sign)-?(out|off)(-?all)?(/|$)|/revoke(/|$)", re.I)
_SIGN_UP = re.compile(
    r"/(sign-?up|register|registration|users?|accounts?|members?)(/(open|new|create))?/?$", re.I
)
_TOKENS = ("access_token", "accessToken", "token", "jwt", "auth_token", "id_token", "session_token", "key")


class Actor(msgspec.Struct, frozen=True):
    """A user of the service. `secret` is an API key or a token; `number` selects the values of a sign-up."""

    name: str
    username: str = ""
    password: str = ""
    secret: str = ""
    number: int | None = None


class LoginValue(msgspec.Struct, frozen=True):
    """A credential that a script takes from a variable, which holds what `--login` was given."""

    variable: str
    actor: str
    content: str  # of the variable, for a reader
    part: str = ""  # "password": what follows the name; "basic": all of it, for HTTP basic; "": all of it
    in_query: bool = False

    def python(self) -> str:
        """Return an expression."""
        whole = f"os.environ[{self.variable!r}]"
        if self.part == "password":
            return f"{whole}.partition(':')[2]"
        return f"b64encode({whole}.encode()).decode()" if self.part == "basic" else whole

    def shell(self) -> str:
        """Return an expansion, for double quotes."""
        if self.part == "basic":
            return f"$(printf %s \"${self.variable}\" | base64 | tr -d '\\n')"
        text = f"${{{self.variable}#*:}}" if self.part == "password" else f"${{{self.variable}}}"
        return f'$(printf %s "{text}" | jq -sRr @uri)' if self.in_query else text

    def shell_json(self) -> str:
        """Return an expansion to a JSON string, for double quotes."""
        return f'$(printf %s "{self.shell()}" | jq -sR .)'


class Authentication:
    """How actors sign in to a service."""

    def __init__(self, document: ApiDocument, logins: Iterable[str], actors: int) -> None:
        self.document = document
        self.login = _login_operation(document) or _basic_login_operation(document)
        self.logs_in_by_basic = self.login is not None and _takes_only_basic(document, self.login)
        self.sign_up = _sign_up_operation(document, self.login)
        self.schemes = _used_schemes(document)
        self.actors = [_given(login, number) for number, login in enumerate(logins)][: max(actors, 1)]
        self.given_values = _given_values(self.actors)
        if not self.actors and self.sign_up is not None and (self.login is not None or self.schemes):
            self.actors = [Actor(NAMES[n], number=SIGN_UP_NUMBER + n) for n in range(min(actors, len(NAMES)))]
        self._always = bool(self.actors) and not any(each.security for each in document.operations)

    def acts(self, operation: Operation) -> bool:
        """Return whether an operation is called with credentials: if it declares them, or no operation does."""
        return bool(self.actors) and (bool(operation.security) or self._always)

    def direct(self, actor: Actor) -> tuple[dict[str, str], dict[str, str], dict[str, str]] | None:
        """Return headers, query and cookies of an actor that needs no login operation; else None."""
        for scheme in self.schemes:
            kind, where, name = scheme.get("type"), scheme.get("in"), str(scheme.get("name", ""))
            if _is_basic(scheme) and actor.password and not self.logs_in_by_basic:
                return self.basic_header(actor, {}), {}, {}
            if kind == "apiKey" and actor.secret:
                parts: tuple[dict[str, str], dict[str, str], dict[str, str]] = ({}, {}, {})
                parts[("header", "query", "cookie").index(str(where))][name] = actor.secret
                return parts
        return ({"Authorization": f"Bearer {actor.secret}"}, {}, {}) if actor.secret else None

    def basic_header(self, actor: Actor, known: Mapping[str, Any]) -> dict[str, str]:
        """Return the header of HTTP basic; `known` are the fields with which the actor signed up."""
        username = self._filled("username", "", actor, known)
        pair = f"{username}:{self._filled('password', '', actor, known)}"
        return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}

    def login_body(self, actor: Actor, credentials: Mapping[str, Any]) -> dict[str, Any]:
        """Return the body of a login; `credentials` are the fields with which the actor signed up."""
        assert self.login is not None
        schema = self.login.body.schema if self.login.body else {}
        body = value_of(self.document, schema, 0, "required")
        if not isinstance(body, dict) or not body:
            body = {"username": "", "password": ""}
        return {name: self._filled(name, value, actor, credentials) for name, value in body.items()}

    def _filled(self, name: str, value: Any, actor: Actor, known: Mapping[str, Any]) -> Any:
        if isinstance(value, dict):
            return {key: self._filled(key, each, actor, known) for key, each in value.items()}
        low = name.lower()
        if name in known:
            return known[name]
        if "pass" in low:
            return actor.password or known.get("password") or PASSWORD
        if "mail" in low or "user" in low or "login" in low or low in ("name", "identifier"):
            return actor.username or known.get("email") or known.get("username") or known.get("name", "")
        return "password" if low == "grant_type" else value

    def credentials_of(self, response: HttpResponse) -> tuple[dict[str, str], dict[str, str]]:
        """Return the headers and the cookies that a login or a sign-up gave out."""
        found = scalars(response.json)
        token = next((str(found[name]) for name in _TOKENS if name in found), None)
        cookies = {name: value for name, value in response.cookies().items() if value is not None}
        headers = {}
        if token is not None:
            name, prefix = self._token_header(str(found.get("token_type", "")))
            headers[name] = f"{prefix} {token}" if prefix else token
        for name, value in cookies.items():
            if re.search("csrf|xsrf", name, re.I):
                headers["X-XSRF-TOKEN" if "xsrf" in name.lower() else "X-CSRFToken"] = value
        return headers, cookies

    def _token_header(self, token_type: str) -> tuple[str, str]:
        for scheme in self.schemes:
            if scheme.get("type") == "apiKey" and scheme.get("in") == "header":
                name, text = str(scheme["name"]), str(scheme.get("description", ""))
                if name.lower() != "authorization":
                    return name, ""
                return name, "Bearer" if "bearer" in (text + token_type).lower() else "Token"
        return "Authorization", "Bearer"

    def describe(self) -> str | None:
        """Return why checks between actors are off, or None."""
        if len(self.actors) >= 2:
            return None
        if self.actors:
            return "checks between actors are off: give --login a second time"
        if self.schemes:
            return "checks between actors are off: no --login, and no sign-up operation was found"
        return "checks between actors are off: the document declares no security, and there is no --login"


def _given(login: Any, number: int) -> Actor:
    if not isinstance(login, str) or not login:
        raise DefinitionError(f"login: expected name:password, an API key or a token, got {login!r}")
    username, found, password = login.partition(":")
    if not found:
        return Actor(NAMES[number % len(NAMES)], secret=login)
    return Actor(username, username=username, password=password)


def _given_values(actors: Iterable[Actor]) -> dict[str, list[LoginValue]]:
    """Return the credentials that a user gave, with what a script has instead. Actors may have the same password."""
    found: dict[str, list[LoginValue]] = {}
    for number, actor in enumerate(actors, 1):
        variable = f"CLEW_LOGIN_{number}"
        if actor.secret:
            content = f"the API key or token of {actor.name}"
            found.setdefault(actor.secret, []).append(LoginValue(variable, actor.name, content))
            continue
        content = f"{actor.username}:PASSWORD"
        pair = base64.b64encode(f"{actor.username}:{actor.password}".encode()).decode()
        for text, part in ((actor.password, "password"), (pair, "basic")):
            found.setdefault(text, []).append(LoginValue(variable, actor.name, content, part))
    return found


def _used_schemes(document: ApiDocument) -> list[Mapping[str, Any]]:
    used = {name for each in document.operations for alternative in each.security for name in alternative}
    return [scheme for name, scheme in document.schemes.items() if name in used or not used]


def signs_out(operation: str) -> bool:
    """Return whether the name of an operation says that it ends a session."""
    return bool(_SIGN_OUT.search(operation))


def has_password(document: ApiDocument, operation: Operation) -> bool:
    """Return whether the body of an operation has a password, at most one object deep."""
    return operation.body is not None and _names_password(document, operation.body.schema, 0)


def _names_password(document: ApiDocument, schema: Any, depth: int) -> bool:
    properties = merged(document, schema).get("properties") or {}
    return any(
        "password" in name.lower() or (depth < 1 and _names_password(document, part, depth + 1))
        for name, part in properties.items()
    )


def _token_operation(document: ApiDocument, posts: Sequence[Operation]) -> Operation | None:
    """Return the operation that a flow of a security scheme names."""
    flows = [flow for scheme in document.schemes.values() for flow in (scheme.get("flows") or {}).values()]
    urls = tuple(filter(None, (urlsplit(str(flow.get("tokenUrl", ""))).path.strip("/") for flow in flows)))
    return next((each for url in urls for each in posts if each.path.strip("/").endswith(url)), None)


def _login_operation(document: ApiDocument) -> Operation | None:
    posts = [each for each in document.operations if each.method == "post"]
    by_flow = _token_operation(document, posts)
    if by_flow is not None:
        return by_flow
    found = [
        each
        for each in posts
        if _LOGIN.search(each.path) and has_password(document, each) and "{" not in each.path
    ]
    return min(found, key=lambda each: len(each.path), default=None)


def _is_basic(scheme: Mapping[str, Any]) -> bool:
    return scheme.get("type") == "http" and str(scheme.get("scheme", "")).lower() == "basic"


def _takes_only_basic(document: ApiDocument, operation: Operation) -> bool:
    names = [name for alternative in operation.security for name in alternative]
    return bool(names) and all(_is_basic(document.schemes.get(name, {})) for name in names)


def _basic_login_operation(document: ApiDocument) -> Operation | None:
    """Return the operation that gives out a token for HTTP basic, if others take something else."""
    found = [
        each
        for each in document.operations
        if each.method == "post" and _LOGIN.search(each.path) and _takes_only_basic(document, each)
    ]
    others = [each for each in document.operations if each.security and each not in found]
    if all(_takes_only_basic(document, each) for each in others):
        return None
    return found[0] if found else None


def _sign_up_operation(document: ApiDocument, login: Operation | None) -> Operation | None:
    found = [
        each
        for each in document.operations
        if each.method == "post"
        and each is not login
        and not each.secured
        and "{" not in each.path
        and _SIGN_UP.search(each.path)
        and has_password(document, each)
    ]
    return found[0] if found else None
