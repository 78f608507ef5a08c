"""`clew check` on graphs and checks of a module."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
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
        [sys.executable, "-m", "clew.cli", *args],
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


def test_what_is_wrong_is_told_saved_and_replayed(folder: Path) -> None:
    done = clew(folder, "check", "flow:check", "--save", "found.json", "--save", "found.html")
    assert done.returncode == 1
    assert "one parcel: " in done.stdout
    assert "1. time out ship#0" in done.stdout
    assert (folder / "found.html").read_text("utf-8").startswith("<!doctype html>")
    again = clew(folder, "check", "flow:check", "--replay", "found.json", "--json")
    assert again.returncode == 1
    (told,) = json.loads(again.stdout)
    assert (told["invariant"], told["still_wrong"]) == ("one parcel", True)
    assert told["choices"] == ["time out ship#0", "retry ship#0", "complete ship#0"]


def test_a_graph_is_checked_for_its_promises(folder: Path) -> None:
    done = clew(
        folder, "check", "flow:graph", "order=tea", "--faults", "crash", "--invariant", "ends", "--json"
    )
    found = json.loads(done.stdout)
    assert (done.returncode, found["ok"], found["faults"], found["counterexamples"]) == (
        0,
        True,
        ["crash"],
        [],
    )


def test_ending_early_is_not_called_right(folder: Path) -> None:
    done = clew(folder, "check", "flow:graph", "order=tea", "--max-steps", "2")
    assert done.returncode == 1
    assert "ended early" in done.stdout


@pytest.mark.parametrize(
    "args, told",
    [
        (["flow:graph", "order=tea", "--faults", "crsh"], "there is no fault 'crsh'"),
        (["flow:graph", "order=tea", "--invariant", "end"], "there is no invariant 'end'"),
        (["flow:check", "order=tea"], "flow:check is a check, which has its own values and invariants"),
        (["flow:ship"], "flow:ship is a node, not a graph"),
        (["flow:check", "--replay", "flow.py"], "flow.py cannot be read"),
        (["flow:graph"], "'order' is missing: node 'ship' reads it"),
    ],
)
def test_a_wrong_command_says_what_is_wrong(folder: Path, args: list[str], told: str) -> None:
    done = clew(folder, "check", *args)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr


def test_a_file_that_cannot_be_written_is_refused_before_anything_is_explored(folder: Path) -> None:
    for name, told in (("found.pdf", "ends in .json"), ("gone/found.json", "gone is no folder")):
        done = clew(folder, "check", "flow:check", "--save", name)
        assert (done.returncode, done.stdout) == (2, "")
        assert told in done.stderr


def test_a_counterexample_to_an_invariant_that_is_not_checked_is_not_called_mended(folder: Path) -> None:
    clew(folder, "check", "flow:check", "--save", "parcel.json")
    done = clew(folder, "check", "flow:graph", "order=tea", "--replay", "parcel.json")
    assert (done.returncode, done.stdout) == (2, "")
    assert "a counterexample to 'one parcel', and this check has no such invariant" in done.stderr


def test_a_file_without_counterexamples_says_so(folder: Path) -> None:
    clew(folder, "check", "flow:graph", "order=tea", "--save", "fine.json")
    done = clew(folder, "check", "flow:graph", "order=tea", "--replay", "fine.json")
    assert done.returncode == 0
    assert "fine.json has no counterexamples: nothing was wrong" in done.stderr
    (folder / "damaged.json").write_text('{"clew_check": 1, "counterexamples": [{}]}', "utf-8")
    done = clew(folder, "check", "flow:check", "--replay", "damaged.json")
    assert (done.returncode, "damaged.json is damaged" in done.stderr) == (2, True)


def test_a_counterexample_of_another_graph_is_refused(folder: Path) -> None:
    (folder / "old.json").write_text(
        json.dumps(
            {
                "clew_check": 1,
                "counterexamples": [{"invariant": "one parcel", "choices": ["complete gone#0"]}],
            }
        ),
        "utf-8",
    )
    done = clew(folder, "check", "flow:check", "--replay", "old.json")
    assert done.returncode == 2
    assert "choice 1, 'complete gone#0', cannot be made here" in done.stderr
