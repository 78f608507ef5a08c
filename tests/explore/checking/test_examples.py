"""Mistakes that people really make: each is found by a shortest path, each mended version explored to its end."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]

FOUND: dict[str, tuple[int, int, str, list[str]]] = {
    "double_charge": (
        34,
        44,
        "charged once",
        ["time out charge#0 in call 1", "retry charge#0", "complete charge#0"],
    ),
    "lost_update": (
        18,
        18,
        "nothing lost",
        [
            "complete look_for_salary#0",
            "complete look_for_rent#0",
            "complete pay_salary#0",
            "complete pay_rent#0",
            "complete close#0",
        ],
    ),
    "late_success": (10, 9, "one parcel", ["time out ship#0", "retry ship#0", "complete ship#0"]),
    "compensation": (
        9,
        10,
        "no leftovers",
        [
            "complete book_hotel#0",
            "complete has_hotel#0",
            "complete cancel_flight#0",
            "complete book_flight#0",
        ],
    ),
}
FIXED = {"double_charge": (38, 47), "lost_update": (5, 5), "late_success": (26, 32), "compensation": (51, 81)}


def example(name: str) -> Any:
    return importlib.import_module(f"examples.checks.{name}")


@pytest.mark.parametrize("name", FOUND)
def test_the_mistake_is_found_by_a_shortest_path(name: str) -> None:
    states, transitions, invariant, path = FOUND[name]
    result = example(name).check.run()
    assert not result.ok
    (violation,) = result.violations
    assert (violation.name, list(violation.actions), violation.confirmed) == (invariant, path, True)
    assert (result.states, result.transitions) == (states, transitions)
    whole = example(name).check.but(reduce=False).run()
    assert len(whole.violations[0].path) == len(path)


@pytest.mark.parametrize("name", FIXED)
def test_the_mended_version_is_explored_to_the_end(name: str) -> None:
    result = example(name).fixed.run()
    assert result.ok, str(result)
    assert (result.states, result.transitions) == FIXED[name]


@pytest.mark.parametrize("name", FOUND)
def test_the_story_tells_what_happened(name: str) -> None:
    told = str(example(name).check.run())
    for choice in FOUND[name][3]:
        assert choice in told
    assert told.startswith("1 wrong in ")


def test_a_card_is_charged_for_the_second_time_in_so_many_words() -> None:
    (tale,) = example("double_charge").check.run().tales
    assert (
        str(tale)
        == """\
charged once: the card was charged more than once
  1. time out charge#0 in call 1
       charge#0: call 0 ('charge') is made
       bank is now {'charge 1': 'tea'}
  2. retry charge#0
  3. complete charge#0
       charge#0: call 0 ('charge') is made, for the second time
       bank is now {'charge 1': 'tea', 'charge 2': 'tea'}
       step 1 is committed: receipt = 'receipt for tea'"""
    )


def test_the_world_is_left_as_it_was() -> None:
    module = example("lost_update")
    module.check.run()
    assert module.accounts.get("balance") == 100


def test_the_same_counterexample_under_any_hash_seed() -> None:
    script = (
        "import json, sys; from examples.checks import double_charge, compensation\n"
        "print(json.dumps([m.check.run().to_dict() for m in (double_charge, compensation)]))"
    )
    found = []
    for seed in ("0", "1", "4242"):
        done = subprocess.run(
            [sys.executable, "-c", script],
            cwd=ROOT,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
            capture_output=True,
            text=True,
            check=True,
        )
        found.append(json.loads(done.stdout))
    assert found[0] == found[1] == found[2]
    assert found[0][0]["counterexamples"][0]["choices"] == FOUND["double_charge"][3]
