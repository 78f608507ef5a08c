"""`clew check` on graphs and checks of a module."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
MODULE = """
from clew import Graph, RetryPolicy, node
from clew.explore import Check, Invariant
from clew.explore.systems import MemoryStorage

parcels = MemoryStorage()

@node(output="parcel", retry=RetryPolicy(max_attempts=2, base_delay=1.0))
def ship(order):
    parcels.put(f"parcel {len(parcels.list()) + 1}", order)
    return order

@node(output="note")
def tell(parcel):
    return f"{parcel} is on its way"

graph = Graph([ship, tell])
one = Invariant("one parcel", lambda world: len(world.systems["parcels"].list()) < 2)
check = Check(graph, {"order": "tea"}, [one], faults={"timeout"}, systems={"parcels": parcels})
"""


def clew(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "clew", *args],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("checked")
    (made / "flow.py").write_text(MODULE, "utf-8")
    return made


def test_a_violation_is_printed_saved_and_replayed(folder: Path) -> None:
    done = clew(folder, "check", "flow:check", "--report", "found.json", "--report", "found.html")
    assert done.returncode == 1
    assert "one parcel: " in done.stdout
    assert "1. time out ship#0" in done.stdout
    assert (folder / "found.html").read_text("utf-8").startswith("<!doctype html>")
    again = clew(folder, "check", "flow:check", "--replay", "found.json", "--json")
    assert again.returncode == 1
    (replayed,) = json.loads(again.stdout)
    assert (replayed["invariant"], replayed["violated"]) == ("one parcel", True)
    assert replayed["choices"] == ["time out ship#0", "retry ship#0", "complete ship#0"]


def test_a_graph_is_checked_for_its_guarantees(folder: Path) -> None:
    done = clew(
        folder, "check", "flow:graph", "order=tea", "--faults", "crash", "--invariant", "terminates", "--json"
    )
    found = json.loads(done.stdout)
    assert (done.returncode, found["ok"], found["faults"], found["counterexamples"]) == (
        0,
        True,
        ["crash"],
        [],
    )


def test_a_truncated_check_is_not_ok(folder: Path) -> None:
    done = clew(folder, "check", "flow:graph", "order=tea", "--max-steps", "2")
    assert done.returncode == 1
    assert "not every state was explored" in done.stdout


@pytest.mark.parametrize(
    "args, message",
    [
        (["flow:graph", "order=tea", "--faults", "crsh"], "unknown kind 'crsh'"),
        (["flow:graph", "order=tea", "--invariant", "end"], "unknown invariant 'end'"),
        (["flow:check", "order=tea"], "has its own values and invariants"),
        (["flow:ship"], "flow:ship is a node, not a graph"),
        (["flow:check", "--replay", "flow.py"], "flow.py is not valid JSON"),
        (["flow:graph"], "'order' is missing: node 'ship' reads it"),
    ],
)
def test_an_invalid_command_is_rejected(folder: Path, args: list[str], message: str) -> None:
    done = clew(folder, "check", *args)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr


def test_an_unwritable_report_is_rejected_before_the_exploration(folder: Path) -> None:
    for name, message in (("found.pdf", ".json"), ("gone/found.json", "not a writable directory")):
        done = clew(folder, "check", "flow:check", "--report", name)
        assert (done.returncode, done.stdout) == (2, "")
        assert message in done.stderr


def test_a_replay_needs_the_invariant_of_the_counterexample(folder: Path) -> None:
    clew(folder, "check", "flow:check", "--report", "parcel.json")
    done = clew(folder, "check", "flow:graph", "order=tea", "--replay", "parcel.json")
    assert (done.returncode, done.stdout) == (2, "")
    assert "'one parcel', which is not an invariant of this check" in done.stderr


def test_a_file_without_counterexamples(folder: Path) -> None:
    clew(folder, "check", "flow:graph", "order=tea", "--report", "fine.json")
    done = clew(folder, "check", "flow:graph", "order=tea", "--replay", "fine.json")
    assert done.returncode == 0
    assert "no counterexamples" in done.stderr
    (folder / "damaged.json").write_text('{"clew_check": 2, "counterexamples": [{}]}', "utf-8")
    done = clew(folder, "check", "flow:check", "--replay", "damaged.json")
    assert (done.returncode, "damaged.json is damaged" in done.stderr) == (2, True)


def test_a_counterexample_of_another_graph_is_rejected(folder: Path) -> None:
    (folder / "old.json").write_text(
        json.dumps(
            {
                "clew_check": 2,
                "counterexamples": [{"invariant": "one parcel", "choices": ["complete gone#0"]}],
            }
        ),
        "utf-8",
    )
    done = clew(folder, "check", "flow:check", "--replay", "old.json")
    assert done.returncode == 2
    assert "choice 1, 'complete gone#0', is not possible here" in done.stderr


def test_a_file_of_another_format_is_rejected(folder: Path) -> None:
    (folder / "format.json").write_text('{"clew_check": 1, "counterexamples": []}', "utf-8")
    done = clew(folder, "check", "flow:check", "--replay", "format.json")
    assert (done.returncode, "has format 1" in done.stderr) == (2, True)
