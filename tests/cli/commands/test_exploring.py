"""``clew explore``."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.cli.command import Folder


@pytest.fixture
def shop(folder: Folder) -> Folder:
    shutil.copy(Path(__file__).parents[1] / "shop.py", folder.path / "shop.py")
    return folder


def test_a_violation_is_exit_code_1_with_the_path(shop: Folder) -> None:
    done = shop.clew("explore", "shop:buggy", code=1)
    assert "9 states, 12 transitions, 1 violation; exploration complete" in done.stdout
    assert "1. MEDIUM refunds: too many refunds" in done.stdout
    assert "     1. refund                   orders.refunds: 0 → 1" in done.stdout
    assert done.stderr == ""


def test_no_violation_is_exit_code_0(shop: Folder) -> None:
    done = shop.clew("explore", "shop:fixed")
    assert "0 violations; exploration complete" in done.stdout


def test_as_json(shop: Folder) -> None:
    assert shop.json("explore", "shop:fixed")["violations"] == []


AGENT = """
import sqlite3
from clew.explore import Action, Agent, World
from clew.explore.systems import SQLiteSystem

def more(world):
    with sqlite3.connect("app.db") as db:
        db.execute("INSERT INTO t SELECT count(*) FROM t")
    db.close()

world = World(systems={"db": SQLiteSystem("app.db")})
agent = Agent(world, [Action("more", more, max_calls=2)])
"""


def test_triggers_are_removed_from_a_database_at_the_end(folder: Folder) -> None:
    (folder.path / "small.py").write_text(AGENT)
    db = sqlite3.connect(folder.path / "app.db")
    db.execute("CREATE TABLE t (n)")
    folder.clew("explore", "small:agent")
    assert db.execute("SELECT name FROM sqlite_master").fetchall() == [("t",)]
    assert db.execute("SELECT * FROM t").fetchall() == []
    db.close()


def test_reports(shop: Folder) -> None:
    names = [f"report.{form}" for form in ("html", "json", "xml", "md", "dot")]
    words = [word for name in names for word in ("--report", name)]
    done = shop.clew("explore", "shop:buggy", *words, code=1)
    assert all((shop.path / name).stat().st_size > 100 for name in names)
    assert "note: wrote report.html" in done.stderr
    assert ElementTree.parse(shop.path / "report.xml").getroot().get("failures") == "1"


def test_a_journal_and_a_limit(shop: Folder) -> None:
    words = ("explore", "shop:fixed", "--store", "explore.db")
    assert shop.json(*words, "--max-steps", "3")["truncated"]
    assert not shop.json(*words)["truncated"]
    assert (shop.path / "explore.db").exists()
    done = shop.clew("explore", "shop:broken", "--store", "explore.db", code=2)
    assert "another exploration" in done.stderr


def test_an_aborted_exploration_is_exit_code_1_with_the_result_so_far(shop: Folder) -> None:
    done = shop.clew("explore", "shop:broken", code=1)
    assert "1 state, 1 transition, 0 violations; aborted" in done.stdout
    assert "error: the exploration was aborted" in done.stderr
    assert "connection lost" in done.stderr


@pytest.mark.parametrize(
    "words, said",
    [
        (["shop:nothing"], "has no 'nothing'"),
        (["shop:number"], "must be a clew.explore.Agent, got int"),
        (["nowhere:agent"], "module 'nowhere' does not exist"),
        (["shop.py"], "does not name an agent"),
        (["shop:buggy", "--report", "report.pdf"], "cannot write report.pdf"),
        (["shop:buggy", "--max-steps", "-1"], "max-steps"),
        ([], "MODULE:AGENT"),
    ],
)
def test_an_invalid_command_is_exit_code_2(words: list[str], said: str, shop: Folder) -> None:
    done = shop.clew("explore", *words, code=2)
    assert said in done.stderr.replace("\nhint: ", "; ")


def test_a_report_that_cannot_be_written_is_rejected_before_the_exploration(shop: Folder) -> None:
    done = shop.clew("explore", "shop:buggy", "--report", "nowhere/report.html", code=2)
    assert "nowhere is not a writable directory" in done.stderr
    assert done.stdout == ""


STUCK = """
import time
from clew.explore import Action, Agent, World
from clew.explore.systems import MemoryStorage

storage = MemoryStorage({"n": 0})

def wait(world):
    storage.put("n", 1)
    with open("begun", "w"):
        pass
    while True:
        time.sleep(0.01)

agent = Agent(World(systems={"s": storage}), [Action("wait", wait)])
"""


@pytest.mark.parametrize(
    "words, hint",
    [((), "run it with --store FILE"), (("--store", "e.db"), "run the command again")],
)
def test_an_interrupt_reports_the_world_and_how_to_resume(
    folder: Folder, words: tuple[str, ...], hint: str
) -> None:
    (folder.path / "stuck.py").write_text(STUCK)
    os.mkfifo(folder.path / "begun")
    process = folder.start("explore", "stuck:agent", *words)
    (folder.path / "begun").read_text()  # until the action is at work
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=300)
    assert process.returncode == 130
    assert "error: interrupted; the world is in its initial state" in stderr
    assert f"hint: {hint}" in stderr


TORN = """
import os
from clew.explore import Action, Agent, World

def fails(world):
    raise OSError(os.fsdecode(b"torn \\xff \\x1b[31m"))

agent = Agent(World(), [Action("open", fails)])
"""


def test_a_message_without_encoding_is_printed(folder: Folder) -> None:
    (folder.path / "torn.py").write_text(TORN)
    stdout = folder.clew("explore", "torn:agent", code=1).stdout
    assert r"open raised OSError: torn \udcff \x1b[31m" in stdout
    (violation,) = folder.json("explore", "torn:agent", code=1)["violations"]
    assert os.fsencode(violation["message"]) == b"torn \xff \x1b[31m"
