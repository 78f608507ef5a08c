"""Runs that outlive the process: what a node drew, what was asked, named and forked is there in the next one."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from clew import END, Context, Engine, Graph, RetryPolicy, SQLiteStore, ifelse, interrupt, node
from clew.errors import RunStateError
from clew.testing import VirtualClock, crash_points
from tests.runtime.killed import as_if_killed

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


# -- what a node draws ---------------------------------------------------------------------------------------


def drawn_twice(file: Path, draw: Any, clock: VirtualClock) -> tuple[Any, Any]:
    """What a node draws before a crash, and what it draws when the run is resumed an hour later."""
    drawn: list[Any] = []
    left: list[SQLiteStore] = []

    @node(output="x")
    def act(a: int, ctx: Context) -> str:
        drawn.append(draw(ctx))
        if not left:
            left.append(as_if_killed(file))
        return "done"

    graph = Graph([act])
    Engine(graph, store=SQLiteStore(file), clock=clock).run({"a": 1}, run_id="r")
    clock.advance(clock.monotonic() + 3600)
    Engine(graph, store=left[0], clock=clock).resume("r")
    first, again = drawn
    return first, again


@pytest.mark.parametrize(
    "draw",
    [
        lambda ctx: [ctx.now(), ctx.now()],
        lambda ctx: [ctx.random.random(), ctx.random.randrange(100)],
        lambda ctx: [ctx.uuid4(), ctx.uuid4()],
        lambda ctx: (ctx.idempotency_key, ctx.attempt, ctx.run_id, ctx.step_id, ctx.path),
    ],
    ids=["now", "random", "uuid4", "names"],
)
def test_a_resumed_node_draws_the_same(file: Path, draw: Any) -> None:
    first, again = drawn_twice(file, draw, VirtualClock())
    assert first == again


def test_time_goes_on_between_two_looks_at_the_clock() -> None:
    clock = VirtualClock()

    @node(output="x")
    def act(a: int, ctx: Context) -> float:
        first = ctx.now()
        ctx.sleep(60)
        return (ctx.now() - first).total_seconds()

    assert Graph([act]).run({"a": 1}, clock=clock)["x"] == 60


def test_two_ids_of_a_node_differ() -> None:
    @node(output="x")
    def act(a: int, ctx: Context) -> bool:
        one, other = ctx.uuid4(), ctx.uuid4()
        return one != other and one.version == 4

    assert Graph([act]).run(a=1)["x"]


def test_another_attempt_draws_other_numbers_and_keeps_its_key() -> None:
    drawn: list[tuple[float, str]] = []

    @node(output="x", retry=RetryPolicy(max_attempts=2, base_delay=1e-9))
    def act(a: int, ctx: Context) -> int:
        drawn.append((ctx.random.random(), ctx.idempotency_key))
        if ctx.attempt == 0:
            raise ValueError
        return 1

    Graph([act]).run(a=1)
    assert drawn[0][0] != drawn[1][0]
    assert drawn[0][1] == drawn[1][1]


# -- questions -----------------------------------------------------------------------------------------------

SCRIPT = """
import sys
from clew import Engine, Graph, SQLiteStore, interrupt, node

@interrupt(output="approved")
def approve(draft):
    return f"Publish {draft}?"

@node(output="published")
def publish(draft, approved):
    return draft.upper() if approved else None

@node(output="length")
def measure(draft):
    print("measured")
    return len(draft)

engine = Engine(Graph([approve, publish, measure]), store=SQLiteStore("runs.db"))
if sys.argv[1] == "run":
    print(engine.run({"draft": "hello"}, run_id="r").status)
elif sys.argv[1] == "list":
    print(*[(row.run_id, engine.result(row.run_id).questions[0].question) for row in engine.runs(status="waiting")])
else:
    result = engine.resume("r", answer=True)
    print(result.status, result["published"], result["length"])
"""


def test_a_waiting_run_is_answered_in_another_process(tmp_path: Path) -> None:
    def said(verb: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, verb],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert said("run") == "measured\nwaiting\n"
    assert said("list") == "('r', 'Publish hello?')\n"
    assert said("answer") == "completed HELLO 5\n"


def test_a_waiting_run_wants_an_answer(file: Path) -> None:
    @node(output="x")
    def act(a: int, ctx: Context) -> Any:
        return ctx.interrupt("Which?")

    engine = Engine(Graph([act]), store=SQLiteStore(file))
    engine.run({"a": 1}, run_id="r")
    with pytest.raises(RunStateError, match=r"run 'r' waits for an answer \(act#0: 'Which\?'\)"):
        engine.resume("r")


# -- labels and forks ----------------------------------------------------------------------------------------


def counting(file: Path, **options: Any) -> Engine:
    @node(output="b")
    def one(a: list[str]) -> int:
        return len(a)

    @node(output="c")
    def two(b: int) -> int:
        return b + 10

    @node(output="d")
    def three(c: int) -> int:
        return c + 100

    return Engine(Graph([one, two, three]), store=SQLiteStore(file), **options)


def test_a_label_is_known_in_another_process(file: Path) -> None:
    engine = counting(file)
    engine.run({"a": ["x"]}, run_id="r")
    engine.label_checkpoint("r", "counted", step=1)
    again = counting(file)
    assert again.state("r", step="counted").step == 1
    assert again.fork("r", step="counted", values={"b": 0})["d"] == 110


def test_a_label_is_given_once(file: Path) -> None:
    engine = counting(file)
    engine.run({"a": ["x"]}, run_id="r")
    engine.label_checkpoint("r", "counted", step=1)
    engine.label_checkpoint("r", "counted", step=1)
    with pytest.raises(RunStateError, match="already has a label 'counted' at step 1"):
        counting(file).label_checkpoint("r", "counted", step=2)


def stored(file: Path, run_id: str) -> int:
    """How many bytes a run takes in the store."""
    store = SQLiteStore(file)
    row = store.row(run_id)
    return len(row.start) + sum(len(entry.body) for entry in store.entries(run_id))


@pytest.mark.parametrize("size", [10, 10_000])
def test_a_fork_takes_what_it_changes_however_large_its_parent_is(file: Path, size: int) -> None:
    engine = counting(file)
    engine.run({"a": ["x" * 100] * size}, run_id="r")
    engine.fork("r", step=2, values={"c": 7}, run_id="f")
    assert engine.state("f").get("d") == 107
    assert stored(file, "f") < 500


def test_a_fork_of_a_fork_is_read_through_both(file: Path) -> None:
    engine = counting(file)
    engine.run({"a": ["x"] * 3}, run_id="r")
    engine.fork("r", step=1, values={"b": 2}, run_id="f")
    engine.fork("f", step=2, values={"c": 1}, run_id="g")
    state = counting(file).state("g")
    assert [state.get(name) for name in "bcd"] == [2, 1, 101]


# -- both drivers --------------------------------------------------------------------------------------------


def test_a_run_begun_blocking_is_gone_on_with_on_a_loop(file: Path) -> None:
    calls: list[int] = []
    fail = True

    @node(output="x")
    def act(a: int, ctx: Context) -> int:
        found = ctx.record("call", lambda: calls.append(1) or 7)
        if fail:
            raise ValueError
        return found

    engine = Engine(Graph([act]), store=SQLiteStore(file))
    engine.run({"a": 1}, run_id="r", check=False)
    fail = False
    assert (asyncio.run(engine.aresume("r"))["x"], calls) == (7, [1])


def test_killed_right_after_it_was_answered_it_goes_on_without_another_answer(tmp_path: Path) -> None:
    """The answer is kept, and the row says that the run waits no more."""

    class Killed(BaseException):
        pass

    @interrupt(output="ok")
    def approve(x: int) -> str:
        return "sure?"

    @node(output="y")
    def go(ok: bool) -> str:
        return f"went with {ok}"

    graph, file = Graph([approve, go]), tmp_path / "runs.db"
    with Engine(graph, store=SQLiteStore(file)) as engine:
        assert engine.run({"x": 1}, run_id="r").status == "waiting"

        def die(point: str) -> None:
            if point == "after-append":
                raise Killed

        crash_points.watch(die)
        try:
            with pytest.raises(Killed):
                engine.resume("r", answer=True)
        finally:
            crash_points.watch(None)
    with Engine(graph, store=SQLiteStore(file)) as engine:
        assert engine.store.row("r").status == "cancelled"
        assert engine.resume("r")["y"] == "went with True"


def test_a_confined_failure_keeps_its_error_whatever_snapshots_there_are(tmp_path: Path) -> None:
    left: list[SQLiteStore] = []

    @node(output="bad")
    def fails(x: int) -> int:
        raise ValueError("no luck")

    @node(output="text")
    def write(n: int) -> str:
        return f"{n}" + "x" * 100_000

    @node(output="n")
    def count(text: str, n: int) -> int:
        if n == 8:
            left.append(as_if_killed(tmp_path / "runs.db"))
        return n + 1

    @ifelse(when_true="write", when_false=END)
    def more(n: int) -> bool:
        return n < 10

    graph = Graph([fails, write, count, more])
    engine = Engine(graph, store=SQLiteStore(tmp_path / "runs.db"), on_error="continue")
    unbroken = engine.run({"x": 1, "n": 0}, run_id="r")
    assert left[0].find("r", "snapshot", "")
    resumed = Engine(graph, store=left[0], on_error="continue").resume("r")
    for result in (unbroken, resumed):
        assert (result.status, repr(result.error), result["n"]) == ("completed", "ValueError('no luck')", 10)
    (row,) = Engine(graph, store=left[0]).runs()
    assert repr(row.error) == "ValueError('no luck')"
