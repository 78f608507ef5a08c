"""Applications in this process: ASGI on an event loop in a thread, WSGI by a call.

- The event loop is asyncio's own, also if the application installs another one (uvloop), so that `network_guard` sees
  the connections that it makes. Background tasks run before a request returns: an ASGI application is awaited to its
  end.
- An ASGI application is started and stopped as a server does it (its lifespan).
- An exception that leaves the application, or that it logs before it answers with 5xx, describes the response.
"""

from __future__ import annotations

import asyncio
import inspect
import io
import logging
import sys
import threading
from collections.abc import Callable, Coroutine, Iterable
from typing import Any
from urllib.parse import unquote_to_bytes, urlencode

from clew.error_text import line_of
from clew.errors import SystemSetupError
from clew.explore.api.transports.messages import HttpRequest, HttpResponse, ServerError, server_error

HOST = "127.0.0.1"
_ERROR = 500


class LoggedErrors(logging.Handler):
    """Keeps the last exception that the application logged, and keeps its log off the terminal.

    An exploration provokes thousands of errors on purpose. Their tracebacks would hide its result. Handlers that
    write elsewhere are not touched.
    """

    def __init__(self) -> None:
        super().__init__()
        self.last: ServerError | None = None
        self._quiet: list[logging.Handler] = []

    def emit(self, record: logging.LogRecord) -> None:
        if (
            record.levelno >= logging.ERROR
            and record.exc_info
            and isinstance(record.exc_info[1], BaseException)
        ):
            self.last = server_error(record.exc_info[1])

    def open(self) -> None:
        """Listen to the log of this process."""
        logging.getLogger().addHandler(self)
        terminal = (sys.stderr, sys.stdout, sys.__stderr__, sys.__stdout__)
        for logger in [logging.getLogger(), *logging.Logger.manager.loggerDict.values()]:
            for handler in getattr(logger, "handlers", ()):
                if isinstance(handler, logging.StreamHandler) and handler.stream in terminal:
                    handler.addFilter(_nothing)
                    self._quiet.append(handler)

    def stop(self) -> None:
        """Stop listening."""
        logging.getLogger().removeHandler(self)
        for handler in self._quiet:
            handler.removeFilter(_nothing)


def _nothing(record: logging.LogRecord) -> bool:
    return False


class AsgiTransport:
    """Calls an ASGI application."""

    def __init__(self, app: Any, timeout: float = 30.0) -> None:
        self._app = app
        self._timeout = timeout
        self._logged = LoggedErrors()
        self._loop = _own_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="clew-asgi", daemon=True)
        self._thread.start()
        self._to_app: asyncio.Queue[dict[str, str]] | None = None
        self._lifespan: Any = None
        self._state: dict[str, Any] = {}
        self._logged.open()
        try:
            self._run(self._start())
        except BaseException:
            self.close()
            raise

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(self._timeout)
        except TimeoutError:
            future.cancel()
            raise

    async def _start(self) -> None:
        """Start the application; one that has no lifespan raises, and needs no start."""
        to_app: asyncio.Queue[dict[str, str]] = asyncio.Queue()
        from_app: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": self._state}

        async def run() -> None:
            try:
                await self._app(scope, to_app.get, from_app.put)
            except Exception as error:
                await from_app.put({"type": "raised", "error": error})

        await to_app.put({"type": "lifespan.startup"})
        task = asyncio.ensure_future(run())
        message = await from_app.get()
        if message["type"] == "lifespan.startup.failed":
            raise SystemSetupError(f"app: the application did not start: {message.get('message', '')}")
        if message["type"] == "lifespan.startup.complete":
            self._to_app, self._lifespan = to_app, task

    async def _stop(self) -> None:
        if self._to_app is not None:
            await self._to_app.put({"type": "lifespan.shutdown"})
            await asyncio.wait([self._lifespan], timeout=5)

    def send(self, request: HttpRequest) -> HttpResponse:
        """Send a request, and wait for the response and all background tasks."""
        self._logged.last = None
        try:
            response: HttpResponse = self._run(self._call(request))
        except TimeoutError:
            slow = ServerError("TimeoutError", f"no response within {self._timeout:g} s", "")
            return HttpResponse(504, (), b"", slow)
        if response.status >= _ERROR and response.error is None:
            response.error = self._logged.last
        return response

    async def _call(self, request: HttpRequest) -> HttpResponse:
        headers, body = request.encoded()
        raw = [(name.lower().encode(), value.encode("latin-1", "replace")) for name, value in headers.items()]
        raw += [(b"host", HOST.encode()), (b"content-length", str(len(body)).encode())]
        query = urlencode(request.query).encode()
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": request.method.upper(),
            "scheme": "http",
            "path": unquote_to_bytes(request.path).decode("utf-8", "replace"),
            "raw_path": request.path.encode(),
            "query_string": query,
            "root_path": "",
            "headers": raw,
            "client": (HOST, 12345),
            "server": (HOST, 80),
            "state": dict(self._state),
        }
        sent: list[dict[str, Any]] = []
        given = False
        over = asyncio.Event()

        async def receive() -> dict[str, Any]:
            nonlocal given
            if given:
                await over.wait()
                return {"type": "http.disconnect"}
            given = True
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)
            if message["type"] == "http.response.body" and not message.get("more_body"):
                over.set()

        error: ServerError | None = None
        try:
            await self._app(scope, receive, send)
        except Exception as raised:
            error = server_error(raised)
        start = next((each for each in sent if each["type"] == "http.response.start"), None)
        if start is None:
            return HttpResponse(_ERROR, (), b"", error or ServerError("", "no response", ""))
        content = b"".join(each.get("body", b"") for each in sent if each["type"] == "http.response.body")
        found = [
            (name.decode("latin-1"), value.decode("latin-1")) for name, value in start.get("headers", ())
        ]
        return HttpResponse(int(start["status"]), found, content, error)

    def close(self) -> None:
        """Stop the application and its event loop."""
        self._logged.stop()
        try:
            self._run(self._stop())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(self._timeout)
            if not self._thread.is_alive():
                self._loop.close()


def _own_loop() -> asyncio.AbstractEventLoop:
    """Return an event loop of asyncio, also if another policy is installed."""
    if sys.platform == "win32":
        return asyncio.ProactorEventLoop()
    return asyncio.SelectorEventLoop()


class WsgiTransport:
    """Calls a WSGI application."""

    def __init__(self, app: Callable[..., Iterable[bytes]]) -> None:
        self._app = app
        self._logged = LoggedErrors()
        self._logged.open()

    def send(self, request: HttpRequest) -> HttpResponse:
        self._logged.last = None
        headers, body = request.encoded()
        environ: dict[str, Any] = {
            "REQUEST_METHOD": request.method.upper(),
            "SCRIPT_NAME": "",
            "PATH_INFO": unquote_to_bytes(request.path).decode("latin-1"),
            "QUERY_STRING": urlencode(request.query),
            "SERVER_NAME": HOST,
            "SERVER_PORT": "80",
            "SERVER_PROTOCOL": "HTTP/1.1",
            "REMOTE_ADDR": HOST,
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_HOST": HOST,
            "wsgi.version": (1, 0),
            "wsgi.url_scheme": "http",
            "wsgi.input": io.BytesIO(body),
            "wsgi.errors": io.StringIO(),
            "wsgi.multithread": False,
            "wsgi.multiprocess": False,
            "wsgi.run_once": False,
        }
        for name, value in headers.items():
            key = name.upper().replace("-", "_")
            environ[key if key == "CONTENT_TYPE" else f"HTTP_{key}"] = value
        started: list[tuple[int, list[tuple[str, str]]]] = []

        def start_response(status: str, found: list[tuple[str, str]], exc_info: Any = None) -> Any:
            started.append((int(status.split(" ", 1)[0]), list(found)))
            return lambda data: None

        try:
            returned = self._app(environ, start_response)
            try:
                content = b"".join(returned)
            finally:
                close = getattr(returned, "close", None)
                if callable(close):
                    close()
        except Exception as raised:
            return HttpResponse(_ERROR, (), b"", server_error(raised))
        if not started:
            return HttpResponse(_ERROR, (), content, ServerError("", "no response", ""))
        status, found = started[-1]
        return HttpResponse(status, found, content, self._logged.last if status >= _ERROR else None)

    def close(self) -> None:
        """Stop listening to the log."""
        self._logged.stop()


def in_process(app: Any) -> AsgiTransport | WsgiTransport:
    """Return the transport of an application: ASGI if it is called with `(scope, receive, send)`, else WSGI."""
    if not callable(app):
        raise SystemSetupError(f"app: expected an ASGI or WSGI application, got {app!r}")
    try:
        return AsgiTransport(app) if _is_asgi(app) else WsgiTransport(app)
    except TimeoutError as error:
        raise SystemSetupError(f"app: the application did not start: {line_of(error)}") from error


def _is_asgi(app: Any) -> bool:
    function = app if inspect.isroutine(app) else type(app).__call__
    return inspect.iscoroutinefunction(function) or (
        "scope" in inspect.signature(function).parameters
        and "receive" in inspect.signature(function).parameters
    )
