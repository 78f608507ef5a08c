"""Each example leaves exactly the chain that is written down in ``examples/patterns/golden``, however it is driven.

A golden file has the chain of states and what the example prints. After a change that is meant, write them anew
and look at them: ``UPDATE_GOLDEN=1 pytest tests/examples``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from clew.testing import random_order
from tests.examples.chains import EXAMPLES, NAMES, chain_of, in_order, load

GOLDEN = EXAMPLES / "golden"
PRINTS = "\n--- prints ---\n\n"


def golden_chain(name: str) -> str:
    return (GOLDEN / f"{name}.txt").read_text("utf-8").partition(PRINTS)[0]


def printed(name: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py")],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONUTF8": "1"},
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("name", NAMES)
def test_chain_and_output_are_as_written_down(name: str, tmp_path: Path) -> None:
    told = chain_of(load(name)) + PRINTS + printed(name, tmp_path)
    file = GOLDEN / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(told, "utf-8")
    assert told == file.read_text("utf-8")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("workers", [1, 2, 64])
def test_the_number_of_workers_does_not_show(name: str, workers: int) -> None:
    assert chain_of(load(name), max_concurrent_nodes=workers) == golden_chain(name)


@pytest.mark.parametrize("name", NAMES)
def test_the_order_of_completion_does_not_show(name: str) -> None:
    for seed in range(10):
        assert chain_of(load(name), in_order(random_order(seed))) == golden_chain(name), (
            f"random_order({seed})"
        )


@pytest.mark.parametrize("name", NAMES)
def test_first_or_last_started_first_does_not_show(name: str) -> None:
    for position in (0, -1):
        drive = in_order(lambda running, at=position: running[at])
        assert chain_of(load(name), drive) == golden_chain(name)


@pytest.mark.parametrize("name", NAMES)
def test_no_example_changes_its_inputs(name: str) -> None:
    assert chain_of(load(name), check_mutation=True) == golden_chain(name)


@pytest.mark.parametrize("name", NAMES)
def test_a_small_queue_does_not_show(name: str) -> None:
    assert chain_of(load(name), queue_depth=1) == golden_chain(name)


def test_every_golden_file_has_its_example() -> None:
    assert sorted(file.stem for file in GOLDEN.glob("*.txt")) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_example_says_what_it_shows(name: str) -> None:
    module = load(name)
    assert module.__doc__ is not None
    assert len(module.__doc__.splitlines()) > 3
    assert module.graph.name, "a name is shown wherever its runs are listed"


def test_the_tests_in_the_example_about_testing_pass() -> None:
    example = load("testing_a_graph")
    tests = [test for name, test in vars(example).items() if name.startswith("test_")]
    assert tests
    for test in tests:
        test()
