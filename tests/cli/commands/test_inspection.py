"""Verbs that look at runs, carry them elsewhere or delete them."""

from __future__ import annotations

import json
import re
import sqlite3

import pytest

from tests.cli.command import Folder


@pytest.fixture
def ran(folder: Folder) -> Folder:
    folder.clew("run", "flow:graph", "query=hi", "--run-id", "r")
    return folder


def test_runs(ran: Folder) -> None:
    ran.clew("run", "flow:failing", "a=1", "--run-id", "bad", code=1)
    done = ran.clew("runs")
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["run", "r", "bad"]
    assert "ValueError: the pipe is broken" in done.stdout
    (row,) = ran.json("runs", "--status", "completed")
    assert (row["run_id"], row["steps"], row["target"]) == ("r", 2, "flow:graph")
    assert ran.clew("runs", "--status", "waiting").stdout == "no runs with status waiting\n"


def test_show(ran: Folder) -> None:
    done = ran.clew("show", "r")
    assert done.stdout.startswith("run r of flow:graph: completed after 2 steps\n")
    assert 'answer="HI!"' in done.stdout
    done = ran.clew("show", "r", "--step", "1")
    assert 'call#0 called look_up("hi") -> "HI"' in done.stdout
    assert "next: finish#0" in done.stdout


def test_show_as_json_has_checkpoints(ran: Folder) -> None:
    shown = ran.json("show", "r")
    assert [each["step_id"] for each in shown["checkpoints"]] == [0, 1, 2]
    (one,) = ran.json("show", "r", "--step", "1")["checkpoints"]
    assert one == shown["checkpoints"][1]


def test_show_nested(folder: Folder) -> None:
    folder.clew("run", "flow:nested", "query=hi", "--run-id", "r")
    assert "inner#0/finish#0" in folder.clew("show", "r", "--nested").stdout
    shown = folder.json("show", "r", "--nested")
    assert list(shown["checkpoints"][1]["clew"]["nested"]) == ["inner#0"]


def test_why(ran: Folder) -> None:
    done = ran.clew("why", "r", "answer")
    assert "'answer' was written by finish" in done.stdout
    assert "'shout' became version 1" in done.stdout
    assert ran.json("why", "r", "answer")["reasons"][0]["kind"] == "changed"


def test_diff(ran: Folder) -> None:
    ran.clew("fork", "r", "shout=HO", "--step", "1", "--run-id", "f")
    done = ran.clew("diff", "r", "f")
    assert done.stdout.splitlines()[:3] == [
        "runs 'r' and 'f' differ after step 1 of 'r'",
        "before step 2: different values",
        '  shout: "HI" -> "HO"',
    ]
    found = ran.json("diff", "r", "f")
    assert (found["common"], found["since"], found["same"]) == ("r", 1, False)
    assert ran.json("diff", "r", "r")["same"] is True


def test_replay_makes_no_call(ran: Folder) -> None:
    done = ran.clew("replay", "r")
    assert done.stdout.startswith("run 'r' replays: 2 steps, 2 items, 1 recorded call")
    assert ran.lines("effects.log") == ["hi"]


def test_a_changed_request_is_named_with_both_texts(ran: Folder) -> None:
    done = ran.clew("replay", "r", code=1, SUFFIX=" there")
    assert "call#0" in done.stdout
    assert "look_up" in done.stdout
    assert re.search(r'^-.*"hi"$', done.stdout, re.MULTILINE)
    assert re.search(r'^\+.*"hi there"$', done.stdout, re.MULTILINE)
    assert ran.lines("effects.log") == ["hi"]


def test_replay_of_all_runs_lists_what_differs(ran: Folder) -> None:
    ran.clew("run", "flow:asking", "topic=rain", "--run-id", "q")
    assert "2 of 2 runs replay" in ran.clew("replay", "--all").stdout
    done = ran.clew("replay", "--all", "--keep-going", code=1, MARK="?")
    assert "1 of 2 runs replay" in done.stdout
    found = ran.json("replay", "--all", code=1, MARK="?")
    assert [each["ok"] for each in found] == [False, True]
    assert found[0]["report"]["divergences"][0]["node"] == "finish"


def test_a_run_whose_graph_is_gone_is_not_replayed(ran: Folder) -> None:
    (ran.path / "flow.py").write_text("")
    done = ran.clew("replay", "--all", code=1)
    assert "run 'r' was not replayed: module 'flow' has no 'graph'" in done.stdout


def test_export_and_import(ran: Folder) -> None:
    ran.clew("export", "r", "-o", "run.json")
    document = json.loads((ran.path / "run.json").read_text())
    assert document == json.loads(ran.clew("export", "r").stdout)
    ran.clew("import", "run.json", "--store", "other.db")
    assert ran.json("show", "r", "--store", "other.db")["checkpoints"] == document["checkpoints"]
    assert ran.clew("replay", "r", "--store", "other.db").stdout.startswith("run 'r' replays")
    done = ran.clew("import", "run.json", "--store", "other.db", code=2)
    assert done.stderr.startswith("error: run 'r' already exists\nhint: ")


def test_a_waiting_run_goes_on_where_it_was_imported(folder: Folder) -> None:
    folder.clew("run", "flow:asking", "topic=rain", "--run-id", "r")
    folder.clew("export", "r", "-o", "run.json")
    folder.clew("import", "run.json", "--store", "other.db")
    assert (
        folder.json("resume", "r", "--answer", "true", "--store", "other.db")["values"]["sent"]
        == "about rain"
    )


def test_a_tampered_document_is_refused_with_what_is_wrong(ran: Folder) -> None:
    document = json.loads(ran.clew("export", "r").stdout)
    document["checkpoints"][2]["state"]["answer"] = "HA!"
    (ran.path / "run.json").write_text(json.dumps(document))
    done = ran.clew("import", "run.json", "--store", "other.db", code=1)
    assert 'checkpoints[2].state.answer is "HA!", but the log has "HI!"' in done.stderr
    assert ran.json("runs", "--store", "other.db") == []


def test_prune(ran: Folder) -> None:
    ran.clew("run", "flow:graph", "query=a", "--run-id", "old")
    ran.clew("fork", "old", "--run-id", "fork")
    ran.clew("run", "flow:asking", "topic=rain", "--run-id", "waits")
    done = ran.clew("prune", "--keep", "1", "--dry-run")
    assert done.stdout == "r\n1 run would be deleted\n"  # "old" has a fork that stays
    assert ran.json("prune", "--keep", "1")["deleted"] == ["r"]
    assert ran.json("prune", "--older-than", "1h")["deleted"] == []
    assert ran.json("prune", "--keep", "0")["deleted"] == ["old", "fork"]
    assert ran.json("prune", "--status", "waiting")["deleted"] == ["waits"]


def test_doctor_on_a_sound_store(ran: Folder) -> None:
    ran.clew("fork", "r", "shout=HO", "--step", "1", "--run-id", "f")
    done = ran.clew("doctor")
    assert done.stdout.splitlines() == [
        "SQLiteStore('clew.db'): 2 runs (2 completed)",
        "no damage found: all logs are readable and all digests match",
    ]
    found = ran.json("doctor")
    assert (found["damage"], found["orphans"], found["owners"]) == ([], [], [])


def test_doctor_names_the_damage(ran: Folder) -> None:
    ran.clew("run", "flow:graph", "query=ho", "--run-id", "other")
    with sqlite3.connect(ran.path / "clew.db") as db:
        (key, body) = db.execute("SELECT id, body FROM steps ORDER BY id LIMIT 1").fetchone()
        db.execute("UPDATE steps SET body = ? WHERE id = ?", (bytes(body).replace(b"HI", b"HA"), key))
    db.close()
    done = ran.clew("doctor", code=1)
    assert "damage: run 'r': step 1 is damaged" in done.stdout
    assert ran.json("show", "other")["run"]["status"] == "completed"


def test_doctor_needs_no_graph_for_a_fork(ran: Folder) -> None:
    ran.clew("fork", "r", "shout=HO", "--step", "1", "--run-id", "f")
    (ran.path / "flow.py").unlink()
    assert ran.json("doctor")["damage"] == []
    db = sqlite3.connect(ran.path / "clew.db")
    with db:
        db.execute("UPDATE blobs SET body = x'00' WHERE run = 0")
    db.close()
    assert [told for told in ran.json("doctor", code=1)["damage"] if "run 'f'" in told]


@pytest.mark.parametrize(
    "form, begins", [("text", "hello"), ("mermaid", "flowchart"), ("dot", "digraph"), ("svg", "<svg")]
)
def test_graph(folder: Folder, form: str, begins: str) -> None:
    said = folder.clew("graph", "flow:graph", "--format", form).stdout
    assert begins in said
    assert folder.json("graph", "flow:graph")


def test_arrays_and_frames_are_shown_in_short_form(folder: Folder) -> None:
    pytest.importorskip("numpy")
    pytest.importorskip("pandas")
    (folder.path / "arrays.py").write_text(
        "import numpy as np, pandas as pd\n"
        "from clew import Graph, node\n"
        "@node(output='points')\n"
        "def make(n):\n"
        "    return np.arange(n * 3.0).reshape(n, 3)\n"
        "@node(output='parts')\n"
        "def part(points):\n"
        "    return {'table': pd.DataFrame(points), 'first': [points[0, 0]]}\n"
        "graph = Graph([make, part])\n"
    )
    for run_id, n in ("r", 1000), ("s", 2):
        folder.clew("run", "arrays:graph", f"n={n}", "--run-id", run_id)
    shown = folder.clew("show", "r").stdout
    assert "ndarray float64 (1000, 3)" in shown
    assert "DataFrame 1000×3" in shown
    assert "$npy" not in folder.clew("show", "r", "--step", "2").stdout
    assert "ndarray float64 (2, 3) #" in folder.clew("diff", "r", "s").stdout
    assert folder.clew("doctor").returncode == 0
    assert "$npy" in folder.clew("export", "s").stdout
