"""A failed run raises the error of its node; `check=False` returns the result."""

from __future__ import annotations

import asyncio
import pickle
import threading
import traceback
import urllib.error
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from clew import END, Context, Engine, Graph, RunResult, Send, SQLiteStore, append, node, result_of, route
from clew.error_text import notes_of
from clew.errors import (
    ConflictError,
    DefinitionError,
    EncodeError,
    InputError,
    MaxStepsError,
    RunCancelledError,
    StalledError,
)
from clew.testing import VirtualClock


class Refused(Exception):
    """Has a state of its own."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"{code}: {reason}")
        self.code = code


@node(output="parsed")
def parse(text: str) -> str:
    if text == "bad":
        raise Refused(7, text)
    return text.upper()


@node(output="parsed")
async def aparse(text: str) -> str:
    return str(parse(text))


@node(output="size")
def measure(parsed: str) -> int:
    return len(parsed)


FLOW = Graph([parse, measure])
ASYNC_FLOW = Graph([aparse, measure])


def raised(call: Callable[[], Any]) -> BaseException:
    with pytest.raises(BaseException) as caught:  # noqa: PT011
        call()
    return caught.value


def result_behind(error: BaseException) -> RunResult:
    result = result_of(error)
    assert result is not None
    return result


# -- every method ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("graph", [FLOW, ASYNC_FLOW], ids=["sync", "async"])
def test_every_method_raises_the_error_of_the_node(graph: Graph) -> None:
    engine = Engine(graph)
    engine.run({"text": "good"}, run_id="parent")
    bad = {"text": "bad"}
    calls: dict[str, Callable[[], Any]] = {
        "run": lambda: engine.run(bad, run_id="r"),
        "resume": lambda: engine.resume("r"),
        "fork": lambda: engine.fork("r", run_id="f"),
        "rerun": lambda: engine.rerun("parent", values=bad, run_id="n"),
        "stream": lambda: list(engine.stream(bad, run_id="s")),
        "graph": lambda: graph.run(bad),
        "values": lambda: graph.run(text="bad"),
        "arun": lambda: asyncio.run(engine.arun(bad, run_id="ar")),
        "aresume": lambda: asyncio.run(engine.aresume("ar")),
        "afork": lambda: asyncio.run(engine.afork("ar", run_id="af")),
        "arerun": lambda: asyncio.run(engine.arerun("parent", values=bad, run_id="an")),
        "agraph": lambda: asyncio.run(graph.arun(bad)),
    }
    for name, call in calls.items():
        error = raised(call)
        assert (type(error), getattr(error, "code", 0)) == (Refused, 7), name
        result = result_behind(error)
        assert (result.status, result.error) == ("failed", error), name


@pytest.mark.parametrize("graph", [FLOW, ASYNC_FLOW], ids=["sync", "async"])
def test_without_a_check_every_method_returns_the_result(graph: Graph) -> None:
    engine = Engine(graph)
    engine.run({"text": "good"}, run_id="parent")
    bad = {"text": "bad"}
    found = [
        engine.run(bad, run_id="r", check=False),
        engine.resume("r", check=False),
        engine.fork("r", run_id="f", check=False),
        engine.rerun("parent", values=bad, check=False),
        graph.run(bad, check=False),
        asyncio.run(engine.arun(bad, run_id="ar", check=False)),
        asyncio.run(engine.aresume("ar", check=False)),
        asyncio.run(engine.afork("ar", check=False)),
        asyncio.run(engine.arerun("parent", values=bad, check=False)),
        asyncio.run(graph.arun(bad, check=False)),
    ]
    assert {result.status for result in found} == {"failed"}
    assert [event.kind for event in engine.stream(bad, check=False)][-1] == "run_finished"


def test_the_option_of_the_engine_is_the_default_of_its_methods() -> None:
    engine = Engine(FLOW, check=False)
    assert engine.run({"text": "bad"}).status == "failed"
    assert type(raised(lambda: engine.run({"text": "bad"}, check=True))) is Refused


def test_check_has_to_be_a_bool() -> None:
    wrong: Any = "no"
    for call in (
        lambda: Engine(FLOW).run({"text": "good"}, check=wrong),
        lambda: Engine(FLOW).stream({"text": "good"}, check=wrong),
        lambda: asyncio.run(Engine(FLOW).arun({"text": "good"}, check=wrong)),
    ):
        assert type(raised(call)) is InputError
    assert type(raised(lambda: Engine(FLOW, check=wrong))) is DefinitionError


def test_streams_yield_the_last_event_before_they_raise() -> None:
    async def collect(engine: Engine, seen: list[str]) -> None:
        async for event in engine.astream({"text": "bad"}):
            seen.append(event.kind)

    for graph in (FLOW, ASYNC_FLOW):
        seen: list[str] = []

        def follow(graph: Graph = graph, seen: list[str] = seen) -> None:
            for event in Engine(graph).stream({"text": "bad"}):
                seen.append(event.kind)

        assert type(raised(follow)) is Refused
        assert seen[-1] == "run_finished"
        del seen[:]
        assert type(raised(lambda: asyncio.run(collect(Engine(graph), seen)))) is Refused  # noqa: B023
        assert seen[-1] == "run_finished"


def test_a_stream_that_is_left_at_its_last_event_raises_nothing() -> None:
    problems: list[Any] = []

    async def leave() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: problems.append(context))
        async for event in Engine(FLOW).astream({"text": "bad"}):
            if event.kind == "run_finished":
                break
        await asyncio.sleep(0)

    asyncio.run(leave())
    for event in Engine(ASYNC_FLOW).stream({"text": "bad"}):
        if event.kind == "run_finished":
            break
    assert problems == []


# -- what is raised ------------------------------------------------------------------------------------------------


def test_the_note_names_the_run_the_place_and_the_next_call() -> None:
    engine = Engine(FLOW)
    error = raised(lambda: engine.run({"text": "bad"}, run_id="r"))
    (note,) = notes_of(error)
    for part in ("'r'", "'parse'", "parse#0", "step 1", "engine.resume('r')"):
        assert part in note
    again = raised(result_behind(error).raise_for_error)
    assert again is error
    assert notes_of(error) == [note]


def test_a_run_that_is_stored_nowhere_cannot_be_continued() -> None:
    (note,) = notes_of(raised(lambda: FLOW.run(text="bad")))
    assert "resume" not in note
    assert "store=" in note


def test_the_traceback_ends_in_the_node_and_does_not_grow() -> None:
    engine = Engine(FLOW)
    error = raised(lambda: engine.run({"text": "bad"}, run_id="r"))
    frames = traceback.extract_tb(error.__traceback__)
    assert (frames[-1].name, frames[-1].filename) == ("parse", __file__)
    sizes = {
        len(traceback.extract_tb(raised(result_behind(error).raise_for_error).__traceback__))
        for _ in range(3)
    }
    assert len(sizes) == 1


SINGLE = ValueError("made once")


def test_an_exception_object_of_several_runs_has_one_note() -> None:
    @node
    def act(x: int) -> int:
        raise SINGLE

    engine = Engine(Graph([act]))
    for run_id in ("a", "b"):
        for call in (lambda name: engine.run({"x": 1}, run_id=name), engine.resume):
            error = raised(lambda: call(run_id))  # noqa: B023
            assert error is SINGLE
            (note,) = notes_of(error)
            assert f"'{run_id}'" in note
            assert result_behind(error).run_id == run_id


def test_a_run_inside_a_node_passes_its_error_on() -> None:
    @node
    def outer(text: str) -> Any:
        return FLOW.run(text=text)["parsed"]

    error = raised(lambda: Engine(Graph([outer])).run({"text": "bad"}, run_id="outer"))
    assert type(error) is Refused
    assert len(notes_of(error)) == 1
    assert result_behind(error).run_id == "outer"


def test_a_raised_error_can_be_pickled() -> None:
    @node
    def act(x: int) -> int:
        raise OSError(2, "gone")

    error = raised(lambda: Graph([act]).run(x=1))
    copied = pickle.loads(pickle.dumps(error))
    assert (type(copied), copied.args) == (FileNotFoundError, (2, "gone"))
    assert result_of(copied) is None


def test_an_error_that_no_run_raised_has_no_result() -> None:
    assert result_of(ValueError("x")) is None


# -- exceptions that misbehave ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Frozen(Exception):
    code: int


class Slotted(Exception):
    __slots__ = ("code",)


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")

    def __reduce__(self) -> Any:
        raise RuntimeError("no pickle")

    def add_note(self, note: str) -> None:
        raise RuntimeError("no notes")

    def __setattr__(self, name: str, value: Any) -> None:
        raise RuntimeError("no attributes")


class Unequal(Exception):
    __hash__ = None

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no comparison")


ODD: list[Callable[[], Exception]] = [
    lambda: Frozen(3),
    Slotted,
    Mute,
    Unequal,
    lambda: urllib.error.HTTPError("http://x", 404, "gone", None, None),
    lambda: ExceptionGroup("several", [ValueError("a"), OSError("b")]),
]


@pytest.mark.parametrize("make", ODD)
@pytest.mark.parametrize("is_stored", [False, True])
def test_any_exception_is_raised_as_it_is(
    make: Callable[[], Exception], is_stored: bool, tmp_path: Path
) -> None:
    error = make()

    @node
    def act(x: int) -> int:
        raise error

    store = SQLiteStore(tmp_path / "runs.db") if is_stored else None
    with Engine(Graph([act]), store=store) as engine:
        found = raised(lambda: engine.run({"x": 1}, run_id="r"))
        assert found is error
        result = result_behind(error)
        assert (result.status, result.failures[0].node) == ("failed", "act")
        assert len(notes_of(error)) == 1
        assert engine.result("r").failures[0].path == "act#0"
        assert raised(lambda: engine.resume("r")) is error
        assert len(notes_of(error)) == 1
        if is_stored:  # the note is for the reader of the traceback; the place of a failure is data
            assert notes_of(engine.result("r").failures[0].error) == []


# -- other ends --------------------------------------------------------------------------------------------------------


def test_stalls_conflicts_and_endless_loops_raise_as_themselves() -> None:
    @route(targets=["write"], multi=True)
    def both(x: int) -> list[Send]:
        return [Send("write", {"y": 1}), Send("write", {"y": 2})]

    @node(output="v")
    def write(y: int) -> int:
        return y

    assert type(raised(lambda: Graph([both, write]).run(x=1))) is ConflictError

    @route(targets=["late"])
    def gate(x: int) -> str:
        return "late"

    @node
    def late(missing: int) -> int:
        return missing

    error = raised(lambda: Graph([gate, late]).run(x=1))
    assert type(error) is StalledError
    assert result_behind(error).status == "failed"

    @route(targets=["again", END])
    def more(x: int) -> str:
        return "again"

    @node(output="x")
    def again(x: int) -> int:
        return x + 1

    assert type(raised(lambda: Graph([more, again]).run({"x": 1}, max_steps=5))) is MaxStepsError


def test_a_value_that_cannot_be_stored_raises(tmp_path: Path) -> None:
    @node
    def act(x: int) -> Any:
        return threading.Lock()

    with Engine(Graph([act]), store=SQLiteStore(tmp_path / "runs.db")) as engine:
        error = raised(lambda: engine.run({"x": 1}, run_id="r"))
        assert type(error) is EncodeError
        assert result_behind(error).run_id == "r"


def test_a_cancelled_run_raises_run_cancelled_error() -> None:
    @node
    def act(x: int, ctx: Context) -> int:
        engine.cancel("r")
        return x

    @node
    def after(act: int) -> int:
        return act

    engine = Engine(Graph([act, after]))
    error = raised(lambda: engine.run({"x": 1}, run_id="r"))
    assert type(error) is RunCancelledError
    assert result_behind(error).status == "cancelled"
    (note,) = notes_of(error)
    assert "engine.resume('r')" in note
    assert engine.resume("r")["after"] == 1


def test_a_cancelled_task_raises_cancelled_error() -> None:
    @node
    async def act(x: int) -> int:
        task.cancel()
        await asyncio.sleep(60)
        return x

    task: asyncio.Task[Any]
    engine = Engine(Graph([act]))

    async def main() -> None:
        nonlocal task
        task = asyncio.create_task(engine.arun({"x": 1}, run_id="r"))
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert engine.result("r").status == "cancelled"


def test_a_waiting_run_returns() -> None:
    @node
    def ask(x: int, ctx: Context) -> Any:
        return ctx.interrupt("go on?")

    assert Engine(Graph([ask])).run({"x": 1}).status == "waiting"


# -- on_error="continue" -----------------------------------------------------------------------------------------------


@node(output="a_done", retry=2)
def first(x: int, ctx: Context) -> int:
    raise Refused(x, f"attempt {ctx.attempt}")


@node(output="b_done")
def second(x: int) -> int:
    return x


@node(output="c_done")
def third(b_done: int) -> int:
    raise OSError("c")


@node(output="d_done")
def fourth(b_done: int) -> int:
    return b_done + 1


@node
def report(a_done: int, d_done: int) -> int:
    return 0


CONFINED = Graph([first, second, third, fourth, report])


def test_confined_failures_are_all_listed(tmp_path: Path) -> None:
    expected = [("first#0", "first", 2, "Refused", False), ("third#0", "third", 1, "OSError", False)]

    def listed(result: RunResult) -> list[tuple[Any, ...]]:
        return [(f.path, f.node, f.attempts, type(f.error).__name__, f.rescued) for f in result.failures]

    for store in (None, SQLiteStore(tmp_path / "runs.db")):
        engine = Engine(CONFINED, store=store, on_error="continue", clock=VirtualClock())
        result = engine.run({"x": 1}, run_id="r")
        assert (result.status, result["d_done"], "report" in result) == ("completed", 2, False)
        assert listed(result) == expected
        assert listed(engine.resume("r")) == expected
        assert listed(engine.result("r")) == expected
        assert [row.run_id for row in engine.runs(status="completed")] == ["r"]
        assert type(raised(result.raise_for_error)) is Refused


def test_a_result_without_failures_raises_nothing() -> None:
    result = FLOW.run(text="good")
    result.raise_for_error()
    assert (result.failures, result.error) == ((), None)


def test_every_failure_inside_a_subgraph_is_listed(tmp_path: Path) -> None:
    inner = Graph([first, second, third, fourth], name="inner")
    flow = Graph([inner.as_node()])
    for store in (None, SQLiteStore(tmp_path / "runs.db")):
        engine = Engine(flow, store=store, on_error="continue", clock=VirtualClock())
        result = engine.run({"x": 1}, run_id="r")
        for found in (result, engine.result("r")):
            assert found.status == "completed"
            assert [(f.path, f.around, f.step) for f in found.failures] == [
                ("inner#0/first#0", ("inner#0",), 1),
                ("inner#0/third#0", ("inner#0",), 1),
            ]


def test_a_stall_beside_confined_failures_still_raises() -> None:
    @route(targets=["lost"])
    def gate(x: int) -> str:
        return "lost"

    @node
    def lost(missing: int) -> int:
        return missing

    engine = Engine(Graph([first, gate, lost]), on_error="continue", clock=VirtualClock())
    error = raised(lambda: engine.run({"x": 1}))
    assert type(error) is StalledError
    assert [type(f.error) for f in result_behind(error).failures] == [StalledError, Refused]


def test_a_fan_out_lists_each_failed_item() -> None:
    class State(TypedDict, total=False):
        files: list[str]
        file: str
        sizes: Annotated[list[int], append]

    @route(targets=["load"], multi=True)
    def scatter(files: list[str]) -> list[Send]:
        return [Send("load", {"file": name}) for name in files]

    @node(output="sizes")
    def load(file: str) -> list[int]:
        if file == "bad":
            raise OSError(file)
        return [len(file)]

    graph = Graph([scatter, load], state=State)
    result = graph.run({"files": ["one", "bad", "three", "bad"]}, on_error="continue")
    assert [failure.path for failure in result.failures] == ["load#0[1]", "load#0[3]"]
