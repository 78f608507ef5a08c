"""Attacks on the page: scripts in data, addresses that leave a folder, hostile stores, huge bodies, many streams."""

from __future__ import annotations

import asyncio
import resource
import shutil
import socket
import sqlite3
from pathlib import Path
from random import Random
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from clew import Engine, SQLiteStore
from clew.errors import ClewError
from clew.web.server import create_app
from clew.web.static_files import load, pages
from tests.browser import flows
from tests.browser.flows import HOSTILE
from tests.web.serving import served

PAYLOADS = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "javascript:alert(1)",
    "</script><svg onload=alert(1)>",
    "{{constructor.constructor('alert(1)')()}}",
    "\u202egnp.exe\u2066",
    "${7*7}' OR 1=1 --",
)


# -- scripts in data ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("payload", PAYLOADS)
def test_payloads_come_back_as_json_text_alone(client: TestClient, store: SQLiteStore, payload: str) -> None:
    engine = Engine(flows.letter, store=store, check=False)
    engine.run({"text": payload}, run_id=payload, attributes={payload: payload})
    name = quote(payload, safe="")
    for path in (
        "",
        "/items",
        "/changes",
        "/state/0",
        "/log",
        "/why?item=ask_editor%230",
        "/graph",
        "/values/0/text",
    ):
        answer = client.get(f"/api/runs/{name}{path}")
        assert answer.status_code == 200, (path, answer.text)
        assert answer.headers["content-type"] == "application/json"
        answer.json()
    assert client.get(f"/api/runs/{name}/state/0").json()["values"][0]["value"] == payload
    # the pages are fixed files: nothing from an address or from data is ever written into them
    page = client.get(f"/runs/{name}?q={name}")
    assert page.content in {file.content for file in pages(load()).values()}
    error = client.get(f"/api/runs/{name}/state/{name}")
    assert error.status_code == 404
    assert error.headers["content-type"] == "application/json"


def test_a_hostile_run_is_shown_everywhere(client: TestClient) -> None:
    name = quote(HOSTILE, safe="")
    assert client.get(f"/api/runs/{name}").json()["id"] == HOSTILE
    assert HOSTILE in client.get("/api/runs").json()["runs"][1]["attributes"]
    assert HOSTILE in client.get("/api/questions").json()["questions"][3]["title"].replace("\\'", "'")


def test_bytes_of_a_value_are_a_download(client: TestClient, store: SQLiteStore) -> None:
    svg = b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>"
    Engine(flows.letter, store=store, check=False).run({"text": svg}, run_id="svg")
    shown = client.get("/api/runs/svg/state/0").json()["values"][0]["value"]
    assert (shown["$"], shown["media"]) == ("bytes", None)  # never shown as an image
    raw = client.get("/api/runs/svg/values/0/text?raw=1")
    assert raw.content == svg
    assert raw.headers["content-type"] == "application/octet-stream"
    assert raw.headers["content-disposition"].startswith("attachment")


# -- addresses ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "/static/../server.py",
        "/static/..%2fserver.py",
        "/static/%2e%2e/server.py",
        "/static/%2e%2e%2f%2e%2e%2fviews/shown.py",
        "/static//etc/passwd",
        "/static/..\\server.py",
        "/static/index.html%00.js",
        "/../../../../etc/passwd",
        "/static/%252e%252e/server.py",
    ],
)
def test_no_address_leaves_the_folder(store: SQLiteStore, path: str) -> None:
    with served(store) as port, socket.create_connection(("127.0.0.1", port), 30) as wire:
        wire.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        answer = b"".join(iter(lambda: wire.recv(65536), b""))
    assert b"def create_app" not in answer
    assert b"root:" not in answer
    assert b"Budget" not in answer
    assert answer.startswith((b"HTTP/1.1 404", b"HTTP/1.1 200", b"HTTP/1.1 400"))


@pytest.mark.parametrize(
    "path", ["/api/runs/%ff", "/api/runs/a%00b", "/api/runs/" + "x/" * 40, "/api/runs/%e2%80"]
)
def test_strange_addresses_are_refused(client: TestClient, path: str) -> None:
    assert client.get(path).status_code in (400, 404)


@pytest.mark.parametrize(
    "query",
    [
        "from=x",
        "from=-5&to=-1",
        "from=99999999999999999999",
        "buckets=0",
        "limit=-1",
        "k=%00",
        "from=1&to=1e9",
        "show=all",
    ],
)
def test_strange_parameters_do_no_harm(client: TestClient, query: str) -> None:
    for part in ("items", "changes", "overview", "calls", "log", "why"):
        assert client.get(f"/api/runs/walk-77/{part}?{query}").status_code in (200, 400, 404)


@pytest.mark.parametrize(
    "body", ["", "[]", "null", "{", '"x"', "[" * 5000, '{"answer": ' * 2000, b"\xff\xfe", "{}"]
)
def test_strange_bodies_are_refused(client: TestClient, body: str | bytes) -> None:
    headers = {"content-type": "application/json"}
    for verb in ("answer", "fork", "rerun", "replay"):
        answer = client.post(f"/api/runs/letter-331/{verb}", content=body, headers=headers)
        assert answer.status_code in (400, 404, 409, 202, 422), (verb, answer.text)
        answer.json()


# -- sizes -------------------------------------------------------------------------------------------------------------


@pytest.mark.posix
def test_an_answer_of_100_megabytes_is_refused_and_not_kept(store: SQLiteStore) -> None:
    head = "POST /api/runs/letter-331/answer HTTP/1.1\r\nHost: localhost\r\n"
    head += "Clew-Request: 1\r\nContent-Type: application/json\r\n"
    chunk = b"x" * 65536
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with served(store) as port:
        for size in (f"Content-Length: {100 << 20}\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n"):
            sent = 0
            with socket.create_connection(("127.0.0.1", port), 30) as wire:
                wire.sendall((head + size).encode())
                try:
                    while sent < 100 << 20:
                        part = b"%x\r\n%s\r\n" % (len(chunk), chunk) if "chunked" in size else chunk
                        wire.sendall(part)
                        sent += len(chunk)
                except OSError:
                    pass  # the server has closed the connection
                wire.settimeout(30)
                try:
                    answer = wire.recv(65536)
                except OSError:
                    answer = b""
            assert answer == b"" or answer.startswith(b"HTTP/1.1 413")
        held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert held < 50_000  # kilobytes: nothing of it is kept
        assert Engine(store=store).result("letter-331").status == "waiting"


def test_a_thousand_event_streams_do_not_starve_others(store: SQLiteStore) -> None:
    async def attack(port: int) -> tuple[int, int, bytes]:
        request = b"GET /api/events?list=1 HTTP/1.1\r\nHost: localhost\r\n\r\n"

        async def one() -> tuple[asyncio.StreamWriter, bytes]:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(request)
            return writer, await reader.readuntil(b"\r\n")

        opened = [await one() for _ in range(1000)]
        accepted = sum(line.startswith(b"HTTP/1.1 200") for _, line in opened)
        refused = sum(line.startswith(b"HTTP/1.1 503") for _, line in opened)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /api/runs?limit=1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        answer = await asyncio.wait_for(reader.read(), 60)
        writer.close()
        for each, _ in opened:
            each.close()
        return accepted, refused, answer

    with served(store) as port:
        accepted, refused, answer = asyncio.run(attack(port))
    assert (accepted, refused) == (64, 936)
    assert answer.startswith(b"HTTP/1.1 200")


# -- hostile stores ----------------------------------------------------------------------------------------------------

PARTS = (
    "",
    "/items",
    "/changes",
    "/state/last",
    "/graph",
    "/why?node=approve",
    "/calls",
    "/log",
    "/overview",
    "/export",
)


def walk_everything(place: Path) -> None:
    """Read everything of a store that may be damaged: each answer is JSON, and nothing crashes."""
    try:
        store = SQLiteStore(place)
    except ClewError:
        return
    try:
        with TestClient(create_app(store), base_url="http://localhost") as client:
            assert client.get("/api").status_code in (200, 409, 500, 503)
            answer = client.get("/api/runs?q=a")
            assert answer.status_code in (200, 409, 500, 503), answer.text
            for path in ("/api/questions", "/api/queues", "/api/diff?a=walk-77&b=walk-77-short"):
                client.get(path).json()
            for run in ("ticket-8841", "invoice-2207", "walk-77-short"):
                for part in PARTS:
                    found = client.get(f"/api/runs/{run}{part}")
                    error = found.json().get("error") if found.status_code != 200 else None
                    assert error is None or error["type"] != "InternalError", (run, part, error)
    finally:
        store.close()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE runs SET status = 'dancing', graph = x'00ff', created = 'never'",
        "UPDATE runs SET error = x'6869', attributes = '[', census = '{', target = 5",
        "UPDATE origins SET start = x'7b7d', codes = 'x', description = 'nothing'",
        "UPDATE steps SET body = x'5b5d'",
        "UPDATE steps SET body = CAST(body AS TEXT), digest = x'00'",
        "UPDATE log SET body = x'7b22246f626a656374223a5b2278222c7b7d5d7d'",
        "UPDATE log SET path = path || '/../..'",
        "DELETE FROM steps WHERE id % 3 = 0",
        "DELETE FROM blobs",
        "UPDATE blobs SET body = x'7b7d'",
        "UPDATE runs SET parent = run_id, parent_step = 0",
        "UPDATE runs SET parent = 'nobody', child_of = run_id",
        "INSERT INTO workers VALUES ('o', '<b>', 'h', 1, 0, 0, 9e9, '', 0, '{\"running\": 5, \"graphs\": [1]}')",
        "INSERT OR REPLACE INTO queue SELECT id, '<q>', 's', 9, 'soon', 0, 0, '' FROM runs",
    ],
)
def test_a_hostile_store_is_reported_not_obeyed(filled: Path, tmp_path: Path, statement: str) -> None:
    place = Path(shutil.copy(filled, tmp_path / "hostile.db"))
    db = sqlite3.connect(place)
    try:
        db.execute(statement)
        db.commit()
    finally:
        db.close()
    walk_everything(place)


@pytest.mark.parametrize("seed", range(6))
def test_a_store_with_random_bytes_is_reported(filled: Path, tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    content = bytearray(filled.read_bytes())
    for _ in range(40):
        content[random.randrange(4096, len(content))] = random.randrange(256)
    place = tmp_path / "random.db"
    place.write_bytes(content)
    walk_everything(place)
