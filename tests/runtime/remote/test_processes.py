"""Every check on worker processes of this machine, and what only they have."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from clew import Graph
from clew.errors import CodeMismatchError
from clew.runtime.executors import processes
from clew.runtime.remote.executor import RemoteExecutor
from tests.runtime.remote import checks, faults, flow


@pytest.fixture(scope="module")
def two() -> Iterator[RemoteExecutor]:
    with processes(2) as executor:
        yield executor


@pytest.mark.parametrize("check", checks.CHECKS, ids=lambda check: check.__name__)
def test_on_processes(check: checks.Check, two: RemoteExecutor, tmp_path: Path) -> None:
    check(two, tmp_path)


def test_workers_that_die_at_every_stage_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kills, folder = tmp_path / "kills", tmp_path / "run"
    kills.mkdir()
    folder.mkdir()
    monkeypatch.setenv("CLEW_TEST_KILLS", str(kills))
    with processes(2) as two:
        faults.workers_die_at_every_stage(two, kills, folder)


def test_a_killed_driver_ends_its_processes_and_the_run_continues(
    two: RemoteExecutor, tmp_path: Path
) -> None:
    faults.a_killed_driver_is_continued_elsewhere(two, "executors.processes(2)", tmp_path, is_cluster=False)


def test_a_worker_with_other_code_refuses_the_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = tmp_path / "shop_of_tests.py"
    module.write_text("def price(a):\n    return a + 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import shop_of_tests

    module.write_text(
        "def price(a):\n    return a + 20\n"
    )  # of another size: bytecode is known by time and size
    with processes(1) as one:
        result = Graph([shop_of_tests.price]).run({"a": 1}, executor=one, check=False)
    assert type(result.error) is CodeMismatchError
    sys.modules.pop("shop_of_tests")


def test_a_killed_process_of_an_idle_worker_is_replaced(tmp_path: Path) -> None:
    graph = Graph([flow.pid])
    with processes(1) as one:
        first = graph.run({"a": 1}, executor=one)["pid"]
        os.kill(first, signal.SIGKILL)
        second = graph.run({"a": 1}, executor=one)["pid"]
    assert first != second
