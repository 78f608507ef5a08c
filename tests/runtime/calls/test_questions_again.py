"""A question that an item asks again when the run is gone on with: in other words, it takes the place of the first."""

from __future__ import annotations

import signal
import subprocess
import sys
import warnings
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from clew import Context, Engine, Graph, interrupt, node
from clew.stores import Store
from clew.testing import Stepper, VirtualClock
from tests.refusing import below_ten
from tests.store_fixtures import local_store

store = local_store


def resumed(graph: Graph, store: Store, **options: Any) -> Any:
    durability = options.pop("durability", "sync")
    with warnings.catch_warnings(action="ignore"):  # that the code is another
        return Engine(graph, store=store, durability=durability).resume("r", **options)


def asked(result: Any) -> list[tuple[str, Any]]:
    return [(question.path, question.question) for question in result.questions]


def by_node(name: str, question: Callable[[], str]) -> Any:
    return interrupt(output=name, name=name)(lambda x: question())


def by_context(name: str, question: Callable[[], str]) -> Any:
    @node(output=name, name=name)
    def ask(x: int, ctx: Context) -> Any:
        return ctx.interrupt(question())

    return ask


@pytest.mark.parametrize("asking", [by_node, by_context])
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_question_with_the_time_in_it(store: Store, asking: Any, durability: str) -> None:
    """Two are asked at once and answered one by one, so the other one is asked again, and is not the same."""
    of_a, of_b = count(), count()
    graph = Graph([asking("a", lambda: f"a, {next(of_a)}?"), asking("b", lambda: f"b, {next(of_b)}?")])
    first = Engine(graph, store=store, durability=durability).run({"x": 1}, run_id="r")
    assert asked(first) == [("a#0", "a, 0?"), ("b#0", "b, 0?")]
    second = resumed(graph, store, answers={"a#0": "yes"}, durability=durability)
    assert asked(second) == [("b#0", "b, 1?")]
    assert asked(Engine(graph, store=store).result("r")) == [("b#0", "b, 1?")]
    third = resumed(graph, store, answer="no", durability=durability)
    assert (third.status, third["a"], third["b"]) == ("completed", "yes", "no")


class State(TypedDict, total=False):
    x: int
    total: Annotated[int, below_ten]
    extra: str
    answer: str


def test_a_question_about_something_that_did_not_hold(store: Store) -> None:
    """It was asked ahead, on the strength of an update that was refused."""

    def graph(much: int, extra: str) -> Graph:
        first = node(name="first", output="total")(lambda x: 6)
        second = node(name="second", writes=("total", "extra"))(lambda x: {"total": much, "extra": extra})
        return Graph(
            [first, second, interrupt(output="answer", name="ask")(lambda extra: f"{extra}?")], state=State
        )

    run = Stepper(Engine(graph(7, "refused"), store=store, clock=VirtualClock()), {"x": 1}, run_id="r")
    for path in ("second#0", "ask#0", "first#0"):
        run.complete(path)
    failed = run.finish()
    assert (failed.status, asked(failed)) == ("failed", [])
    assert asked(resumed(graph(1, "taken"), store)) == [("ask#0", "taken?")]
    assert resumed(graph(1, "taken"), store, answer="yes")["answer"] == "yes"


PROGRAM = """
import os, signal, sys
from clew import Engine, Graph, SQLiteStore, interrupt
from clew.runtime.log.writer import LogWriter

def ask(name):
    return interrupt(output=name, name=name)(lambda x: f"{name}, {sys.argv[2]}?")

engine = Engine(Graph([ask("a"), ask("b")]), store=SQLiteStore(sys.argv[1]))
if sys.argv[2] == "first":
    print(engine.run({"x": 1}, run_id="r").status)
elif sys.argv[2] == "killed":
    append = LogWriter._append
    def appended(self, work):
        append(self, work)
        if work[1] and not work[0]:  # the old question is gone, and the new one is not there yet
            os.kill(os.getpid(), signal.SIGKILL)
    LogWriter._append = appended
    engine.resume("r", answers={"a#0": 1})
else:
    print(engine.resume("r").status, engine.resume("r", answer=2).status)
"""


def test_killed_between_the_old_question_and_the_new_one(tmp_path: Path) -> None:
    def go(phase: str) -> tuple[int, str]:
        command = [sys.executable, "-W", "ignore", "-c", PROGRAM, str(tmp_path / "runs.db"), phase]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        return done.returncode, done.stdout + done.stderr

    assert go("first") == (0, "waiting\n")
    assert go("killed") == (-signal.SIGKILL, "")
    assert go("afterwards") == (0, "waiting completed\n")
