"""`@node(rescue=fn)`: a function takes the place of a node whose last attempt failed."""

from __future__ import annotations

import asyncio
import operator
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from clew import (
    END,
    Command,
    Context,
    Engine,
    Graph,
    RetryPolicy,
    RunResult,
    Send,
    SQLiteStore,
    append,
    ifelse,
    interrupt,
    node,
    route,
)
from clew.errors import GraphError, MutationError, NodeTimeoutError, OutputError, UnknownRunError
from clew.runtime.executors import processes
from clew.testing import VirtualClock
from tests.runtime import on_processes

CALLS: list[str] = []


@pytest.fixture(autouse=True)
def _no_calls() -> None:
    CALLS.clear()


class Unreadable(Exception):
    """Cannot be unpickled."""

    def __init__(self, file: str, reason: str) -> None:
        super().__init__(f"{file}: {reason}")
        self.file = file


def placeholder(error: Exception, file: str) -> dict[str, Any]:
    CALLS.append(f"rescue {file}")
    return {"file": file, "error": str(error)}


@node(output="loaded", rescue=placeholder)
def load(file: str) -> dict[str, Any]:
    CALLS.append(f"load {file}")
    if "bad" in file:
        raise Unreadable(file, "no rows")
    return {"file": file, "size": len(file)}


@node(output="report")
def report(loaded: dict[str, Any]) -> str:
    return f"{loaded['file']}: {loaded.get('error', 'fine')}"


FLOW = Graph([load, report])


def facts(result: RunResult) -> list[tuple[Any, ...]]:
    return [
        (each.path, each.node, each.attempts, type(each.error).__name__, each.rescued)
        for each in result.failures
    ]


RESCUED = [("load#0", "load", 1, "Unreadable", True)]


# -- one node --------------------------------------------------------------------------------------------------------


def test_the_value_of_the_rescue_is_the_value_of_the_node() -> None:
    engine = Engine(FLOW)
    result = engine.run({"file": "bad.csv"}, run_id="r")
    assert (result.status, result["report"]) == ("completed", "bad.csv: bad.csv: no rows")
    assert facts(result) == RESCUED
    assert (result.error, result.raise_for_error()) == (None, None)
    assert CALLS == ["load bad.csv", "rescue bad.csv"]
    assert FLOW.run(file="good.csv").failures == ()


def test_a_rescued_failure_is_in_the_store_and_is_not_repeated(tmp_path: Path) -> None:
    with Engine(FLOW, store=SQLiteStore(tmp_path / "runs.db")) as engine:
        engine.run({"file": "bad.csv"}, run_id="r")
        before = list(CALLS)
        assert facts(engine.result("r")) == RESCUED
        assert facts(engine.resume("r")) == RESCUED
        assert engine.replay("r").ok
        assert before == CALLS
        (row,) = engine.runs()
        assert (row.status, row.error, len(row.failures)) == ("completed", None, 1)
        exported = engine.export_run("r")
        assert engine.result("r").metrics == engine.resume("r").metrics
    with Engine(FLOW, store=SQLiteStore(tmp_path / "other.db")) as engine:
        engine.import_run(exported)
        assert facts(engine.result("r")) == RESCUED


def _counted(metrics: Any) -> tuple[int, int, int]:
    return metrics.total_nodes_executed, metrics.total_cache_hits, metrics.total_retries


@pytest.mark.parametrize("is_durable", [False, True])
def test_the_metrics_count_a_rescued_item_once(tmp_path: Path, is_durable: bool) -> None:
    class Rows(TypedDict):
        files: list[int]
        rows: Annotated[list[Any], append]
        out: int

    power = {"is_on": False}

    @route(targets=["load"])
    def each(files: list[int]) -> Any:
        return [Send("load", {"file": file}) for file in files]

    @node(output="rows", rescue=lambda error, file: f"bad {file}")
    def load(file: int) -> Any:
        if file < 2:
            raise ValueError("no")
        return file

    @node(output="out", after="load")
    def last(rows: list[Any]) -> int:
        if not power["is_on"]:
            raise ConnectionError("off")
        return len(rows)

    finished: list[Any] = []
    engine = Engine(
        Graph([each, load, last], state=Rows),
        store=SQLiteStore(tmp_path / "runs.db") if is_durable else None,
        listeners=[lambda event: finished.append(event.metrics) if event.kind == "run_finished" else None],
    )
    failed = engine.run({"files": [0, 1, 2]}, run_id="r", check=False).metrics
    assert _counted(failed) == _counted(finished[-1]) == _counted(engine.result("r").metrics) == (5, 0, 0)
    power["is_on"] = True
    resumed = engine.resume("r").metrics
    assert _counted(resumed) == _counted(finished[-1]) == _counted(engine.result("r").metrics) == (6, 0, 0)
    whole = engine.run({"files": [0, 1, 2]}, run_id="whole").metrics
    assert _counted(whole) == _counted(finished[-1]) == _counted(engine.result("whole").metrics) == (5, 0, 0)


@pytest.mark.parametrize("on_error", ["stop", "continue"])
@pytest.mark.parametrize("kind", ["rescued", "rescue fails", "rescued subgraph", "failed subgraph"])
def test_the_metrics_of_a_failure_are_the_same_from_the_log(kind: str, on_error: Any) -> None:
    @node(output="y")
    def bad(x: int) -> Any:
        raise ValueError("no")

    inner = Graph([bad], name="inner")
    graph = {
        "rescued": Graph([node(output="y", name="bad", rescue=lambda error: 1)(bad.func)]),
        "rescue fails": Graph([node(output="y", name="bad", rescue=lambda error: 1 / 0)(bad.func)]),
        "rescued subgraph": Graph([inner.as_node("sub", rescue=lambda error: {"y": 1})]),
        "failed subgraph": Graph([inner.as_node("sub")]),
    }[kind]
    engine = Engine(graph, on_error=on_error)
    live = engine.run({"x": 1}, run_id="r", check=False).metrics
    assert _counted(live) == _counted(engine.result("r").metrics) == (1, 0, 0)


def test_why_explains_one_item_of_a_batch() -> None:
    class Rows(TypedDict):
        files: list[int]
        rows: Annotated[list[Any], append]

    @route(targets=["load"])
    def each(files: list[int]) -> Any:
        return [Send("load", {"file": file}) for file in files]

    @node(output="rows", rescue=lambda error, file: f"bad {file}")
    def load(file: int) -> Any:
        if file == 1:
            raise ValueError("no")
        return file

    engine = Engine(Graph([each, load], state=Rows))
    engine.run({"files": [0, 1, 2]}, run_id="r")
    found = engine.why("r", "load#0[1]")
    assert (found.node, found.path, type(found.rescued)) == ("load", "load#0[1]", ValueError)
    assert engine.why("r", "load#0[0]").rescued is None
    with pytest.raises(UnknownRunError):
        engine.why("r", "load#0[3]")


def test_a_step_by_hand_is_no_cache_hit() -> None:
    engine = Engine(FLOW)
    engine.run({"file": "good.csv"}, run_id="r")
    engine.update("r", {"file": "other.csv"})
    assert engine.result("r").metrics.total_cache_hits == 0
    assert engine.resume("r").metrics.total_cache_hits == 0


def test_the_chain_is_that_of_a_node_that_returned_the_value() -> None:
    @node(output="loaded", name="load")
    def fine(file: str) -> dict[str, Any]:
        return {"file": file, "error": f"{file}: no rows"}

    values = {"file": "bad.csv"}
    assert FLOW.run(values).state.digest == Graph([fine, report]).run(values).state.digest


def test_a_rerun_tries_a_rescued_node_again() -> None:
    engine = Engine(FLOW)
    engine.run({"file": "bad.csv"}, run_id="r")
    CALLS.clear()
    engine.rerun("r")
    assert CALLS == ["load bad.csv", "rescue bad.csv"]


def test_why_names_the_rescue() -> None:
    engine = Engine(FLOW)
    engine.run({"file": "bad.csv"}, run_id="r")
    assert "rescue" in str(engine.why("r", "load"))
    engine.run({"file": "good.csv"}, run_id="g")
    assert "rescue" not in str(engine.why("g", "load"))


def test_listeners_hear_of_it() -> None:
    kinds = [event.kind for event in Engine(FLOW).stream({"file": "bad.csv"})]
    at = kinds.index("item_failed")
    assert kinds[at : at + 4] == ["item_failed", "item_started", "item_rescued", "item_finished"]


@pytest.mark.parametrize("asynchronous", [(False, True), (True, False), (True, True)])
def test_async_nodes_and_async_rescues(asynchronous: tuple[bool, bool]) -> None:
    async def afail(x: int) -> int:
        raise ValueError(x)

    def fail(x: int) -> int:
        raise ValueError(x)

    async def arescue(error: Exception, x: int) -> int:
        await asyncio.sleep(0)
        return x + 1

    def rescue(error: Exception, x: int) -> int:
        return x + 1

    first, second = asynchronous
    made = node(afail if first else fail, output="y", rescue=arescue if second else rescue)
    graph = Graph([made])
    assert graph.run(x=1)["y"] == 2
    assert asyncio.run(graph.arun(x=1))["y"] == 2
    assert Engine(graph, check_mutation=True).run({"x": 1})["y"] == 2


def test_a_rescue_comes_after_the_last_attempt() -> None:
    def late(error: Exception) -> str:
        return str(error)

    @node(output="y", retry=RetryPolicy(max_attempts=3, base_delay=1.0), rescue=late)
    def flaky(x: int, ctx: Context) -> str:
        raise ValueError(f"attempt {ctx.attempt}")

    result = Graph([flaky]).run({"x": 1}, clock=VirtualClock())
    assert (result["y"], result.failures[0].attempts) == ("attempt 2", 3)
    assert result.metrics.total_retries == 2


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_timeout_is_rescued_and_the_late_result_discarded(asynchronous: bool) -> None:
    gate = threading.Event()

    def instead(error: Exception, x: int) -> str:
        gate.set()
        time.sleep(0)
        return type(error).__name__

    def slow(x: int) -> str:
        gate.wait(60)
        return "late"

    async def aslow(x: int) -> str:
        await asyncio.sleep(600)
        return "late"

    made = node(aslow if asynchronous else slow, output="y", timeout=0.5, rescue=instead)
    result = Graph([made]).run(x=1)
    assert (result["y"], type(result.failures[0].error)) == ("NodeTimeoutError", NodeTimeoutError)


@pytest.mark.parametrize("make", [lambda: ThreadPoolExecutor(2), lambda: processes(1)])
def test_every_executor(make: Callable[[], Any]) -> None:
    negative = node(operator.neg, name="negative", output="x", rescue=on_processes.instead)
    inverted = node(operator.invert, name="inverted", output="y", rescue=on_processes.instead)
    with make() as executor:
        result = Graph([negative, inverted]).run({"a": "text"}, executor=executor)
        assert (result["x"], result["y"]) == ("TypeError text", "TypeError text")
        assert [failure.node for failure in result.failures] == ["negative", "inverted"]


def test_it_may_return_what_the_node_may_return() -> None:
    def update(error: Exception) -> dict[str, Any]:
        return {"b": "rescued"}

    @node(writes=("a", "b"), rescue=update)
    def several(x: int) -> dict[str, Any]:
        raise ValueError("no")

    assert Graph([several]).run(x=1).values == {"x": 1, "b": "rescued"}

    def command(error: Exception) -> Command:
        return Command(update={"c": 1}, goto="after")

    @node(writes=("c",), goto=["after", END], rescue=command)
    def decides(x: int) -> Command:
        raise ValueError("no")

    @node
    def after(c: int) -> int:
        return c + 1

    assert Graph([decides, after]).run(x=1)["after"] == 2

    @route(targets=["one", "other"], rescue=lambda error: "other")
    def gate(x: int) -> str:
        raise ValueError("no")

    @ifelse(when_true="one", when_false="other", rescue=lambda error: True)
    def either(x: int) -> bool:
        raise ValueError("no")

    @node
    def one(x: int) -> int:
        return 1

    @node
    def other(x: int) -> int:
        return 2

    assert "other" in Graph([gate, one, other]).run(x=1)
    assert "one" in Graph([either, one, other]).run(x=1)


def test_it_gets_the_inputs_that_it_names_under_their_names_in_the_node() -> None:
    def instead(error: Exception, *, b: int = 0, extra: str = "kept") -> Any:
        return b, extra

    @node(output="y", rescue=instead)
    def act(a: int, b: int = 7) -> Any:
        raise ValueError("no")

    assert Graph([act]).run(a=1)["y"] == (7, "kept")
    assert Graph([act.rename(inputs={"b": "c"})]).run(a=1, c=3)["y"] == (3, "kept")


def test_an_invalid_return_value_is_rescued() -> None:
    @node(output=("a", "b"), rescue=lambda error: (1, 2))
    def act(x: int) -> Any:
        return "not a tuple"

    result = Graph([act]).run(x=1)
    assert (result["b"], type(result.failures[0].error)) == (2, OutputError)


# -- what is not rescued -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("on_error", ["stop", "continue"])
def test_a_rescue_that_raises_fails_the_item(on_error: str) -> None:
    def worse(error: Exception) -> int:
        raise KeyError("worse")

    @node(output="y", rescue=worse)
    def act(x: int) -> int:
        raise ValueError("first")

    result = Graph([act]).run({"x": 1}, on_error=on_error, check=False)
    assert result.status == ("failed" if on_error == "stop" else "completed")
    ((path, _, attempts, kind, rescued),) = facts(result)
    assert (path, attempts, kind, rescued) == ("act#0", 1, "KeyError", False)
    assert result.error is not None
    assert repr(result.error.__context__) == "ValueError('first')"


def test_a_rescue_that_returns_something_invalid_fails_the_item() -> None:
    @node(output=("a", "b"), rescue=lambda error: 1)
    def act(x: int) -> Any:
        raise ValueError("first")

    error = Graph([act]).run({"x": 1}, check=False).error
    assert type(error) is OutputError
    assert repr(error.__context__) == "ValueError('first')"


def test_a_rescue_that_raises_the_same_error_has_no_circle() -> None:
    def again(error: Exception) -> int:
        raise error

    @node(output="y", rescue=again)
    def act(x: int) -> int:
        raise ValueError("first")

    error = Graph([act]).run({"x": 1}, check=False).error
    assert type(error) is ValueError
    assert error.__context__ is None


def test_mutations_questions_and_cancellations_are_not_rescued() -> None:
    def never(error: BaseException) -> Any:
        raise AssertionError("called")

    @node(output="y", rescue=never)
    def edits(names: list[str]) -> int:
        names.append("x")
        return 1

    assert type(Graph([edits]).run({"names": []}, check=False).error) is MutationError

    @node(output="y", rescue=never)
    def asks(x: int, ctx: Context) -> Any:
        return ctx.interrupt("sure?")

    engine = Engine(Graph([asks]))
    assert engine.run({"x": 1}, run_id="r").status == "waiting"
    assert engine.resume("r", answer="yes")["y"] == "yes"

    @node(output="y", rescue=never)
    async def cancelled(x: int) -> int:
        engine.cancel("c")
        await asyncio.sleep(60)
        return x

    engine = Engine(Graph([cancelled]))
    assert engine.run({"x": 1}, run_id="c", check=False).status == "cancelled"


@pytest.mark.parametrize(
    "rescue",
    [
        lambda: 1,
        lambda *, error: 1,
        lambda error, unknown: 1,
        lambda error, *more: 1,
        lambda error, ctx: 1,
        ValueError,
        "name",
    ],
)
def test_an_invalid_rescue_is_rejected_when_the_node_is_made(rescue: Any) -> None:
    def act(x: int, ctx: Context) -> int:
        return x

    with pytest.raises(GraphError):
        node(act, output="y", rescue=rescue)


def test_generators_and_interrupts_are_rejected() -> None:
    def generator(error: Exception) -> Any:
        yield 1

    with pytest.raises(GraphError):
        node(lambda x: x, name="n", rescue=generator)
    with pytest.raises(GraphError):
        interrupt(lambda x: x, name="n", output="y", rescue=lambda error: 1)


# -- fan-outs and subgraphs --------------------------------------------------------------------------------------------


class Files(TypedDict, total=False):
    files: list[str]
    file: str
    rows: Annotated[list[Any], append]
    summary: Any


@route(targets=["parse"], multi=True)
def scatter(files: list[str]) -> list[Send]:
    return [Send("parse", {"file": file}) for file in files]


@node(output="rows", rescue=placeholder)
def parse(file: str) -> Any:
    if "bad" in file:
        raise Unreadable(file, "no rows")
    return {"file": file}


@node(output="summary", after="parse")
def summarize(rows: list[Any]) -> tuple[int, list[str]]:
    return len(rows), [row["file"] for row in rows if "error" in row]


NAMES = [f"{'bad' if number % 100 == 7 else 'file'}{number}" for number in range(500)]
BAD = [name for name in NAMES if "bad" in name]


@pytest.mark.parametrize("is_stored", [False, True])
def test_five_bad_files_of_five_hundred_do_not_stop_the_report(is_stored: bool, tmp_path: Path) -> None:
    graph = Graph([scatter, parse, summarize], state=Files)
    store = SQLiteStore(tmp_path / "runs.db") if is_stored else None
    with Engine(graph, store=store) as engine:
        result = engine.run({"files": NAMES, "rows": []}, run_id="r")
        assert (result.status, result["summary"]) == ("completed", (500, BAD))
        for found in (result, engine.result("r")):
            assert [failure.path for failure in found.failures] == [
                f"parse#0[{number}]" for number in range(7, 500, 100)
            ]
            assert all(failure.rescued for failure in found.failures)
        assert engine.replay("r").ok


def test_inside_subgraphs_and_over_lists(tmp_path: Path) -> None:
    inner = Graph([load], name="inner")
    with Engine(inner.map_over("file"), store=SQLiteStore(tmp_path / "runs.db")) as engine:
        result = engine.run({"file": ["good", "bad", "fine"]}, run_id="r")
        assert [each.get("error") for each in result["loaded"]] == [None, "bad: no rows", None]
        for found in (result, engine.result("r"), engine.resume("r")):
            (failure,) = found.failures
            assert (failure.path, failure.step, failure.rescued) == ("inner#0[1]/load#0", 1, True)
            assert failure.around == ("inner#0",)
        assert engine.replay("r").ok


def test_a_subgraph_is_rescued_as_a_whole(tmp_path: Path) -> None:
    @node(output="page")
    def fetch(url: str) -> str:
        CALLS.append("fetch")
        return url

    @node(output="text")
    def extract(page: str) -> str:
        CALLS.append("extract")
        raise ValueError("no text")

    inner = Graph([fetch, extract], name="inner")
    rescued = inner.as_node(outputs=["text"], retry=1, rescue=lambda error, url: {"text": f"<{url}>"})

    @node
    def after(text: str) -> str:
        return text

    with Engine(Graph([rescued, after]), store=SQLiteStore(tmp_path / "runs.db")) as engine:
        result = engine.run({"url": "home"}, run_id="r")
        assert result["after"] == "<home>"
        for found in (result, engine.result("r")):
            (failure,) = found.failures
            assert (failure.path, failure.around, failure.rescued) == (
                "inner#0/extract#0",
                ("inner#0",),
                True,
            )
        assert CALLS == ["fetch", "extract"]
        assert engine.replay("r").ok
        assert CALLS == ["fetch", "extract"]
        engine.rerun("r")
        assert CALLS[2:] == ["extract"]  # what had succeeded inside is reused


# -- resuming ----------------------------------------------------------------------------------------------------------


def test_a_rescued_failure_survives_a_failure_of_another_node(tmp_path: Path) -> None:
    down = [True]

    @node
    def last(report: str) -> str:
        if down:
            raise OSError("down")
        return report

    with Engine(Graph([load, report, last]), store=SQLiteStore(tmp_path / "runs.db")) as engine:
        result = engine.run({"file": "bad"}, run_id="r", check=False)
        assert [(each.node, each.rescued) for each in result.failures] == [("last", False), ("load", True)]
        down.clear()
        calls = list(CALLS)
        assert facts(engine.resume("r")) == RESCUED
        assert calls == CALLS


def test_rescued_failures_long_before_the_end_are_remembered(tmp_path: Path) -> None:
    down = [True]

    @node(output="n", rescue=lambda error, n: n + 1)
    def step(n: int) -> int:
        if n == 3:
            raise ValueError("three")
        if n == 200 and down:
            raise KeyboardInterrupt
        return n + 1

    @ifelse(when_true="step", when_false=END)
    def more(n: int) -> bool:
        return n < 300

    graph = Graph([step, more], entry="step")
    path = tmp_path / "runs.db"
    with Engine(graph, store=SQLiteStore(path)) as engine, pytest.raises(KeyboardInterrupt):
        engine.run({"n": 0}, run_id="r")
    down.clear()
    with Engine(graph, store=SQLiteStore(path)) as engine:
        result = engine.resume("r")
        assert result["n"] == 300
        assert [(each.path, each.rescued) for each in result.failures] == [("step#3", True)]


def test_a_killed_rescue_makes_the_last_attempt_again(tmp_path: Path) -> None:
    dies = [True]

    def instead(error: Exception) -> str:
        CALLS.append("rescue")
        if dies:
            raise KeyboardInterrupt
        return "rescued"

    @node(output="y", retry=RetryPolicy(max_attempts=2, base_delay=1.0), rescue=instead)
    def act(x: int, ctx: Context) -> str:
        CALLS.append(f"attempt {ctx.attempt}")
        raise ValueError("no")

    path, graph = tmp_path / "runs.db", Graph([act])
    with (
        Engine(graph, store=SQLiteStore(path), clock=VirtualClock()) as engine,
        pytest.raises(KeyboardInterrupt),
    ):
        engine.run({"x": 1}, run_id="r")
    dies.clear()
    with Engine(graph, store=SQLiteStore(path), clock=VirtualClock()) as engine:
        result = engine.resume("r")
    assert (result["y"], result.failures[0].attempts) == ("rescued", 2)
    assert CALLS == ["attempt 0", "attempt 1", "rescue", "attempt 1", "rescue"]


# -- code --------------------------------------------------------------------------------------------------------------


def test_the_rescue_is_part_of_the_code_of_the_node() -> None:
    def act(x: int) -> int:
        return x

    plain = Graph([node(act, output="y")])
    one = Graph([node(act, output="y", rescue=lambda error: 1)])
    two = Graph([node(act, output="y", rescue=lambda error: 2)])
    assert len({graph.node_hashes["act"] for graph in (plain, one, two)}) == 3
    assert plain.structure_hash == one.structure_hash


def test_a_cached_node_does_not_cache_its_rescue() -> None:
    @node(output="loaded", cache=True, rescue=placeholder)
    def cached(file: str) -> dict[str, Any]:
        CALLS.append("called")
        raise ValueError("no")

    engine = Engine(Graph([cached]))
    for _ in range(2):
        assert engine.run({"file": "a"})["loaded"]["error"] == "no"
    assert CALLS == ["called", "rescue a", "called", "rescue a"]
