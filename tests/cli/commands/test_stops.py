"""``--stop-before`` and ``--stop-after``, and what the other commands say about a paused run."""

from __future__ import annotations

import pytest

from tests.cli.command import Folder


def test_a_run_pauses_and_goes_on(folder: Folder) -> None:
    done = folder.clew("run", "flow:graph", "query=hi", "--run-id", "r", "--stop-before", "finish")
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "run r paused after 1 step")
    assert "clew resume r" in done.stdout
    assert [row["status"] for row in folder.json("runs", "--status", "paused")] == ["paused"]
    assert "paused before: finish#0" in folder.clew("show", "r").stdout
    assert folder.json("why", "r", "shout")["node"] == "call"
    assert folder.json("resume", "r")["values"]["answer"] == "HI!"


def test_stops_can_be_repeated_and_replaced(folder: Folder) -> None:
    stops = ("--stop-before", "call", "--stop-before", "finish", "--stop-after", "finish")
    folder.clew("run", "flow:graph", "query=hi", "--run-id", "r", *stops)
    steps = [folder.json("resume", "r") for _ in range(3)]
    assert [(each["status"], each["steps"]) for each in steps] == [
        ("paused", 1),
        ("paused", 2),
        ("completed", 2),
    ]
    folder.clew("run", "flow:graph", "query=hi", "--run-id", "s", *stops)
    assert folder.json("resume", "s", "--stop-after", "call")["steps"] == 1


@pytest.mark.parametrize("option", ["--stop-before", "--stop-after"])
def test_stops_can_be_removed(folder: Folder, option: str) -> None:
    stops = ("--stop-before", "call", "--stop-before", "finish", "--stop-after", "finish")
    folder.clew("run", "flow:graph", "query=hi", "--run-id", "r", *stops)
    assert folder.json("resume", "r", option, "")["status"] == "completed"
    folder.clew("run", "flow:graph", "query=hi", "--run-id", "s", *stops)
    folder.clew("resume", "s", "--stop-before", "", "--stop-before", "finish", code=2)


def test_an_unknown_node_is_an_invalid_command(folder: Folder) -> None:
    done = folder.clew("run", "flow:graph", "query=hi", "--stop-before", "finsh", code=2)
    assert "did you mean 'finish'" in done.stderr


def test_a_paused_run_is_changed_by_hand(folder: Folder) -> None:
    folder.clew("run", "flow:graph", "query=hi", "--run-id", "r", "--stop-before", "finish")
    done = folder.clew("update", "r", "shout=ho", "--as-node", "call")
    assert done.stdout.splitlines()[0] == "run r paused after 2 steps"
    shown = folder.clew("show", "r").stdout
    assert "call#1 (by hand)" in shown
    assert "by hand" in folder.clew("why", "r", "shout").stdout
    assert folder.json("show", "r")["checkpoints"][2]["clew"]["by_hand"] is True
    assert folder.json("update", "r", "marks=2")["status"] == "paused"
    assert folder.json("resume", "r")["values"]["answer"] == "ho!!"
    assert "'shuot'" in folder.clew("update", "r", "shuot=1", code=2).stderr


def test_a_gate_decides_by_hand(folder: Folder) -> None:
    folder.clew("run", "flow:graph", "query=hi", "--run-id", "r")
    assert "not a gate" in folder.clew("update", "r", "--as-node", "call", "--decision", "END", code=2).stderr


def test_a_run_that_is_paused_inside_a_subgraph_says_where(folder: Folder) -> None:
    (folder.path / "outer.py").write_text(
        "from clew import Graph\nimport flow\nouter = Graph([flow.graph.as_node('sub')])\n"
    )
    folder.clew("run", "outer:outer", "query=hi", "--run-id", "r", "--stop-before", "sub/finish")
    assert "paused before: sub#0/finish#0" in folder.clew("show", "r").stdout
