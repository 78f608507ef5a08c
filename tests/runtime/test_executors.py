"""Processes that can be killed one by one."""

from __future__ import annotations

import asyncio
import os
import pickle
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from clew import Engine, Graph
from clew.errors import DefinitionError, NodeError, NodeTimeoutError
from clew.graph import Node
from clew.runtime.executors import Processes, processes
from tests.runtime import on_processes


@pytest.fixture(scope="module")
def two() -> Iterator[Processes]:
    with processes(2) as executor:
        yield executor


def drive(nodes: list[Node], values: dict[str, Any], asynchronously: bool, **options: Any) -> Any:
    engine = Engine(Graph(nodes), **options)
    return (
        asyncio.run(engine.arun(values, check=False)) if asynchronously else engine.run(values, check=False)
    )


@pytest.mark.parametrize("asynchronously", [False, True])
def test_a_node_that_hangs_is_killed_at_its_timeout_and_no_other_is(
    two: Processes, tmp_path: Path, asynchronously: bool
) -> None:
    nodes = [on_processes.stuck, on_processes.beside]
    result = drive(nodes, {"a": str(tmp_path / "pid")}, asynchronously, executor=two)
    assert isinstance(result.error, NodeTimeoutError)
    assert result.provisional["beside"] != os.getpid(), "which returns when the process of the other is gone"


@pytest.mark.parametrize("asynchronously", [False, True])
def test_a_run_that_is_cancelled_leaves_no_process_hanging(tmp_path: Path, asynchronously: bool) -> None:
    pid = tmp_path / "pid"

    def cancel() -> None:
        while not (pid.is_file() and pid.read_text()):
            time.sleep(0.01)
        engine.cancel("r")

    with processes(1) as executor:
        engine = Engine(Graph([on_processes.stuck]), executor=executor)
        thread = Thread(target=cancel)
        thread.start()
        if asynchronously:
            result = asyncio.run(engine.arun({"a": str(pid)}, run_id="r", check=False))
        else:
            result = engine.run({"a": str(pid)}, run_id="r", check=False)
        thread.join()
    assert (result.status, on_processes._is_alive(int(pid.read_text()))) == ("cancelled", False)


def test_after_a_kill_the_next_call_gets_a_new_process(tmp_path: Path) -> None:
    with processes(1) as one:
        graph = Graph([on_processes.stuck])
        engine = Engine(graph, executor=one)
        pid = tmp_path / "pid"
        assert isinstance(engine.run({"a": str(pid)}, check=False).error, NodeTimeoutError)
        there = one.submit(os.getpid).result(30)
    assert there not in (os.getpid(), int(pid.read_text()))


@pytest.mark.parametrize("asynchronously", [False, True])
def test_nodes_run_in_processes(two: Processes, asynchronously: bool) -> None:
    result = drive([on_processes.here, on_processes.there], {"a": 1}, asynchronously, executor=two)
    assert os.getpid() not in (result["here"], result["there"])


def test_a_process_that_dies_fails_its_own_node_alone(two: Processes) -> None:
    result = drive([on_processes.dies, on_processes.here], {"a": 1}, False, executor=two)
    assert (type(result.error), "died" in str(result.error)) == (NodeError, True)
    assert result.provisional["here"] != os.getpid()


def test_what_is_raised_there_is_raised_here_and_says_where(two: Processes) -> None:
    result = drive([on_processes.fails, on_processes.here], {"a": 1}, False, executor=two)
    assert (type(result.error), str(result.error)) == (ValueError, "no 1")
    assert any("on_processes.py" in note for note in result.error.__notes__)


def test_what_cannot_cross_fails_its_node(two: Processes) -> None:
    nodes = [on_processes.returns_a_lock, on_processes.here]
    result = drive(nodes, {"a": 1}, False, executor=two)
    assert "pickled" in str(result.error)


def test_what_cannot_be_sent_is_refused_at_once(two: Processes) -> None:
    with pytest.raises((pickle.PicklingError, AttributeError)):  # which one depends on the version of Python
        two.submit(lambda: 1)


def test_an_answer_that_cannot_be_read_here_is_an_error(two: Processes) -> None:
    with pytest.raises(ZeroDivisionError):
        two.submit(on_processes.Unreadable).result(30)


def test_a_call_that_waits_can_be_taken_back(tmp_path: Path) -> None:
    with processes(1) as one:
        first: Future[Any] = one.submit(time.sleep, 0.2)
        waiting = one.submit(os.getpid)
        assert waiting.cancel()
        assert first.result(30) is None
    with pytest.raises(CancelledError):
        waiting.result(0)


def test_shutting_down_can_take_back_what_waits() -> None:
    one = processes(1)
    first, waiting = one.submit(time.sleep, 0.2), one.submit(os.getpid)
    while not first.running():
        time.sleep(0.001)
    one.shutdown(cancel_futures=True)
    assert (first.done(), waiting.cancelled()) == (True, True)
    with pytest.raises(RuntimeError, match="shut down"):
        one.submit(os.getpid)


@pytest.mark.parametrize("workers", [0, -1, True, 1.5, "2"])
def test_the_number_of_processes_is_checked(workers: Any) -> None:
    with pytest.raises(DefinitionError, match="workers must be an int >= 1"):
        processes(workers)


def test_there_are_as_many_processes_as_cores_unless_told_otherwise() -> None:
    assert len(Processes()._slots) == os.cpu_count()
