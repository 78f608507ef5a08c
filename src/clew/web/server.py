"""The server of the page: an ASGI application over one store.

It reads runs without importing user code. Requests are answered on threads, because stores block. What needs user code
is given to workers (`clew.web.verbs`).
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import Receive, Scope, Send

from clew.errors import ClewError
from clew.stores import Store
from clew.web.access import CHANGES, COOKIE, HEADERS, AccessRules
from clew.web.answers import ApiError, answer, failure, json_of, of_clew, read_body
from clew.web.api import Api, Parameters
from clew.web.event_streams import EventStreams
from clew.web.routes import segments_of
from clew.web.static_files import StaticFile, load, pages
from clew.web.verbs import Verbs

log = logging.getLogger("clew.web")


def create_app(
    store: Store,
    *,
    address: str = "",
    hosts: Iterable[str] = (),
    token: str | None = None,
    read_only: bool = False,
    verbs: Verbs | None = None,
) -> Starlette:
    """Return the application. `address` is how commands name the store, "" for the default one.

    `hosts` are names under which the server may be reached, in addition to those of loopback.
    """
    access = AccessRules(hosts, token=token, read_only=read_only)
    server = _PageServer(store, address, access, verbs or Verbs(store, address))

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        await run_in_threadpool(int)  # so that the first request does not wait for the first thread
        yield

    app = Starlette(lifespan=lifespan)
    app.mount("/", server)
    app.state.server = server
    return app


class _PageServer:
    """Answers requests: the API, the files of the page, and the page itself for every other address."""

    def __init__(self, store: Store, address: str, access: AccessRules, verbs: Verbs) -> None:
        self.access = access
        self._store = store
        self.api = Api(store, address, verbs, read_only=access.read_only)
        self.streams = EventStreams(self.api)
        self.files = load()
        self.pages = pages(self.files)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        response = await self._response(request)
        await response(scope, receive, send)

    async def _response(self, request: Request) -> Response:
        path = request.scope["path"]
        try:
            refusal = self.access.refuse(request.method, path, request.headers, request.cookies)
            if refusal is not None:
                if refusal.status == 401 and request.method == "GET" and not path.startswith("/api"):
                    return self._signed_in(request) or _text(401, f"{refusal.message}: {refusal.hint}\n")
                raise ApiError(refusal.status, refusal.type, refusal.message, hint=refusal.hint)
            if path == "/api" or path.startswith("/api/"):
                return await self._api(request)
            if path == "/metrics" and request.method == "GET":
                return await run_in_threadpool(self._metrics, request.headers.get("accept", ""))
            return self._signed_in(request) or self._page(request, path)
        except ApiError as error:
            return failure(error)
        except ClewError as error:
            return failure(of_clew(error))
        except Exception:
            log.exception("%s %s failed", request.method, path)
            return failure(
                ApiError(
                    500, "InternalError", "the server made a mistake", hint="see the log of `clew serve`"
                )
            )

    async def _api(self, request: Request) -> Response:
        segments = segments_of(request.scope.get("raw_path") or request.scope["path"].encode())
        query = Parameters(request.query_params.multi_items())
        if segments == ["events"] and request.method == "GET":
            return await self.streams.open(query, request)
        found = self.api.routes.find(request.method, segments)
        if isinstance(found, set):
            if found:
                raise ApiError(405, "InputError", f"this address takes {', '.join(sorted(found))}")
            raise ApiError(
                404, "UnknownAddress", "the API has no such address", hint="see the reference of the HTTP API"
            )
        handler, arguments = found
        body: Any = None
        if request.method in CHANGES:
            content = await read_body(request)
            body = json_of(content) if content else {}
            client = request.client
            query.by = f"page, {client.host}" if client is not None else "page"
        made = await run_in_threadpool(handler, query, body, *arguments)
        return made if isinstance(made, Response) else answer(made)

    def _metrics(self, accept: str) -> Response:
        """Return the metrics of the store, for Prometheus."""
        from clew.observe import store_metrics

        content, media = store_metrics(self._store, accept)
        return Response(content, headers={**HEADERS, "content-type": media})

    def _signed_in(self, request: Request) -> Response | None:
        """Return a redirection that sets the cookie, if the address has the token."""
        token = request.query_params.get("token")
        if token is None or not self.access.is_token(token):
            return None
        rest = [(name, value) for name, value in request.query_params.multi_items() if name != "token"]
        path = request.scope["path"]
        there = path if path.startswith("/") and not path.startswith(("//", "/\\")) else "/"
        response = RedirectResponse(f"{there}?{urlencode(rest)}" if rest else there, 303, dict(HEADERS))
        response.set_cookie(
            COOKIE,
            self.access.cookie,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
            path="/",
        )
        return response

    def _page(self, request: Request, path: str) -> Response:
        if request.method not in ("GET", "HEAD"):
            raise ApiError(405, "InputError", "this address takes GET")
        if path.startswith("/static/"):
            file = self.files.get(path.removeprefix("/static/"))
            if file is None:
                return _text(404, "this file does not exist\n")
        elif path in ("/favicon.ico", "/robots.txt", "/manifest.webmanifest"):
            file = self.files.get(path[1:])
            if file is None:
                return _text(404, "this file does not exist\n")
        else:
            file = self.pages[_screen(path)]
        return _file(request, file)


def _screen(path: str) -> str:
    """Return which page a path gets; see `static_files.pages`."""
    first, *rest = path.strip("/").split("/")
    if first not in ("", "runs") or len(rest) > 1:
        return ""
    return "run" if rest else "runs"


def _file(request: Request, file: StaticFile) -> Response:
    tag = f'"{file.tag}"'
    headers = {**HEADERS, "etag": tag, "cache-control": "no-cache", "vary": "accept-encoding"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    if file.packed and "gzip" in request.headers.get("accept-encoding", ""):
        return Response(file.packed, 200, {**headers, "content-encoding": "gzip"}, file.media)
    return Response(file.content, 200, headers, file.media)


def _text(status: int, text: str) -> Response:
    return Response(text, status, dict(HEADERS), "text/plain")
