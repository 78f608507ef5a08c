"""Where the values of a script come from: ids, tokens and cookies that an earlier response gave out.

A script runs on another database, where ids differ. So it takes each from the response that gave it out. Small numbers
are equal by chance: the first user, the first room and the first booking all have the id 1. The *noun* of a value tells
them apart: `/rooms/1` and `room_id` mean what `POST /rooms` answered.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote_plus

import msgspec

from clew.explore.api.credential_mask import holds_credential
from clew.explore.api.logins import LoginValue
from clew.explore.api.openapi.links import noun_of, noun_of_path
from clew.explore.api.resources import scalars
from clew.explore.api.sending import SentRequest
from clew.explore.api.transports.messages import NOT_JSON, HttpRequest, HttpResponse

_SHORTEST = 4  # characters of a text that may be a reference to an earlier response
_HEADERS = ("Content-Type", "Accept")


class ValueOrigin(msgspec.Struct, frozen=True):
    """Where a value comes from: a part of the JSON of a response, or a cookie."""

    number: int  # of the response
    path: tuple[Any, ...] = ()
    cookie: str = ""
    nouns: frozenset[str] = frozenset()  # of what it is

    def python(self) -> str:
        """Return an expression."""
        if self.cookie:
            return f"r{self.number}.cookies[{self.cookie!r}]"
        return f"r{self.number}.json()" + "".join(f"[{each!r}]" for each in self.path)

    def shell(self) -> str:
        """Return a command substitution."""
        if self.cookie:
            name = re.sub(r"([.*^$/\[\]\\])", r"\\\1", self.cookie)
            pattern = f"s/^[Ss]et-[Cc]ookie: *{name}=\\([^;]*\\).*/\\1/p"
            return f"$(sed -n '{pattern}' \"$DIR/{self.number}\" | tr -d '\\r' | tail -n 1)"
        path = "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in self.path)
        return f"$(echo \"$R{self.number}\" | jq -r '{path}')"


Origin = ValueOrigin | LoginValue
Pieces = list[tuple[str, Origin | None]]  # parts of a text, each with its origin


class References:
    """Values of earlier responses, and how a script refers to them."""

    def __init__(self, requests: Sequence[SentRequest], given: Mapping[str, Sequence[LoginValue]]) -> None:
        self._given = given
        self._said: set[Any] = set()
        self.variables: dict[str, str] = {}  # that the script needs, with their content
        self.uses_basic = False  # HTTP basic
        self._known: dict[str, list[ValueOrigin]] = {}
        self.cookies = False  # an earlier response gave out a cookie, so the client may hold one
        self._sent = "\0".join(
            json.dumps(each.request.json if each.request.json is not NOT_JSON else each.request.form)
            for each in requests
        )

    def learn(self, number: int, request: HttpRequest, response: HttpResponse) -> None:
        """Remember the ids, tokens and cookies of a response."""
        self._learn(number, noun_of_path(request.path), response.json, ())
        for name, value in response.cookies().items():
            self.cookies = True
            if value:
                self._known.setdefault(value, []).append(ValueOrigin(number, cookie=name))

    def _is_new_text(self, value: Any) -> bool:
        return isinstance(value, str) and len(value) >= _SHORTEST and json.dumps(value) not in self._sent

    def _learn(self, number: int, noun: str, value: Any, path: tuple[Any, ...]) -> None:
        if isinstance(value, Mapping):
            for key, part in value.items():
                self._learn(number, noun, part, (*path, key))
        elif isinstance(value, list) and len(path) < 6:
            for position, part in enumerate(value[:3]):
                self._learn(number, noun, part, (*path, position))
        elif self._is_new_text(value) or (type(value) is int and path and is_id(str(path[-1]))):
            found = ValueOrigin(number, path, nouns=_nouns(noun, path))
            self._known.setdefault(str(value), []).append(found)

    def find(self, text: str, noun: str = "") -> ValueOrigin | None:
        """Return where a text comes from; of several places one whose noun is the same, else the first."""
        found = self._known.get(text, [])
        return next((each for each in found if noun in each.nouns), found[0] if found else None)

    def begin(self, request: HttpRequest) -> None:
        """Start with a request: what it says about its actor tells equal passwords apart."""
        sent = request.json if request.json is not NOT_JSON else request.form
        self._said = {*scalars(sent).values(), *(value for _, value in request.query)}

    def find_given(self, text: str) -> LoginValue | None:
        """Return the variable of a credential that a user gave."""
        candidates = self._given.get(text)
        if not candidates:
            return None
        found = next((each for each in candidates if each.actor in self._said), candidates[0])
        self.variables[found.variable] = found.content
        self.uses_basic |= found.part == "basic"
        return found

    def find_named(self, name: str, value: Any) -> Origin | None:
        """Return where the value of a property comes from; a number that is not an id equals one only by chance."""
        if isinstance(value, bool) or not isinstance(value, str | int):
            return None
        given = self._given.get(str(value))
        if given and (given[0].part != "password" or _takes_password(name)):
            return self.find_given(str(value))
        if str(value).lstrip("-").isdigit() and not is_id(name):
            return None
        return self.find(str(value), noun_of(name))

    def in_path(self, path: str) -> Pieces:
        """Return the parts of a path."""
        found: Pieces = []
        texts = re.split("(/)", path)
        for number, text in enumerate(texts):
            if text:
                found.append((text, self.find(text, noun_of_path("".join(texts[:number])))))
        return found

    def in_query(self, query: Sequence[tuple[str, str]]) -> Pieces:
        """Return the parts of a query, quoted for an address."""
        found: Pieces = []
        for name, value in query:
            found.append((("&" if found else "?") + quote_plus(name) + "=", None))
            origin = self.find_named(name, value)
            if isinstance(origin, LoginValue):
                origin = msgspec.structs.replace(origin, in_query=True)
            found.append((quote_plus(value), origin))
        return found

    def in_header(self, name: str, value: str) -> Pieces:
        """Return the parts of a header: a scheme and a token, or cookies."""
        if name.lower() == "cookie":
            parts = [re.split("(=)", each, maxsplit=1) for each in value.split("; ")]
            texts = [text for n, each in enumerate(parts) for text in ([*each] if not n else ["; ", *each])]
        else:
            prefix, space, token = value.rpartition(" ")
            texts = [prefix + space, token]
        return self._pieces(texts)

    def _pieces(self, texts: Sequence[str]) -> Pieces:
        return [(text, self.find_given(text) or self.find(text)) for text in texts if text]

    def headers(self, request: HttpRequest) -> dict[str, Pieces]:
        """Return the headers that a script sends. A client that keeps cookies must not add them by itself."""
        found = {
            name: self.in_header(name, value)
            for name, value in request.headers.items()
            if name not in _HEADERS
        }
        if self.cookies and "Cookie" not in found:
            found["Cookie"] = []
        return found


def _takes_password(name: str) -> bool:
    return "pass" in name.lower() or holds_credential(name)


def is_id(name: str) -> bool:
    """Return whether a number of this name may be an id; any other number equals one only by chance."""
    return name.lower().rstrip("s").endswith(("id", "pk"))


def _nouns(noun: str, path: tuple[Any, ...]) -> frozenset[str]:
    """Return the nouns of a part of a response: `room_id` is a room; an `id` is what the request or the object is."""
    own = noun_of(str(path[-1])) if path else ""
    if own:
        return frozenset({own})
    outer = [noun_of_path(each) for each in path[:-1] if isinstance(each, str)]
    return frozenset({noun, *outer}) - {""}
