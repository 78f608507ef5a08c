"""A browser for the session, a server for each module, and pages that report every message of their console."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sync_api = pytest.importorskip("playwright.sync_api")
uvicorn = pytest.importorskip("uvicorn")

from clew import SQLiteStore  # noqa: E402
from clew.web.server import create_app  # noqa: E402
from tests.browser.filled import fill, fill_answer, fill_values_and_check  # noqa: E402

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
DESK = {"width": 1440, "height": 900}
PHONE = {"width": 390, "height": 844}
ROOT = Path(__file__).parents[2]
PATIENCE = 60_000  # ms: generous, because the machine may be busy
sync_api.expect.set_options(timeout=PATIENCE)


def chromium() -> str | None:
    """Return the path of a Chromium, or None."""
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    return os.environ.get("CLEW_CHROMIUM") or next(
        (found for name in names if (found := shutil.which(name))), None
    )


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    path = chromium()
    if path is None:
        if os.environ.get("CI"):
            pytest.fail("no Chromium on this machine")
        pytest.skip("no Chromium on this machine; set CLEW_CHROMIUM")
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=list(FLAGS), timeout=4 * PATIENCE)
        yield opened
        opened.close()


class Served:
    """A server in a thread of this process, over one SQLite store."""

    def __init__(self, path: Path, **options: Any) -> None:
        self.path = path
        self.store = SQLiteStore(path)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        app = create_app(self.store, **{"address": str(path), **options})
        config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1, ws="none")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True
        )
        self._thread.start()
        deadline = time.monotonic() + 300
        while not self._server.started:
            if time.monotonic() > deadline:
                raise RuntimeError("the server did not start")
            time.sleep(0.01)

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join(300)
        self._socket.close()
        self.store.close()


class Process:
    """`clew serve` as a process of its own; `url` stays the same after a restart."""

    def __init__(self, store: Path, *arguments: str) -> None:
        self._command = [sys.executable, "-m", "clew", "serve", *arguments, "--store", str(store)]
        self._process: subprocess.Popen[str] | None = None
        self.url = ""
        self._port = "0"
        self.start()

    def start(self) -> None:
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        self._process = subprocess.Popen(
            [*self._command, "--port", self._port],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=environment,
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        found = re.search(r"http://[\d.]+:(\d+)", line)
        assert found, f"clew serve printed {line!r}"
        self.url, self._port = found[0], found[1]

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def close(self) -> None:
        assert self._process is not None
        self._process.terminate()
        try:
            self._process.wait(120)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server over a store with one run of each kind."""
    path = tmp_path_factory.mktemp("page") / "clew.db"
    store = SQLiteStore(path)
    fill_answer(store)
    fill(store)
    store.close()
    fill_values_and_check(path)
    server = Served(path)
    yield server
    server.close()


Open = Callable[..., Any]


@pytest.fixture
def open_page(browser: Any, request: pytest.FixtureRequest) -> Iterator[Open]:
    """Open pages; the test fails if one of them has written to its console, or requested another host."""
    contexts: list[Any] = []
    messages: list[str] = []
    allowed: list[str] = []

    def open_(
        url: str,
        *,
        viewport: dict[str, int] = DESK,
        theme: str = "light",
        timezone: str = "UTC",
        expect: str = "",
    ) -> Any:
        context = browser.new_context(
            viewport=viewport,
            color_scheme=theme,
            locale="en-GB",
            timezone_id=timezone,
            reduced_motion="reduce",
        )
        context.set_default_timeout(PATIENCE)
        contexts.append(context)
        if expect:
            allowed.append(expect)
        page = context.new_page()
        host = url.split("/")[2]
        page.on("console", lambda message: messages.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: messages.append(f"error: {error}"))
        page.on(
            "request",
            lambda sent: (
                sent.url.split("/")[2] == host
                or sent.url.startswith("data:")
                or messages.append(f"host: {sent.url}")
            ),
        )
        page.on("dialog", lambda dialog: (messages.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.goto(url)
        page.wait_for_selector("main > *")
        return page

    yield open_
    for context in contexts:
        context.close()
    left = [message for message in messages if not any(re.search(pattern, message) for pattern in allowed)]
    assert left == []
