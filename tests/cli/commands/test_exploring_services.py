"""``clew explore --app`` and ``--url``."""

from __future__ import annotations

import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.cli.command import Folder

SOURCE = Path(__file__).parents[2] / "explore" / "api" / "items_service.py"
SHOP = """
import sqlite3
from service import items
broken = items("items.db", broken=True)
fixed = items("items.db")
cached, answers = items("items.db"), {}

def stale(environ, start_response):
    if environ["REQUEST_METHOD"] != "GET" or environ["PATH_INFO"] != "/items":
        answers.clear()
        return cached(environ, start_response)
    if not answers:
        answers["list"] = list(cached(environ, lambda *_: None))
    start_response("200 OK", [])
    return answers["list"]
"""


@pytest.fixture
def shop(folder: Folder) -> Folder:
    shutil.copy(SOURCE, folder.path / "service.py")
    (folder.path / "shop.py").write_text(SHOP)
    sqlite3.connect(folder.path / "items.db").close()
    return folder


OPTIONS = (
    "--db",
    "items.db",
    "--max-requests",
    "900",
)  # by count, so that the speed of the machine does not matter


def test_a_violation_of_a_service_is_exit_code_1(shop: Folder) -> None:
    report, scripts = shop.path / "found.xml", shop.path / "scripts"
    done = shop.clew(
        "explore",
        "--app",
        "shop:broken",
        *OPTIONS,
        "--report",
        str(report),
        "--scripts",
        str(scripts),
        code=1,
    )
    assert "1. HIGH deleted, but still there: DELETE /items/{id}" in done.stdout
    assert "never answered 2xx: none" in done.stdout
    assert {each.name for each in scripts.iterdir()} >= {"test_found.py"}
    names = {each.get("classname") for each in ElementTree.parse(report).iter("testcase")}
    assert "clew.explore.finding" in names


def test_a_service_without_violations_is_exit_code_0_and_json(shop: Folder) -> None:
    found = shop.json("explore", "--app", "shop:fixed", *OPTIONS)
    assert found["violations"] == []
    assert found["service"]["never_succeeded"] == []
    assert found["service"]["requests"] > 50


@pytest.mark.parametrize(
    "options, words",
    [
        (("--app", "shop:stale", *OPTIONS), "GET /items"),
        (("--url", "http://shop.example.com"), "--allow-remote"),
        (("--app", "shop:missing"), "missing"),
        (("--app", "nothing:app"), "nothing"),
        (("--app", "shop:fixed", "--within", "soon"), "soon"),
        (("--app", "shop:fixed", "--db", "nowhere.db"), "nowhere.db"),
        ((), "MODULE:AGENT"),
    ],
)
def test_what_is_refused_is_exit_code_2(shop: Folder, options: tuple[str, ...], words: str) -> None:
    done = shop.clew("explore", *options, code=2)
    assert words in done.stderr


def rows(folder: Folder) -> list[str]:
    with sqlite3.connect(folder.path / "items.db") as connection:
        found = [line for line in connection.iterdump() if "_clew_" not in line]
    connection.close()
    return found


@pytest.mark.posix
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_the_database_is_as_before_after_an_interrupt_and_after_a_kill_with_resume(
    shop: Folder, number: signal.Signals
) -> None:
    code = "import shop, sys; from clew.cli import main; main(sys.argv[1:])"
    options = ["explore", "--app", "shop:fixed", "--db", "items.db", "--store", "explore.db"]
    environment = shop.environment()
    connection = sqlite3.connect(shop.path / "items.db")
    connection.execute("CREATE TABLE items (id INTEGER PRIMARY KEY, name TEXT NOT NULL)")
    connection.execute("INSERT INTO items VALUES (7, 'kept')")
    connection.commit()
    connection.close()
    before = rows(shop)
    started = subprocess.Popen(
        [sys.executable, "-c", code, *options, "--max-requests", "1000000", "--resources", "9"],
        cwd=shop.path,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_for_changes(shop, before)
        started.send_signal(number)
        started.wait(300)
    finally:
        started.kill()
        started.wait()
    if number == signal.SIGKILL:
        shop.clew(*options, "--max-requests", "400", "--resources", "9")
    assert rows(shop) == before


def _wait_for_changes(folder: Folder, before: list[str]) -> None:
    """Wait until the exploration has changed the database."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        try:
            if rows(folder) != before:
                return
        except sqlite3.OperationalError:  # the file is locked for a moment
            pass
    raise AssertionError("the exploration never changed the database")
