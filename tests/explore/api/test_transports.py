"""Services in process (ASGI, WSGI) and at an address, on SQLite and PostgreSQL."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

import pytest

from clew.errors import DefinitionError, RefusedServiceError
from clew.explore import Severity, explore_api
from clew.explore.api.transports.in_process import in_process
from clew.explore.api.transports.messages import HttpRequest
from clew.explore.api.transports.network_guard import guarded
from tests.explore.api.items_service import DOCUMENT, items
from tests.explore.systems.postgres_databases import Database


def test_a_wsgi_application_is_explored_to_the_end(tmp_path: Path) -> None:
    path = str(tmp_path / "items.db")
    result = explore_api(
        items(path), openapi=DOCUMENT, systems=path, max_requests=3000, settle=0, progress=False
    )
    assert result.violations == []
    assert not result.truncated
    assert result.service.never_succeeded == ()
    assert any("actors" in note for note in result.service.notes)


def test_a_delete_that_deletes_nothing_is_found_in_a_wsgi_application(tmp_path: Path) -> None:
    path = str(tmp_path / "items.db")
    result = explore_api(
        items(path, broken=True),
        openapi=DOCUMENT,
        systems={"items": path},
        max_requests=2000,
        settle=0,
        progress=False,
    )
    (found,) = result.violations
    assert (found.name, found.severity) == ("deleted, but still there: DELETE /items/{id}", Severity.HIGH)
    assert found.actions == ("POST /items [#0]", "DELETE /items/{id} [items#0]")


class QuietHandler(WSGIRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def running(app: Any) -> Iterator[str]:
    """The address of a running service."""
    with make_server("127.0.0.1", 0, app, handler_class=QuietHandler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """The address of a running service, and its database."""
    path = str(tmp_path / "items.db")
    with running(items(path, broken=True)) as url:
        yield url, path


def test_a_running_service_is_explored_at_its_address(served: tuple[str, str]) -> None:
    url, path = served
    result = explore_api(url=url, systems=path, max_requests=600, settle=0, progress=False)
    assert [each.name for each in result.violations] == ["deleted, but still there: DELETE /items/{id}"]
    assert any("not guarded" in note for note in result.service.notes)


@pytest.mark.parametrize(
    "options",
    [
        {"url": "http://shop.example.com", "openapi": DOCUMENT},
        {
            "app": lambda environ, start: [],
            "openapi": DOCUMENT,
            "systems": "postgresql://db.example.com/shop",
        },
        {"app": lambda environ, start: [], "openapi": DOCUMENT, "systems": "redis://10.1.2.3:6379/0"},
    ],
)
def test_other_machines_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(RefusedServiceError) as refused:
        explore_api(progress=False, **options)
    assert "--allow-remote" in str(refused.value)


def test_a_service_that_rejects_everything_is_refused(tmp_path: Path) -> None:
    def application(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        start_response("401 Unauthorized", [])
        return [b""]

    with pytest.raises(RefusedServiceError) as refused:
        explore_api(application, openapi=DOCUMENT, max_requests=200, settle=0, progress=False)
    assert "2xx" in str(refused.value)


def test_a_service_without_its_database_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RefusedServiceError) as refused:
        explore_api(
            items(str(tmp_path / "items.db")), openapi=DOCUMENT, max_requests=300, settle=0, progress=False
        )
    assert "--db" in str(refused.value)


def test_either_an_application_or_an_address_is_needed() -> None:
    with pytest.raises(DefinitionError):
        explore_api()
    with pytest.raises(DefinitionError):
        explore_api(lambda: None, url="http://127.0.0.1:1")


# -- PostgreSQL


@pytest.mark.parametrize("bugs", [(), ("commit", "uuid")])
def test_a_service_on_postgresql_is_explored(database: Database, bugs: tuple[str, ...]) -> None:
    pytest.importorskip("fastapi", reason="the service uses FastAPI")
    import psycopg

    from tests.explore.api.blog_service import blog

    def content() -> list[Any]:
        with psycopg.connect(database.dsn) as connection:
            tables = ("users", "sessions", "articles", "former_slugs")
            return [connection.execute(f"SELECT * FROM {each}".encode()).fetchall() for each in tables]

    app = blog(database.dsn, *bugs)
    before = content()
    result = explore_api(app, systems=database.dsn, max_requests=250, settle=0, progress=False)
    assert content() == before
    names = {each.name.split(" (")[0] for each in result.violations}
    if bugs:
        assert names == {"server error: POST /articles", "rejected, yet written: POST /articles"}
    else:
        assert names == set()
    assert "sessions.token" in result.service.volatile


# -- applications in process


async def asgi(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """An application that starts and stops, and that connects to another machine."""
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            scope["state"]["started"] = message["type"] == "lifespan.startup"
            await send({"type": f"{message['type']}.complete"})
            if message["type"] == "lifespan.shutdown":
                return
    if scope["path"] == "/fail":
        raise ValueError("broken on purpose")
    if scope["path"] == "/call":
        try:
            socket.create_connection(("192.0.2.1", 25), timeout=1)
        except OSError as error:
            body = type(error).__name__.encode()
    else:
        body = b"started" if scope["state"]["started"] else b"not started"
    await send({"type": "http.response.start", "status": 200, "headers": [(b"set-cookie", b"a=1; Path=/")]})
    await send({"type": "http.response.body", "body": body})


def test_an_asgi_application_is_started_and_stopped() -> None:
    transport = in_process(asgi)
    try:
        response = transport.send(HttpRequest("get", "/"))
        assert (response.status, response.body, response.cookies()) == (200, b"started", {"a": "1"})
    finally:
        transport.close()


def test_an_exception_of_the_application_describes_its_response() -> None:
    transport = in_process(asgi)
    try:
        response = transport.send(HttpRequest("get", "/fail"))
    finally:
        transport.close()
    assert response.status == 500
    assert response.error is not None
    assert (response.error.exception, response.error.message) == ("ValueError", "broken on purpose")
    assert response.error.frame.startswith("test_transports.py:")
    assert response.error.frame.endswith(" in asgi")


def test_outgoing_connections_are_blocked_and_listed() -> None:
    transport = in_process(asgi)
    try:
        with guarded() as guard:
            response = transport.send(HttpRequest("get", "/call"))
            with pytest.raises(ConnectionRefusedError):
                socket.getaddrinfo("mail.example.com", 25)
    finally:
        transport.close()
    assert response.body == b"ConnectionRefusedError"
    assert guard.counts["192.0.2.1:25"] >= 1
    assert "mail.example.com:25" in guard.counts


def test_the_result_names_blocked_connections_and_libraries_that_are_not_guarded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "items.db")
    app = items(path)

    def mailing(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        with contextlib.suppress(OSError):
            socket.create_connection(("192.0.2.1", 25), timeout=1)
        return app(environ, start_response)

    monkeypatch.setitem(sys.modules, "pycurl", ModuleType("pycurl"))
    result = explore_api(mailing, openapi=DOCUMENT, systems=path, max_requests=100, settle=0, progress=False)
    assert result.violations == []  # a blocked connection fails nothing by itself
    assert "blocked connections: 192.0.2.1:25" in str(result)
    assert [note for note in result.service.notes if "not guarded" in note and "pycurl" in note]


def test_uvloop_is_switched_off_in_process_so_that_its_connections_are_blocked() -> None:
    uvloop = pytest.importorskip("uvloop", reason="uvloop does not run on Windows")
    loops: list[str] = []

    async def connecting(scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "http"
        loops.append(type(asyncio.get_running_loop()).__module__)
        try:
            await asyncio.wait_for(asyncio.open_connection("192.0.2.1", 25), 5)
            text = b"connected"
        except OSError as error:
            text = type(error).__name__.encode()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": text})

    before = asyncio.get_event_loop_policy()
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())  # as an application does that installs uvloop
    try:
        with guarded() as guard:
            transport = in_process(connecting)
            try:
                response = transport.send(HttpRequest("get", "/"))
            finally:
                transport.close()
    finally:
        asyncio.set_event_loop_policy(before)
    assert response.body == b"ConnectionRefusedError"
    assert guard.counts == {"192.0.2.1:25": 1}
    assert all(each.startswith("asyncio") for each in loops)
