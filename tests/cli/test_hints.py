"""A command that a hint suggests can be pasted into a shell: it names the run, the store and the graph."""

from __future__ import annotations

import re
import shlex
import sqlite3
from contextlib import closing

import pytest

from tests.cli.command import Folder

IDS = ["plain", "-rf", "it's one; $HOME"]


def suggested(text: str) -> list[str]:
    """Return the words of the command in backquotes, or at the end of a line."""
    found = re.search(r"`clew (.*)`$|(?:with|call): clew (.*)$", text, re.MULTILINE)
    assert found is not None, text
    return shlex.split(found[1] or found[2])


def abandon(folder: Folder) -> None:
    """Make all runs look as if their processes had died."""
    with closing(sqlite3.connect(folder.path / "clew.db")) as db, db:
        db.execute("UPDATE runs SET status = 'running', census = NULL, error = NULL")


@pytest.mark.parametrize("run_id", IDS)
@pytest.mark.parametrize("is_listed", [True, False])
def test_the_doctor_suggests_a_command_that_works(folder: Folder, run_id: str, is_listed: bool) -> None:
    folder.clew("run", "flow:graph", "query=hi", f"--run-id={run_id}")
    abandon(folder)
    if not is_listed:
        (folder.path / "pyproject.toml").unlink()
    (orphan,) = folder.json("doctor")["orphans"]
    assert ("--graph" in orphan["command"]) is not is_listed
    words = shlex.split(orphan["command"])
    assert words[0] == "clew"
    folder.clew(*words[1:])
    assert folder.json("runs")[0]["status"] == "completed"


def test_the_doctor_asks_for_the_graph_of_a_run_that_has_no_import_string(folder: Folder) -> None:
    (folder.path / "pyproject.toml").unlink()
    from clew import Engine, Graph, node

    @node(output="m")
    def twice(n: int) -> int:
        return 2 * n

    with Engine(Graph([twice]), store=str(folder.path / "clew.db")) as engine:
        engine.run({"n": 1}, run_id="r")
    abandon(folder)
    (orphan,) = folder.json("doctor")["orphans"]
    assert shlex.split(orphan["command"])[-2:] == ["--graph", "MODULE:GRAPH"]
    for words in (("runs",), ("show", "r")):
        assert orphan["command"] in folder.clew(*words).stdout


@pytest.mark.parametrize("run_id", IDS)
def test_a_waiting_run_names_the_command_that_answers_it(folder: Folder, run_id: str) -> None:
    done = folder.clew("run", "flow:asking", "topic=x", f"--run-id={run_id}")
    again = folder.clew("resume", "--", run_id, code=2)
    for text in (done.stdout, again.stderr):
        words = suggested(text)
        assert words[0] == "resume"
        assert run_id in words
        assert words[words.index("--answer") + 1] == "JSON"
    words = [word if word != "JSON" else "true" for word in suggested(again.stderr)]
    folder.clew(*words)
    assert folder.json("runs")[0]["status"] == "completed"


@pytest.mark.parametrize("run_id", IDS)
def test_a_node_that_never_ran_names_what_blocks_it_and_the_command_that_goes_on(
    folder: Folder, run_id: str
) -> None:
    folder.clew("run", "flow:asking", "topic=x", f"--run-id={run_id}")
    done = folder.clew("why", "--", run_id, "send", code=2)
    assert "approve#0" in done.stderr
    words = [word if word != "JSON" else "true" for word in suggested(done.stderr)]
    folder.clew(*words)
    assert "approve#0" in folder.clew("why", "--", run_id, "send").stdout


def test_the_doctor_does_not_send_the_user_to_the_doctor(folder: Folder) -> None:
    (folder.path / "clew.db").write_text("Dear diary, " * 1000)
    for verb in ("doctor", "runs"):
        done = folder.clew(verb, code=1)
        assert "not a database" in done.stderr
        assert "hint: " in done.stderr
        assert "clew doctor" not in done.stderr


def test_import_names_the_command_that_exports(folder: Folder) -> None:
    (folder.path / "other.json").write_text('{"a": 1}')
    done = folder.clew("import", "other.json", code=1)
    assert "clew export RUN" in done.stderr
    assert "engine" not in done.stderr


def test_control_characters_have_one_escape(folder: Folder) -> None:
    folder.clew("run", "flow:graph", "query=hi", "--run-id", "r", MARK="\x1b[2J", code=0)
    shown = folder.clew("show", "r").stdout
    assert r"\x1b[2J" in shown
    assert r"\u001b" not in shown
    folder.clew("run", "flow:graph", "query=hi", "--run-id", "\x1b[2J", code=2)
    assert r"\x1b" in folder.clew("show", "\x1b[2J", code=2).stderr
    assert folder.json("show", "r")["checkpoints"][2]["state"]["answer"] == "HI\x1b[2J"
