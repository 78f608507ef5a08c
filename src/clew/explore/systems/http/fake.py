"""`HTTPFake`: a stateful fake of an external service that the application calls over loopback HTTP.

Routes are functions of a request and the state, which is a dict::

    payments = HTTPFake({"charges": {}})

    @payments.route("POST", "/charges/{id}")
    def charge(request, state):
        state["charges"][request.params["id"]] = request.json()["amount"]
        return 201, {"ok": True}

- A route returns a body (a dict or list is sent as JSON), or a status and a body, or a status, a body and headers. None
  is sent as 204.
- Requests are handled one at a time. Changes that a route makes before it raises remain, as in a real service.
- The state and the log of requests are rolled back. The state identifies a state of the system. To explore failures of
  the service, let an action change the state, and a route respond accordingly.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable
from http.server import ThreadingHTTPServer
from typing import Any, Literal

import msgspec

from clew.errors import DefinitionError
from clew.explore.model.system import Observation
from clew.explore.systems.http.server import Reply, Request, reply_of, serving
from clew.explore.systems.version_tokens import ClosableSystem, TokenSystem
from clew.state.values.codec import decode, digest, encode

_OVERHEAD = 512  # bytes of a checkpoint in addition to the state
Route = Callable[[Request, dict[str, Any]], Any]


class _Version(msgspec.Struct, frozen=True):
    state: bytes  # preserves the order of dicts
    requests: tuple[Request, ...]


class HTTPFake(TokenSystem[_Version], ClosableSystem):
    """A fake service.

    Args:
        state: The initial state: a dict of values that can be encoded.
        routes: Functions by method and path: ``{"GET /items/{id}": show}``. Add more with `route`.
    """

    ordering: Literal["any"] = "any"

    def __init__(self, state: dict[str, Any] | None = None, routes: dict[str, Route] | None = None) -> None:
        if state is not None and not isinstance(state, dict):
            raise DefinitionError(f"state: expected a dict, got {state!r}")
        super().__init__()
        self.state: dict[str, Any] = decode(encode(state or {}, at="state", ordered=True))
        self._routes: list[tuple[str, re.Pattern[str], Route]] = []
        self._requests: tuple[Request, ...] = ()
        self._lock = threading.RLock()
        self._server: ThreadingHTTPServer | None = None
        for where, function in (routes or {}).items():
            method, _, path = where.partition(" ")
            self.route(method, path)(function)

    # ---------------------------------------------------------------- the service

    def route(self, method: str, path: str) -> Callable[[Route], Route]:
        """Register a function for a method and a path; parts in braces become `request.params`."""
        if not path.startswith("/"):
            raise DefinitionError(
                f'route: expected a method and a path such as "GET /items/{{id}}", got {method!r} {path!r}'
            )
        parts = re.split(r"\{(\w+)\}", path)
        pattern = "".join(
            f"(?P<{part}>[^/]+)" if place % 2 else re.escape(part) for place, part in enumerate(parts)
        )

        def add(function: Route) -> Route:
            self._routes.append((method.upper(), re.compile(pattern), function))
            return function

        return add

    @property
    def url(self) -> str:
        """Return the URL of the service; the first access starts the server."""
        with self._lock:
            if self._server is None:
                self._server = serving(self._answer)
            return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def requests(self) -> tuple[Request, ...]:
        """Return the requests that led to the current state."""
        return self._requests

    def close(self) -> None:
        """Stop listening."""
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()

    # ---------------------------------------------------------------- requests

    def _answer(self, request: Request) -> Reply:
        with self._lock:
            self._requests += (request,)
            return self._work(request)

    def _work(self, request: Request) -> Reply:
        others = set()
        for method, pattern, function in self._routes:
            if found := pattern.fullmatch(request.path):
                if method == request.method:
                    return self._call(function, msgspec.structs.replace(request, params=found.groupdict()))
                others.add(method)
        if others:
            return reply_of((405, {"error": "method not allowed"}, {"Allow": ", ".join(sorted(others))}))
        return reply_of((404, {"error": f"no route for {request.method} {request.path}"}))

    def _call(self, function: Route, request: Request) -> Reply:
        try:
            return reply_of(function(request, self.state))
        except Exception as error:  # like a real service with a bug
            return reply_of((500, {"error": f"{type(error).__name__}: {error}"}))

    # ---------------------------------------------------------------- the system

    def observe(self) -> Observation:
        with self._lock:
            encoded = encode({"state": self.state}, at="fake")
            return Observation(
                "http", decode(encoded), {"requests": len(self._requests)}, bytes.fromhex(digest(encoded))
            )

    def checkpoint(self, name: str) -> int:
        with self._lock:
            encoded = encode(self.state, at="state", ordered=True)
            return self._versions.keep(_Version(encoded, self._requests), _OVERHEAD + len(encoded))

    def rollback(self, token: int) -> None:
        self._restore(self._versions[token])

    def _restore(self, version: _Version) -> None:
        with self._lock:
            self.state.clear()  # in place, because the application may hold a reference
            self.state.update(decode(version.state))
            self._requests = version.requests

    def size(self, token: int) -> int:
        """Return the number of bytes that a checkpoint holds."""
        return self._versions.size(token)

    def save_baseline(self, token: int) -> list[bytes]:
        """Return a checkpoint as bytes."""
        return [msgspec.msgpack.encode(self._versions[token])]

    def restore_baseline(self, pieces: Iterable[bytes]) -> bool:
        """Restore a checkpoint that was saved as bytes."""
        self._restore(msgspec.msgpack.decode(b"".join(pieces), type=_Version))
        return True
