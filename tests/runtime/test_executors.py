"""Processes that can be killed one by one."""

from __future__ import annotations

import asyncio
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from clew import Engine, Graph, node
from clew.errors import DefinitionError, NodeError, NodeTimeoutError, WorkerLostError
from clew.graph import Node
from clew.runtime.executors import RemoteExecutor, processes
from tests.runtime import on_processes


@pytest.fixture(scope="module")
def two() -> Iterator[RemoteExecutor]:
    with processes(2) as executor:
        yield executor


def drive(nodes: list[Node], values: dict[str, Any], asynchronously: bool, **options: Any) -> Any:
    engine = Engine(Graph(nodes), **options)
    return (
        asyncio.run(engine.arun(values, check=False)) if asynchronously else engine.run(values, check=False)
    )


@pytest.mark.parametrize("asynchronously", [False, True])
def test_a_node_that_hangs_is_killed_at_its_timeout_and_no_other_is(
    two: RemoteExecutor, tmp_path: Path, asynchronously: bool
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
        engine = Engine(Graph([on_processes.hangs]), executor=executor)
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
        there = Engine(Graph([on_processes.here]), executor=one).run({"a": 1})["here"]
    assert there not in (os.getpid(), int(pid.read_text()))


@pytest.mark.parametrize("asynchronously", [False, True])
def test_nodes_run_in_processes(two: RemoteExecutor, asynchronously: bool) -> None:
    result = drive([on_processes.here, on_processes.there], {"a": 1}, asynchronously, executor=two)
    assert os.getpid() not in (result["here"], result["there"])


def test_a_process_that_dies_fails_its_own_node_alone(two: RemoteExecutor) -> None:
    result = drive([on_processes.dies, on_processes.here], {"a": 1}, False, executor=two)
    assert type(result.error) is WorkerLostError
    assert result.provisional["here"] != os.getpid()


def test_what_is_raised_there_is_raised_here_and_says_where(two: RemoteExecutor) -> None:
    result = drive([on_processes.fails, on_processes.here], {"a": 1}, False, executor=two)
    assert (type(result.error), str(result.error)) == (ValueError, "no 1")
    assert any("on_processes.py" in note for note in result.error.__notes__)


def test_what_cannot_cross_fails_its_node(two: RemoteExecutor) -> None:
    nodes = [on_processes.returns_a_lock, on_processes.here]
    result = drive(nodes, {"a": 1}, False, executor=two)
    assert "pickled" in str(result.error)


def test_plain_functions_are_refused(two: RemoteExecutor) -> None:
    with pytest.raises(NotImplementedError):
        two.submit(os.getpid)


def test_an_executor_that_was_shut_down_takes_no_node() -> None:
    one = processes(1)
    one.shutdown()
    result = drive([on_processes.here], {"a": 1}, False, executor=one)
    assert isinstance(result.error, RuntimeError)


def test_a_function_that_another_process_does_not_find_is_an_error(two: RemoteExecutor) -> None:
    result = drive([node(lambda a: a, name="local")], {"a": 1}, False, executor=two)
    assert (type(result.error), 'on="driver"' in str(result.error)) == (NodeError, True)


def test_a_plain_function_of_a_module_and_one_in_a_class_cross(two: RemoteExecutor) -> None:
    result = drive([on_processes.bare, on_processes.Box.boxed], {"a": 1}, False, executor=two)
    assert os.getpid() not in (result["bare"], result["boxed"])


def test_the_pool_of_the_standard_library_is_refused_with_the_way_out() -> None:
    with ProcessPoolExecutor(1) as pool, pytest.raises(DefinitionError):
        Engine(Graph([on_processes.here]), executor=pool)


def test_an_executor_that_pickles_is_an_error_of_its_node() -> None:
    class Pickling(Executor):
        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            pickle.dumps(fn)
            raise AssertionError("unreachable")

    result = drive([on_processes.here, on_processes.there], {"a": 1}, False, executor=Pickling())
    assert (type(result.error), "executors.processes" in str(result.error)) == (NodeError, True)


def test_processes_that_cannot_start_fail_the_node(tmp_path: Path) -> None:
    """Each process reads the script first, and this one refuses that."""
    script = tmp_path / "script.py"
    script.write_text(
        "if __name__ == '__mp_main__':\n"
        "    raise SystemExit(3)\n"
        "from clew import Engine, Graph\n"
        "from clew.runtime.executors import processes\n"
        "from tests.runtime import on_processes\n"
        "with processes(1) as one:\n"
        "    result = Engine(Graph([on_processes.here]), executor=one).run({'a': 1}, check=False)\n"
        "    print(type(result.error).__name__, result.error)\n"
    )
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout.startswith("NodeError"), done.stdout + done.stderr


@pytest.mark.parametrize("workers", [0, -1, True, 1.5, "2"])
def test_the_number_of_processes_is_checked(workers: Any) -> None:
    with pytest.raises(DefinitionError, match="workers must be an int >= 1"):
        processes(workers)


def test_there_are_as_many_processes_as_cores_unless_told_otherwise() -> None:
    with processes() as executor:
        backend: Any = executor.backend
        assert backend.count == os.cpu_count()


def test_an_executor_ends_in_a_program_that_waits_for_no_child() -> None:
    program = """
import signal
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
from clew import Engine, Graph
from clew.runtime.executors import processes
from tests.runtime import on_processes

if __name__ == "__main__":
    with processes(2) as executor:
        print(Engine(Graph([on_processes.here]), executor=executor).run({"a": 1}).status)
"""
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, cwd=root, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "completed\n", "")
