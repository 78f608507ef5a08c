"""Requests and responses, and where an exception of the application was raised."""

from __future__ import annotations

import json
import sysconfig
import traceback
from collections.abc import Mapping, Sequence
from http.cookies import CookieError, SimpleCookie
from typing import Any, Protocol
from urllib.parse import urlencode

import msgspec

NOT_JSON: Any = object()
_BASE = "http://127.0.0.1"  # the address of an application in process


class HttpRequest(msgspec.Struct, frozen=True):
    """A request. `json` and `form` are the body as data; at most one of them is used."""

    method: str
    path: str  # quoted
    query: tuple[tuple[str, str], ...] = ()
    headers: Mapping[str, str] = {}
    json: Any = NOT_JSON
    form: Mapping[str, str] | None = None
    multipart: bool = False

    @property
    def target(self) -> str:
        """Return the path and the query."""
        return f"{self.path}?{urlencode(self.query)}" if self.query else self.path

    def encoded(self) -> tuple[dict[str, str], bytes]:
        """Return all headers, and the body as bytes."""
        headers = {"Accept": "application/json", **self.headers}
        if self.json is not NOT_JSON:
            return {**headers, "Content-Type": "application/json"}, json.dumps(self.json).encode()
        if self.form is None:
            return headers, b""
        if not self.multipart:
            kind = "application/x-www-form-urlencoded"
            return {**headers, "Content-Type": kind}, urlencode(self.form).encode()
        mark = "clew-boundary"
        parts = "".join(
            f'--{mark}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
            for name, value in self.form.items()
        )
        kind = f"multipart/form-data; boundary={mark}"
        return {**headers, "Content-Type": kind}, f"{parts}--{mark}--\r\n".encode()


class ServerError(msgspec.Struct, frozen=True):
    """An exception of the application: its class, its message, and the innermost frame of the application."""

    exception: str
    message: str
    frame: str


class HttpResponse(msgspec.Struct):
    """A response. `error` is the exception behind it, as far as the transport saw it."""

    status: int
    headers: Sequence[tuple[str, str]]
    body: bytes
    error: ServerError | None = None
    _json: Any = None
    _read: bool = False

    @property
    def json(self) -> Any:
        """Return the body as data, or NOT_JSON."""
        if not self._read:
            self._read = True
            try:
                self._json = json.loads(self.body)
            except ValueError:
                self._json = NOT_JSON
        return self._json

    def header(self, name: str) -> str | None:
        """Return the first header of a name."""
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)

    def cookies(self) -> dict[str, str | None]:
        """Return the cookies that the response sets; None for one that it deletes."""
        found: dict[str, str | None] = {}
        for name, value in self.headers:
            if name.lower() != "set-cookie":
                continue
            try:
                parsed = SimpleCookie(value)
            except CookieError:
                continue
            for key, morsel in parsed.items():
                gone = morsel["max-age"] == "0" or "1970" in morsel["expires"] or not morsel.value
                found[key] = None if gone else morsel.value
        return found


class Transport(Protocol):
    """Sends requests to a service."""

    def send(self, request: HttpRequest) -> HttpResponse: ...

    def close(self) -> None: ...


def server_error(error: BaseException) -> ServerError:
    """Describe an exception of the application."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    text = (str(error).strip().splitlines() or [""])[0][:200]
    return ServerError(type(error).__name__, text, _frame(error))


def _frame(error: BaseException) -> str:
    library = {sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    frames = traceback.extract_tb(error.__traceback__)
    own = [
        each
        for each in frames
        if not any(each.filename.startswith(folder) for folder in library)
        and "site-packages" not in each.filename
        and "/clew/explore/" not in each.filename.replace("\\", "/")
        and not each.filename.startswith("<")
    ]
    if not own:
        return ""
    last = own[-1]
    file = last.filename.replace("\\", "/").rsplit("/", 1)[-1]
    return f"{file}:{last.lineno} in {last.name}"
