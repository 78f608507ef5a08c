"""Threads and processes that use one graph concurrently.

The results are linearizable: every result is the value at one moment between the request and the answer, and in the end
everything that is up to date equals what computing everything again gives.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clew import DependencyGraph, schema
from tests.incremental.oracle import FRESH

TURNS = 60


def pair(inputs: list[Any], old: Any, bindings: dict[str, Any]) -> Any:
    return list(inputs)


SCHEMAS = [
    schema("double", ["number"], lambda inputs, old, bindings: inputs[0] * 2),
    schema("triple", ["number"], lambda inputs, old, bindings: inputs[0] * 3),
    schema("sign", ["number"], lambda inputs, old, bindings: inputs[0] % 2),
    schema("both(x)", ["double", "triple"], pair),
    schema("all(x)", ["both(x)", "sign", "number"], pair),
]


def check_answer(answer: Any, low: int, high: int) -> None:
    """The answer is of one moment, between two others."""
    (double, triple), sign, number = answer
    assert (double, triple, sign) == (number * 2, number * 3, number % 2), "parts of two moments"
    assert low <= number <= high, "of a moment before the question or after the answer"


def together(*work: Callable[[], None]) -> None:
    """Run functions in threads of their own; the first error is raised."""
    errors: list[BaseException] = []

    def guarded(function: Callable[[], None]) -> None:
        try:
            function()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(function,)) for function in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


@pytest.mark.parametrize("is_kept", [False, True])
@pytest.mark.parametrize("handles", [1, 2])
def test_threads(is_kept: bool, handles: int, tmp_path: Path) -> None:
    if handles > 1 and not is_kept:
        return  # two graphs in memory have nothing to do with each other
    graphs = [DependencyGraph(SCHEMAS, tmp_path / "graph.db" if is_kept else None) for _ in range(handles)]
    graphs[0].set("number", 0)
    given = [0]
    done = threading.Event()

    def change() -> None:
        for number in range(1, TURNS):
            given.append(number)  # from now on an answer may know it
            graphs[0].set("number", number)
            given[0] = number  # from now on it must
        done.set()

    def ask(which: int) -> None:
        graph, chosen = graphs[which % handles], random.Random(which)
        while not done.is_set():
            low = given[0]
            answer = graph.pull("all", chosen.randrange(3))
            check_answer(answer, low, given[-1])
            if chosen.random() < 0.2:
                graph.invalidate("both", chosen.randrange(3))

    together(change, *(lambda which=which: ask(which) for which in range(4)))
    for graph in graphs:
        for x in range(3):
            check_answer(graph.pull("all", x), TURNS - 1, TURNS - 1)
            assert graph.freshness("all", x) == FRESH
    for graph in graphs:
        graph.close()


CHILD = """
import random, sys
from tests.incremental.test_oracle_threads import SCHEMAS, TURNS
from clew import DependencyGraph

store, who = sys.argv[1], int(sys.argv[2])
chosen = random.Random(who)
with DependencyGraph(SCHEMAS, store) as graph:
    for turn in range(TURNS):
        if chosen.random() < 0.3:
            graph.set("number", turn * 10 + who)
        (double, triple), sign, number = graph.pull("all", chosen.randrange(3))
        assert (double, triple, sign) == (number * 2, number * 3, number % 2), "parts of two moments"
        if chosen.random() < 0.2:
            graph.invalidate("both", chosen.randrange(3))
"""


def test_processes(tmp_path: Path) -> None:
    store = tmp_path / "graph.db"
    with DependencyGraph(SCHEMAS, store) as graph:
        graph.set("number", 0)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    processes = [
        subprocess.Popen([sys.executable, "-c", CHILD, str(store), str(who)], env=environment)
        for who in range(3)
    ]
    assert [process.wait() for process in processes] == [0, 0, 0]
    with DependencyGraph(SCHEMAS, store) as graph:
        number = graph.pull("number")
        for x in range(3):
            fresh = graph.freshness("all", x) == FRESH
            check_answer(graph.pull("all", x), number, number)
            assert fresh <= (graph.freshness("both", x) == FRESH)
