"""Violations as scripts: each shows its violation on a fresh service, and passes on the correct one."""

from __future__ import annotations

import ast
import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from wsgiref.simple_server import make_server

import pytest

from clew.explore import ServiceExplorationResult, explore_api
from clew.explore.api.reports.reproductions import Reproduction
from clew.explore.api.sending import SentRequest
from clew.explore.api.transports.in_process import in_process
from clew.explore.api.transports.messages import NOT_JSON, HttpRequest, HttpResponse
from tests.explore.api.items_service import DOCUMENT as ITEMS
from tests.explore.api.items_service import items
from tests.explore.api.stored_rows import stored_rows
from tests.explore.api.test_transports import QuietHandler

pytest.importorskip("fastapi", reason="the services of these tests use FastAPI and Flask")
pytest.importorskip("uvicorn", reason="the scripts need a running service")
pytest.importorskip("flask", reason="the services of these tests use FastAPI and Flask")

from tests.explore.api.blog_service import BUGS, blog
from tests.explore.api.library_service import DOCUMENT, library
from tests.explore.api.shelves_service import SCHEMES, USERS, login_of, shelves
from tests.explore.api.tasks_service import tasks
from tests.foreign.journal_service import journal

PRINT_ROWS = str(Path(__file__).parents[1] / "stored_rows.py")
TOOLS = os.name == "posix" and shutil.which("curl") and shutil.which("jq")


class Client:
    """A client with the interface of httpx, over a transport of the explorer."""

    def __init__(self, app: Any) -> None:
        self.transport = in_process(app)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.transport.close()

    def request(
        self,
        method: str,
        path: str,
        *,
        json: Any = NOT_JSON,
        data: Any = None,
        params: dict[str, str] | None = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        sent = HttpRequest(method, path, tuple((params or {}).items()), headers or {}, json, data)
        return Answer(self.transport.send(sent))


class Answer:
    def __init__(self, response: HttpResponse) -> None:
        self.status_code, self.content, self._response = response.status, response.body, response

    @property
    def cookies(self) -> dict[str, str | None]:
        return self._response.cookies()

    def json(self) -> Any:
        return self._response.json


class Planted(NamedTuple):
    """A service with a bug, and how it is explored."""

    service: str
    bug: str

    def app(self, path: Path, *, correct: bool = False) -> Any:
        if self.service == "blog":
            return blog(str(path), *([] if correct else [self.bug]))
        if self.service == "tasks":
            return tasks(str(path), open_patch=not correct)
        if self.service == "library":
            return library(str(path), late=not correct)
        if self.service == "shelves":
            return shelves(str(path), *([] if correct else ["anybody"]), scheme=self.bug)
        return journal(str(path), *([] if correct else [self.bug]))

    @property
    def logins(self) -> list[str]:
        if self.service == "library":
            return ["ann:secret", "ben:secret"]
        if self.service == "journal":
            return ["ann:secret1", "ben:secret2"]
        return [login_of(self.bug, name) for name in USERS] if self.service == "shelves" else []

    def explored(self, path: Path) -> ServiceExplorationResult:
        options: dict[str, Any] = {"openapi": DOCUMENT} if self.service == "library" else {}
        return explore_api(
            self.app(path),
            systems=path,
            login=self.logins,
            max_requests=250,
            settle=0,
            progress=False,
            **options,
        )


PLANTED = [
    *(Planted("blog", bug) for bug in BUGS),
    Planted("tasks", "open_patch"),
    Planted("library", "late"),  # sessions in cookies
    Planted("journal", "anonymous"),  # and tokens against CSRF
    *(Planted("shelves", scheme) for scheme in SCHEMES),  # an API key, a token, HTTP basic
]


def run_tests(source: str, client: Any, path: Path) -> list[bool]:
    """Run each test of a module; return whether it passed."""
    names: dict[str, Any] = {}
    exec(compile(source, "test_found.py", "exec"), names)
    passed = []
    for name, test in list(names.items()):
        if not name.startswith("test_"):
            continue
        fixtures: dict[str, Any] = {"client": client, "rows": lambda: stored_rows(path)}
        wanted = test.__code__.co_varnames[: test.__code__.co_argcount]
        try:
            test(**{each: fixtures[each] for each in wanted})
            passed.append(True)
        except AssertionError:
            passed.append(False)
    return passed


@pytest.mark.parametrize("planted", PLANTED, ids=lambda each: f"{each.service}-{each.bug}")
def test_scripts_show_a_violation_on_a_fresh_service_and_pass_on_the_correct_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, planted: Planted
) -> None:
    result = planted.explored(tmp_path / "explored.db")
    assert result.reproductions
    for number, login in enumerate(planted.logins, 1):
        monkeypatch.setenv(f"CLEW_LOGIN_{number}", login)
    for number, each in enumerate(result.reproductions):
        for correct in (False, True):
            fresh = tmp_path / f"{number} {correct}.db"
            with Client(planted.app(fresh, correct=correct)) as client:
                assert run_tests(each.pytest(), client, fresh) == [correct], each.pytest()
    if not TOOLS:
        return
    scripts = [each for each in result.save_reproductions(tmp_path / "scripts") if each.suffix == ".sh"]
    for number, script in enumerate(scripts):
        for correct in (False, True):
            fresh = tmp_path / f"curl {number} {correct}.db"
            done = run_script(script, planted.app(fresh, correct=correct), fresh)
            assert done.returncode == (0 if correct else 1), (script.read_text(), done)


def run_script(script: Path, app: Any, path: Path) -> Any:
    """Run a script on a new server of an application."""
    if callable(getattr(app, "wsgi_app", None)):
        return with_server(app, lambda url: run_script_at(url, script, path))
    with serving(app) as url:
        return run_script_at(url, script, path)


def run_script_at(url: str, script: Path, path: Path) -> Any:
    """Run a script on a running service; `ROWS` prints what its database holds."""
    rows = f"{shlex.quote(sys.executable)} {shlex.quote(PRINT_ROWS)} {shlex.quote(str(path))}"
    return subprocess.run(
        [script, url],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "ROWS": rows},
        stdin=subprocess.DEVNULL,
    )


@contextmanager
def serving(app: Any, loop: Any = "auto") -> Iterator[str]:
    """The address of a running ASGI application."""
    import uvicorn

    listener = socket.socket(proto=socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    config = uvicorn.Config(app, loop=loop, log_level="critical", timeout_graceful_shutdown=1, ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    listener.listen()
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


def test_the_module_of_tests_can_be_imported(tmp_path: Path) -> None:
    result = Planted("blog", "any_actor").explored(tmp_path / "blog.db")
    files = result.save_reproductions(tmp_path / "scripts")
    source = files[0].read_text("utf-8")
    ast.parse(source)
    fresh = tmp_path / "fresh.db"
    with Client(blog(str(fresh))) as client:
        assert run_tests(source, client, fresh) == [True, True]


def exchange(method: str, path: str, answer: Any, **sent: Any) -> SentRequest:
    response = HttpResponse(200, [], json.dumps(answer).encode())
    return SentRequest(HttpRequest(method, path, **sent), response, "call")


def test_a_script_takes_an_id_from_the_response_that_gave_out_that_one() -> None:
    found = Reproduction(
        "server error: GET /rooms",
        "",
        (
            exchange("post", "/login", {"id": 1}),
            exchange("post", "/rooms", {"id": 1, "owner_id": 1}, json={"seats": 1}),
            exchange("post", "/rooms/1/bookings", {"room_id": 1, "id": 1}),
            exchange("post", "/payments", {}, json={"room_id": 1, "amount": 1}),
            exchange("delete", "/bookings/1", {}),
            exchange("get", "/rooms", {}, query=(("booking_id", "1"), ("limit", "1"))),
        ),
    )
    test, script = found.pytest(), found.curl()
    for each in (
        "f\"/rooms/{r1.json()['id']}/bookings\"",
        "json={'room_id': r1.json()['id'], 'amount': 1}",
        "f\"/bookings/{r2.json()['id']}\"",
        "params={'booking_id': r2.json()['id'], 'limit': '1'}",
    ):
        assert each in test, test
    room, booking = ("$(echo \"$R1\" | jq -r '.id')", "$(echo \"$R2\" | jq -r '.id')")
    for each in (
        f"/rooms/{room}/bookings",
        f"""'{{"room_id": '"{room}"', "amount": 1}}'""",
        f"/bookings/{booking}",
        f"?booking_id={booking}&limit=1",
    ):
        assert each in script, script


@pytest.mark.posix
@pytest.mark.skipif(not TOOLS, reason="the scripts use curl and jq")
def test_a_curl_script_shows_the_violation_where_ids_differ(tmp_path: Path) -> None:
    path = str(tmp_path / "items.db")
    result = explore_api(
        items(path, broken=True),
        openapi=ITEMS,
        systems=path,
        max_requests=250,
        settle=0,
        progress=False,
    )
    (script,) = [each for each in result.save_reproductions(tmp_path / "scripts") if each.suffix == ".sh"]
    for kind in ("broken", "fixed"):
        app = items(str(tmp_path / kind), broken=kind == "broken")
        first = in_process(app)
        first.send(HttpRequest("post", "/items", json={"name": "other"}))
        first.close()
        done = with_server(app, lambda url: subprocess.run([script, url], capture_output=True, text=True))
        assert done.returncode == (1 if kind == "broken" else 0), done


def with_server(app: Any, use: Callable[[str], Any]) -> Any:
    with make_server("127.0.0.1", 0, app, handler_class=QuietHandler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            return use(f"http://127.0.0.1:{server.server_port}")
        finally:
            server.shutdown()
            thread.join()
