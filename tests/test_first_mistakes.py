"""Mistakes of the first hour: each has an error of one type, which names what was meant."""

from __future__ import annotations

import asyncio
import gc
import inspect
import operator
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from clew import (
    END,
    Command,
    Context,
    Engine,
    Graph,
    MemoryStore,
    Overwrite,
    Send,
    SQLiteStore,
    ifelse,
    interrupt,
    node,
    route,
)
from clew.errors import (
    DefinitionError,
    EncodeError,
    GraphError,
    GraphWarning,
    InputError,
    OutputError,
    RunStateError,
    StoreUnavailableError,
    UnknownRunError,
)
from clew.explore import Check, check_graph
from clew.graph.names import is_misspelt
from clew.stores import Store


class State(TypedDict):
    query: str
    docs: list[str]
    answer: str


@node(output="docs")
def fetch(query: str) -> list[str]:
    return [query]


@node(output="answer")
def write(dosc: list[str]) -> str:
    return ""


def _store(durable: bool, folder: Path) -> Store:
    return SQLiteStore(folder / "runs.db") if durable else MemoryStore()


# -- a misspelt parameter


def test_a_misspelt_parameter_is_found_when_the_run_starts() -> None:
    with pytest.raises(InputError, match=r"'dosc'.*'write'.*did you mean 'docs'"):
        Graph([fetch, write]).run(query="a")


def test_a_misspelt_parameter_is_found_when_a_graph_with_a_schema_is_built() -> None:
    with pytest.raises(GraphError, match=r"'write' reads 'dosc'.*did you mean 'docs'"):
        Graph([fetch, write], state=State)


def test_other_undeclared_parameters_may_still_be_bound() -> None:
    @node(output="answer")
    def ask(docs: list[str], client: Any) -> str:
        return str(client(docs[0]))

    graph = Graph([fetch, ask], state=State)
    assert graph.bind(client=str.upper).run(query="a")["answer"] == "A"
    with pytest.raises(InputError, match="'client' is missing"):
        graph.run(query="a")


def test_a_parameter_that_a_send_may_provide_is_not_misspelt() -> None:
    @route(targets=["one", END])
    def each(docs: list[str]) -> Any:
        return [Send("one", {"doc": doc}) for doc in docs]

    @node(output="answer")
    def one(doc: str) -> str:
        return doc

    assert Graph([fetch, each, one], state=State).run(query="a")["answer"] == "a"


@pytest.mark.parametrize(
    "name, other, expected",
    [
        ("dosc", "docs", True),
        ("doc", "docs", True),
        ("docs", "doc", True),
        ("dacs", "docs", True),
        ("xdocs", "docs", True),
        ("docs", "docs", False),
        ("client", "docs", False),
        ("resources", "sources", False),
        ("", "d", True),
        ("ab", "ba", True),
        ("abc", "cba", False),
    ],
)
def test_one_letter_is_a_misspelling(name: str, other: str, expected: bool) -> None:
    assert is_misspelt(name, other) is is_misspelt(other, name) is expected


# -- decorators


def test_a_decorated_method_is_rejected_where_it_is_defined() -> None:
    with pytest.raises(GraphError, match=r"'fetch'.*'self'.*node\(obj.fetch\)"):

        class Client:
            @node(output="docs")
            def fetch(self, query: str) -> list[str]:
                return [query]


def test_a_bound_method_is_a_node() -> None:
    class Client:
        def fetch(self, query: str) -> list[str]:
            return [query]

    assert Graph([node(Client().fetch, output="docs")]).run(query="a")["docs"] == ["a"]
    with pytest.raises(GraphError, match="'self'"):
        Graph([Client.fetch])


def gate(docs: list[str]) -> Any:
    return END


@pytest.mark.parametrize(
    "wrong, usage",
    [
        (lambda: route(gate), "@route(targets=[...])"),
        (lambda: route(["fetch"]), "@route(targets=['fetch'])"),
        (lambda: route()(gate), "@route(targets=[...])"),
        (lambda: ifelse(gate), "@ifelse(when_true=..., when_false=...)"),
        (lambda: ifelse("fetch"), "@ifelse(when_true=..., when_false=...)"),
        (lambda: node("docs"), "@node(output='docs')"),
        (lambda: node(("lo", "hi")), "@node(output=('lo', 'hi'))"),
        (lambda: interrupt("ok"), "@interrupt(output='ok')"),
        (lambda: Graph([node(output="docs")]), "@node(...)"),
        (lambda: Graph([route(targets=["a"])]), "@route(...)"),
    ],
)
def test_a_bare_decorator_shows_how_it_is_written(wrong: Callable[[], Any], usage: str) -> None:
    with pytest.raises(GraphError) as caught:
        wrong()
    assert usage in str(caught.value)


# -- options


@pytest.mark.parametrize(
    "wrong, error, meant",
    [
        (lambda: node(fetch.func, retrry=3), GraphError, "retry"),
        (lambda: route(gate, targts=["a"]), GraphError, "targets"),
        (lambda: Graph([fetch], name="g").as_node(timout=3), GraphError, "timeout"),
        (lambda: Graph([fetch], name="g").as_node(input=["query"]), GraphError, "inputs"),
        (lambda: Engine(Graph([fetch]), max_concurent_nodes=3), DefinitionError, "max_concurrent_nodes"),
        (lambda: Graph([fetch]).run({"query": "a"}, seeed=3), DefinitionError, "seed"),
        (lambda: check_graph(Graph([fetch]), {"query": "a"}, fautls=["crash"]), DefinitionError, "faults"),
        (lambda: Check(Graph([fetch]), max_step=3), DefinitionError, "max_steps"),
        (lambda: Graph([fetch]).rnu(query="a"), AttributeError, "run"),
        (lambda: Engine(Graph([fetch])).run({"query": "a"}, runid="r"), InputError, "run_id"),
        (lambda: Engine(Graph([fetch])).run({"query": "a"}, thraed="t"), InputError, "thread"),
    ],
)
def test_a_misspelt_option_names_the_one_that_was_meant(
    wrong: Callable[[], Any], error: type[Exception], meant: str
) -> None:
    with pytest.raises(error, match=f"did you mean '{meant}'"):
        wrong()


def test_values_as_keywords_of_an_engine_are_explained() -> None:
    with pytest.raises(InputError, match=r"give values as one mapping: \{'query': ...\}"):
        Engine(Graph([fetch])).run(query="a")


# -- a forgotten await


async def call(text: str) -> str:
    return text


async def one(query: str) -> Any:
    return call(query)


async def held(query: str) -> Any:
    kept = await call(query)
    return {"kept": kept, "more": [call(query)]}


async def many(query: str) -> Any:
    return [
        call(letter)
        for letter in query
    ]  # fmt: skip


async def recorded(query: str, ctx: Context) -> Any:
    return [ctx.record("call", call, query)]


async def commanded(query: str) -> Any:
    return Command(update={"x": call(query)})


async def yielded(query: str) -> Any:
    yield call(query)


def plain(query: str) -> Any:
    return call(query)


@pytest.fixture
def no_noise() -> Iterator[None]:
    """Fails the test if Python warns about a coroutine that was never awaited."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield
        gc.collect()


@pytest.mark.parametrize(
    "function, line", [(one, 1), (held, 2), (many, 2), (commanded, 1), (yielded, 1), (plain, 1)]
)
@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("others", [0, 1])
@pytest.mark.usefixtures("no_noise")
def test_a_forgotten_await_fails_with_its_line(
    function: Callable[..., Any], line: int, durable: bool, others: int, tmp_path: Path
) -> None:
    beside = [node(lambda query: query, name="beside", output="z")][:others]
    with Engine(Graph([node(function, output="x"), *beside]), store=_store(durable, tmp_path)) as engine:
        error = engine.run({"query": "ab"}, check=False).error
    assert type(error) is OutputError
    first = inspect.getsourcelines(function)[1]
    assert f"{Path(__file__).name}:{first + line})" in str(error)
    assert "await" in str(error)
    assert "'call'" in str(error)


@pytest.mark.usefixtures("no_noise")
def test_a_recorded_call_that_is_not_awaited_fails() -> None:
    error = Graph([node(recorded, output="x")]).run({"query": "a"}, check=False).error
    assert type(error) is OutputError
    assert Path(__file__).name in str(error)


async def chunks(query: str) -> Any:
    yield query


def returning(make: Callable[[str], Any]) -> Callable[..., Any]:
    async def returned(query: str) -> Any:
        return make(query)

    return returned


PENDING: dict[str, Callable[[str], Any]] = {
    "a task": lambda query: asyncio.ensure_future(call(query)),
    "a task in a list": lambda query: [asyncio.ensure_future(call(query))],
    "gathered": lambda query: asyncio.gather(call(query), call(query)),
    "a future": lambda query: asyncio.get_running_loop().create_future(),
    "an async generator": chunks,
    "four deep": lambda query: {"a": [{"b": (call(query),)}]},
    "five deep, of two": lambda query: {"a": [{"b": ({"c": call(query)}, call(query))}]},
}


@pytest.mark.parametrize("kind", PENDING)
@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.usefixtures("no_noise")
def test_work_that_is_not_awaited_fails(kind: str, durable: bool, tmp_path: Path) -> None:
    graph = Graph([node(returning(PENDING[kind]), output="x")])
    with Engine(graph, store=_store(durable, tmp_path)) as engine:
        error = engine.run({"query": "ab"}, check=False).error
    assert type(error) is OutputError
    assert "await" in str(error) or "async for" in str(error)


def test_a_sync_node_that_returns_an_async_generator_fails() -> None:
    assert (
        type(Graph([node(lambda query: chunks(query), name="x")]).run({"query": "a"}, check=False).error)
        is OutputError
    )


def test_a_future_that_is_done_is_a_value() -> None:
    async def done(query: str) -> Any:
        task = asyncio.ensure_future(call(query))
        await task
        return [task]

    assert Graph([node(done, output="x")]).run(query="a")["x"][0].result() is not None


def test_a_coroutine_in_a_durable_state_cannot_be_stored(tmp_path: Path) -> None:
    made: list[Any] = []

    def keep(query: str) -> Any:
        made.append(call(query))
        return {"made": made}

    with Engine(Graph([node(keep, output="x")]), store=_store(True, tmp_path)) as engine:
        error = engine.run({"query": "a"}, check=False).error
    made[0].close()
    assert type(error) is EncodeError
    assert "await it" in str(error)


def test_a_deep_or_long_value_is_not_searched_to_its_end() -> None:
    made = call("a")

    async def deep(query: str) -> Any:
        inside: Any = made
        for _ in range(8):
            inside = {"a": inside}
        return {"deep": inside, "long": [0] * 64 + [made]}

    assert Graph([node(deep, output="x")]).run(query="a").status == "completed"
    made.close()


# -- runs


@interrupt
def ok(docs: list[str]) -> str:
    return "ok?"


@interrupt
def sure(docs: list[str]) -> str:
    return "sure?"


def test_a_resume_without_an_answer_says_how_to_give_it() -> None:
    engine = Engine(Graph([fetch, ok]))
    engine.run({"query": "a"}, run_id="r")
    with pytest.raises(RunStateError, match=r"engine.resume\('r', answer=...\)"):
        engine.resume("r")
    engine = Engine(Graph([fetch, ok, sure]))
    engine.run({"query": "a"}, run_id="r")
    with pytest.raises(RunStateError, match=r"engine.resume\('r', answers="):
        engine.resume("r")


@pytest.mark.parametrize("durable", [False, True])
def test_a_wrong_run_id_names_the_nearest(durable: bool, tmp_path: Path) -> None:
    with Engine(Graph([fetch]), store=_store(durable, tmp_path)) as engine:
        for run_id in ("report-2024", "other"):
            engine.run({"query": "a"}, run_id=run_id)
        verbs: list[Callable[[str], Any]] = [
            *(engine.resume, engine.state, engine.result, engine.history, engine.fork, engine.rerun),
            *(engine.replay, engine.delete, engine.cancel, engine.export_run),
        ]
        for verb in verbs:
            with pytest.raises(UnknownRunError) as caught:
                verb("report-2042")
            assert caught.value.nearest == ("report-2024",)
            assert "report-2024" in str(caught.value)
        with pytest.raises(UnknownRunError, match=r"list runs with engine.runs\(\)") as caught:
            engine.state("zzz")
        assert caught.value.nearest == ()
        for run_id in ("report-2024", "other"):
            engine.delete(run_id)
        with pytest.raises(UnknownRunError, match="the store has no runs; check the store= of the engine"):
            engine.resume("report-2024")


class Log(TypedDict):
    n: int
    log: Annotated[list[int], operator.add]


@node(output="log")
def add(n: int) -> list[int]:
    return [n]


def test_a_fork_that_replaces_a_reduced_value_warns() -> None:
    engine = Engine(Graph([add], state=Log))
    engine.run({"n": 1, "log": [0]}, run_id="r")
    with pytest.warns(GraphWarning, match="'log'.*Overwrite") as warned:
        assert engine.fork("r", step=0, values={"log": [5]})["log"] == [5, 1]
    assert warned[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert engine.fork("r", step=0, values={"n": 2})["log"] == [0, 2]
        assert engine.fork("r", step=0, values={"log": [0, 5]})["log"] == [0, 5, 1]
        old = engine.state("r", 0).get("log")
        forked = engine.fork("r", step=0, values={"log": Overwrite([7])}, run_id="f")
        assert (old, forked["log"]) == ([0], [7, 1])
        assert engine.state("f", 0).get("log") == [7]


def test_a_name_or_a_list_in_the_place_of_a_node():
    for wrong in ("first", ["first"], (1,)):
        with pytest.raises(GraphError, match=r"expected a node.*Graph\(\[f, g\]\)"):
            Graph([wrong])


def test_a_lambda_with_a_parameter_self_is_no_method():
    for function in (lambda self: self, lambda cls: cls):
        with pytest.raises(GraphError, match="rename the parameter") as caught:
            node(output="y", name="n")(function)
        assert "None" not in str(caught.value)


def test_a_folder_in_the_place_of_a_store(tmp_path: Path):
    with pytest.raises(StoreUnavailableError, match=r"folder.*runs\.db"):
        Engine(Graph([node(output="y", name="n")(lambda x: x)]), store=tmp_path)


def test_both_answer_and_answers():
    @interrupt(output="ok")
    def ask(x: int) -> str:
        return "ok?"

    engine = Engine(Graph([ask]))
    engine.run({"x": 1}, run_id="r")
    with pytest.raises(RunStateError, match="answer= and answers=") as caught:
        engine.resume("r", answer=1, answers={"ask#0": 1})
    assert "several" not in str(caught.value)
    assert engine.resume("r", answer=1)["ok"] == 1
