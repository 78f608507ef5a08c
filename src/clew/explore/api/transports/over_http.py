"""A running service at a URL, over one connection.

Many servers send the headers and the body of a response separately, and wait with the body until the headers are
acknowledged. The client acknowledges them at once where the system permits it (Linux): otherwise it waits 40 ms for
each response, which is longer than most services need to answer.
"""

from __future__ import annotations

import socket
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import urlsplit

from clew.error_text import line_of
from clew.errors import SystemSetupError
from clew.explore.api.transports.messages import HttpRequest, HttpResponse


class HttpTransport:
    """Sends requests to a running service. Redirects are not followed."""

    def __init__(self, url: str, timeout: float = 30.0) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise SystemSetupError(f"url: expected http://HOST:PORT, got {url!r}")
        self._url = url
        self._prefix = parts.path.rstrip("/")
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._connection = kind(parts.hostname, parts.port, timeout=timeout)

    def send(self, request: HttpRequest) -> HttpResponse:
        """Send a request; a connection that the server closed is opened again."""
        headers, body = request.encoded()
        for attempt in (1, 2):
            try:
                self._connection.request(
                    request.method.upper(), self._prefix + request.target, body or None, headers
                )
                self._acknowledge_at_once()
                answer = self._connection.getresponse()
                self._acknowledge_at_once()  # the system switches it off after each exchange
                return HttpResponse(answer.status, answer.getheaders(), answer.read())
            except (OSError, HTTPException) as error:
                self._connection.close()
                if attempt == 2:
                    raise SystemSetupError(f"url: {self._url} does not answer: {line_of(error)}") from error
        raise AssertionError

    def _acknowledge_at_once(self) -> None:
        option, opened = getattr(socket, "TCP_QUICKACK", None), self._connection.sock
        if option is not None and opened is not None:
            opened.setsockopt(socket.IPPROTO_TCP, option, 1)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
