"""A local server that speaks the chat protocol, and misbehaves as it is told to."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Reply = Callable[[BaseHTTPRequestHandler, dict[str, Any]], None]


class Endpoint:
    """Answers each request with the next reply; the last one is repeated."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.released = threading.Event()
        self.url = ""

    def next(self, handler: BaseHTTPRequestHandler, request: dict[str, Any]) -> None:
        place = min(len(self.requests), len(self.replies) - 1)
        self.requests.append(request)
        self.headers.append(dict(handler.headers))
        self.replies[place](handler, request)


def send(handler: BaseHTTPRequestHandler, body: bytes, status: int = 200, **headers: str) -> None:
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def says(content: Any) -> Reply:
    """A proper reply; what is no text is said as JSON."""
    text = content if isinstance(content, str) else json.dumps(content)

    def reply(handler: BaseHTTPRequestHandler, _: dict[str, Any]) -> None:
        send(handler, json.dumps({"choices": [{"message": {"role": "assistant", "content": text}}]}).encode())

    return reply


def raw(body: bytes) -> Reply:
    return lambda handler, _: send(handler, body)


def refuses(status: int, **headers: str) -> Reply:
    return lambda handler, _: send(handler, b'{"error": {"message": "no"}}', status, **headers)


def hangs(endpoint: Endpoint) -> Reply:
    """Says nothing until the endpoint is released."""
    return lambda handler, _: (endpoint.released.wait(300), None)[1]


def drips(endpoint: Endpoint) -> Reply:
    """Sends a byte now and then, for ever, so that no read of it takes long."""

    def reply(handler: BaseHTTPRequestHandler, _: dict[str, Any]) -> None:
        handler.send_response(200)
        handler.end_headers()
        while not endpoint.released.wait(0.05):
            handler.wfile.write(b" ")
            handler.wfile.flush()

    return reply


def endless() -> Reply:
    """Sends without end, as fast as it is read."""

    def reply(handler: BaseHTTPRequestHandler, _: dict[str, Any]) -> None:
        handler.send_response(200)
        handler.end_headers()
        while True:
            handler.wfile.write(b" " * 65536)

    return reply


def plays(roles: dict[str, Callable[[str], Any]]) -> Reply:
    """A model that recognises by its instructions which role it has."""

    def reply(handler: BaseHTTPRequestHandler, request: dict[str, Any]) -> None:
        system, user = (message["content"] for message in request["messages"])
        role = next(name for name in roles if name in system)
        says(roles[role](user))(handler, request)

    return reply


@contextmanager
def serving(endpoint: Endpoint) -> Iterator[Endpoint]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            request = json.loads(self.rfile.read(length))
            try:
                endpoint.next(self, request)
            except (BrokenPipeError, ConnectionResetError):  # whoever asked did not wait
                pass

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    endpoint.url = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield endpoint
    finally:
        endpoint.released.set()
        server.shutdown()
        server.server_close()
        thread.join()
