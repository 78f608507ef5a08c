"""A plain HTTP server on a free loopback port."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec


class Request(msgspec.Struct, frozen=True):
    """A request. Header names are in lower case. If a query has a name twice, the last value counts."""

    method: str
    path: str
    query: dict[str, str] = {}
    headers: dict[str, str] = {}
    body: bytes = b""
    params: dict[str, str] = {}

    def json(self) -> Any:
        """Return the body, decoded as JSON."""
        return msgspec.json.decode(self.body)


class Reply(msgspec.Struct, frozen=True):
    """A reply to a request."""

    status: int
    body: bytes
    headers: dict[str, str]


def reply_of(returned: Any) -> Reply:
    """Return the result of a route as a reply."""
    if isinstance(returned, tuple):
        status, body, headers = (*returned, None, None)[:3] if len(returned) < 3 else returned
    else:
        status, body, headers = (204 if returned is None else 200), returned, None
    sent: Mapping[str, str] = headers or {}
    if body is None:
        return Reply(status, b"", dict(sent))
    if isinstance(body, bytes):
        return Reply(status, body, {"Content-Type": "application/octet-stream", **sent})
    if isinstance(body, str):
        return Reply(status, body.encode(), {"Content-Type": "text/plain; charset=utf-8", **sent})
    return Reply(status, msgspec.json.encode(body), {"Content-Type": "application/json", **sent})


class _Server(ThreadingHTTPServer):
    daemon_threads = True  # clients may keep connections open
    block_on_close = False
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnect."""


def serving(answer: Callable[[Request], Reply]) -> ThreadingHTTPServer:
    """Start a server in a new thread; it runs until it is shut down."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

        def respond(self) -> None:
            reply = answer(self.read_request())
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(reply.body)

        def read_request(self) -> Request:
            parts = urlsplit(self.path)
            length = int(self.headers.get("Content-Length") or 0)
            return Request(
                self.command,
                unquote(parts.path),
                dict(parse_qsl(parts.query, keep_blank_values=True)),
                {name.lower(): value for name, value in self.headers.items()},
                self.rfile.read(length) if length else b"",
            )

        def __getattr__(self, name: str) -> Any:
            if name.startswith("do_"):
                return self.respond
            raise AttributeError(name)

    server = _Server(("127.0.0.1", 0), Handler)
    threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True, name="HTTPFake"
    ).start()
    return server
