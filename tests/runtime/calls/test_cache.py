"""``@node(cache=True)``: a store has one result for equal code and equal inputs."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

import clew.stores.results
import clew.stores.sqlite.results
from clew import (
    END,
    Cache,
    Command,
    Context,
    Engine,
    Graph,
    MemoryStore,
    Send,
    SQLiteStore,
    append,
    interrupt,
    node,
    register_type,
    route,
)
from clew.errors import EncodeError, GraphError, GraphWarning, InputError, PolicyError, StoreUnavailableError
from clew.runtime.executors import processes
from clew.runtime.log.entries.large_values import _BLOB
from clew.testing import VirtualClock
from tests.runtime import on_processes


class Texts(TypedDict):
    texts: list[str]
    text: str
    sizes: Annotated[list[int], append]


class Chosen(TypedDict):
    a: int
    b: Annotated[list[int], append]
    c: int


def counting(calls: list[Any], **options: Any) -> Any:
    @node(output="b", cache=True, **options)
    def work(a: Any) -> str:
        calls.append(a)
        return f"{a!r} at call {len(calls)}"

    return work


def test_equal_inputs_are_not_worked_on_twice() -> None:
    calls: list[Any] = []
    engine = Engine(Graph([counting(calls)]))
    assert engine.run({"a": 1})["b"] == engine.run({"a": 1})["b"] == "1 at call 1"


def test_other_inputs_are_worked_on() -> None:
    calls: list[Any] = []
    engine = Engine(Graph([counting(calls)]))
    engine.run({"a": 1})
    engine.run({"a": 2})
    engine.run({"a": 1.0})
    assert calls == [1, 2, 1.0]


def test_inputs_are_equal_by_their_encoding() -> None:
    calls: list[Any] = []
    engine = Engine(Graph([counting(calls)]))
    engine.run({"a": {"x": 1, "y": [2]}})
    engine.run({"a": {"y": [2], "x": 1}})
    assert len(calls) == 1


def test_nodes_are_not_cached_unless_they_say_so() -> None:
    calls: list[Any] = []
    engine = Engine(Graph([node(lambda a: calls.append(a), name="b")]))
    engine.run({"a": 1})
    engine.run({"a": 1})
    assert len(calls) == 2


def test_each_engine_has_a_cache_of_its_own() -> None:
    calls: list[Any] = []
    graph = Graph([counting(calls)])
    Engine(graph).run({"a": 1})
    Engine(graph).run({"a": 1})
    assert len(calls) == 2


def test_what_was_cached_says_so() -> None:
    engine = Engine(Graph([counting([])]))
    fresh, again = engine.run({"a": 1}), engine.run({"a": 1})
    cached = [result.state.node_history["work"].cached for result in (fresh, again)]
    assert cached == [False, True]


def test_a_cached_result_makes_the_same_digest() -> None:
    engine = Engine(Graph([counting([])]))
    assert engine.run({"a": 1}).state.digest == engine.run({"a": 1}).state.digest


def test_a_loop_uses_its_results_again() -> None:
    calls: list[int] = []

    @node(output="half", cache=True)
    def parity(n: int) -> int:
        calls.append(n % 2)
        return n % 2

    @node(output="rest")
    def rest(n: int, half: int) -> int:
        return n + half

    engine = Engine(Graph([parity, rest]))
    engine.run({"n": 1})
    engine.fork(engine.runs()[0].run_id, values={"n": 1})
    assert calls == [1]


def test_an_async_node_is_cached() -> None:
    calls: list[int] = []

    @node(output="b", cache=True)
    async def work(a: int) -> int:
        calls.append(a)
        return a

    engine = Engine(Graph([work]))
    engine.run({"a": 1})
    assert (asyncio.run(engine.arun({"a": 1}))["b"], calls) == (1, [1])


@pytest.mark.parametrize("beside", [False, True])
def test_nodes_beside_others_are_cached(beside: bool) -> None:
    calls: list[Any] = []
    nodes = [counting(calls), node(lambda a: a, name="c")] if beside else [counting(calls)]
    engine = Engine(Graph(nodes))
    engine.run({"a": 1})
    engine.run({"a": 1})
    assert len(calls) == 1


def test_a_gate_is_cached() -> None:
    calls: list[int] = []

    @route(targets=["work", END], cache=True)
    def choose(a: int) -> Any:
        calls.append(a)
        return "work"

    @node(output="b")
    def work(a: int) -> int:
        return a

    engine = Engine(Graph([choose, work]))
    engine.run({"a": 1})
    assert (engine.run({"a": 1})["b"], calls) == (1, [1])


def test_a_node_that_takes_a_context_needs_a_key() -> None:
    def work(a: int, ctx: Context) -> int:
        calls.append(a)
        return a

    calls: list[int] = []
    with pytest.raises(GraphError, match="work"):
        Graph([node(work, output="b", cache=True)])
    engine = Engine(Graph([node(work, output="b", cache=Cache(key=lambda a: a % 2))]))
    assert [engine.run({"a": a})["b"] for a in (1, 2, 3)] == [1, 2, 1]
    assert calls == [1, 2]


def test_a_key_takes_what_the_node_takes() -> None:
    with pytest.raises(GraphError, match="'query'"):
        Graph([node(lambda a: a, name="b", cache=Cache(key=lambda query: query))])
    calls: list[Any] = []

    @node(output="b", cache=Cache(key=lambda a, state: (a, state["c"])))
    def work(a: Any) -> Any:
        calls.append(a)
        return a

    engine = Engine(Graph([work, node(lambda c, d: c, name="other")]))
    for values in ({"a": 1, "c": 1, "d": 0}, {"a": 1, "c": 1, "d": 5}, {"a": 1, "c": 2, "d": 0}):
        engine.run(values)
    assert calls == [1, 1]


@pytest.mark.parametrize("wrong", [{"ttl": 0}, {"ttl": -1.0}, {"ttl": "1"}, {"ttl": True}, {"key": "a"}])
def test_a_cache_is_checked(wrong: dict[str, Any]) -> None:
    with pytest.raises(PolicyError):
        Cache(**wrong)


def test_only_functions_are_cached() -> None:
    inner = Graph([node(lambda a: a, name="b")], name="inner")
    with pytest.raises(GraphError, match="inside"):
        Graph([inner.as_node(cache=True)])
    with pytest.raises(GraphError, match="person"):
        Graph([interrupt(lambda a: a, name="ask", output="b", cache=True)])
    with pytest.raises(GraphError, match="Cache"):
        node(lambda a: a, name="b", cache=1)


def test_inputs_that_cannot_be_encoded_are_an_error() -> None:
    calls: list[Any] = []
    engine = Engine(Graph([counting(calls, retry=3)]))
    result = engine.run({"a": object()}, check=False)
    assert (result.status, type(result.error), calls) == ("failed", EncodeError, [])
    assert "'work'" in str(result.error)
    graph = Graph([node(lambda a, client: a, name="b", cache=Cache(key=lambda a: a))]).bind(client=object())
    assert Engine(graph).run({"a": 1})["b"] == 1


@pytest.mark.parametrize("is_async", [False, True])
def test_a_result_that_cannot_be_encoded_is_an_error(is_async: bool, tmp_path: Path) -> None:
    graph = Graph([node(lambda a: object(), name="b", cache=True)])
    engine = Engine(graph, store=tmp_path / "runs.db", check=False)
    result = asyncio.run(engine.arun({"a": 1})) if is_async else engine.run({"a": 1})
    assert (result.status, type(result.error)) == ("failed", EncodeError)
    assert engine.clear_cache() == 0


def test_a_node_that_reads_the_whole_state_is_cached_by_all_of_it() -> None:
    calls: list[Any] = []

    @node(output="b", cache=True)
    def work(state: Any) -> int:
        calls.append(dict(state))
        return 1

    engine = Engine(Graph([work]))
    for values in ({"a": 1}, {"a": 1}, {"a": 1, "c": 2}):
        engine.run(values)
    assert calls == [{"a": 1}, {"a": 1, "c": 2}]


def test_a_failure_is_not_cached() -> None:
    calls: list[int] = []

    @node(output="b", cache=True)
    def work(a: int) -> int:
        calls.append(a)
        if len(calls) == 1:
            raise ValueError
        return a

    engine = Engine(Graph([work]))
    assert engine.run({"a": 1}, check=False).status == "failed"
    assert engine.run({"a": 1})["b"] == 1


def test_two_nodes_of_the_same_code_have_results_of_their_own() -> None:
    class Client:
        def __init__(self, name: str) -> None:
            self.name = name

        def call(self, a: int) -> str:
            return self.name

    graph = Graph([node(Client(name).call, name=name, output=name, cache=True) for name in ("x", "y")])
    result = graph.run({"a": 1}, max_concurrent_nodes=1)
    assert (result["x"], result["y"]) == ("x", "y")


def test_renamed_inputs_count_as_arguments() -> None:
    plain = node(lambda a, b: a - b, name="minus", output="y", cache=True)
    swapped = plain.rename(inputs={"a": "b", "b": "a"})
    moved = plain.rename(inputs={"a": "c"})
    store = MemoryStore()
    assert Engine(Graph([plain]), store=store).run({"a": 5, "b": 2})["y"] == 3
    assert Engine(Graph([swapped]), store=store).run({"a": 5, "b": 2})["y"] == -3
    same = Engine(Graph([moved]), store=store).run({"c": 5, "b": 2})
    assert (same["y"], same.metrics.total_cache_hits) == (
        3,
        1,
    )  # the arguments are equal, and only the name of a value differs


def test_a_default_counts_as_code() -> None:
    calls: list[int] = []

    @node(output="b", cache=True)
    def work(a: int, k: int = 5) -> int:
        calls.append(k)
        return k

    engine = Engine(Graph([work]))
    assert [engine.run(values)["b"] for values in ({"a": 1}, {"a": 1, "k": 6}, {"a": 1})] == [5, 6, 5]
    assert calls == [5, 6]


def test_a_node_inside_a_subgraph_is_cached() -> None:
    calls: list[Any] = []
    engine = Engine(Graph([Graph([counting(calls)], name="inner").as_node()]))
    engine.run({"a": 1})
    engine.run({"a": 1})
    assert len(calls) == 1


def test_the_oldest_results_in_memory_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clew.stores.results, "MOST_IN_MEMORY", 2)
    calls: list[Any] = []
    engine = Engine(Graph([counting(calls)]))
    for a in (1, 2, 3, 2, 1):
        engine.run({"a": a})
    assert calls == [1, 2, 3, 1]


def test_a_result_is_a_copy() -> None:
    @node(output="b", cache=True)
    def work(a: int) -> list[int]:
        return [a]

    engine = Engine(Graph([work]))
    engine.run({"a": 1})["b"].append(2)
    assert engine.run({"a": 1})["b"] == [1]


@pytest.mark.parametrize(
    "chosen",
    [
        "work",
        END,
        None,
        ["work", "more"],
        [Send("work", {"a": 5}), Send("work", {"a": 6})],
        [],
    ],
)
def test_what_a_gate_chose_is_cached(chosen: Any, tmp_path: Path) -> None:
    calls: list[int] = []

    @route(targets=["work", "more", END], multi=True, cache=True)
    def choose(a: int) -> Any:
        calls.append(a)
        return chosen

    done = [node(lambda a: a, name="work", output="b"), node(lambda a: -a, name="more", output="c")]
    engine = Engine(Graph([choose, *done], state=Chosen), store=tmp_path / "runs.db")
    one, other = engine.run({"a": 1, "b": []}), engine.run({"a": 1, "b": []})
    assert (dict(one.values), one.state.gate_decisions) == (dict(other.values), other.state.gate_decisions)
    assert calls == [1]


def test_a_command_is_cached(tmp_path: Path) -> None:
    calls: list[int] = []

    @node(writes=("b",), goto=["more", END], cache=True)
    def work(a: int) -> Any:
        calls.append(a)
        return Command({"b": a + 1}, goto="more")

    engine = Engine(Graph([work, node(lambda b: -b, name="more", output="c")]), store=tmp_path / "runs.db")
    assert [engine.run({"a": 1})["c"] for _ in range(2)] == [-2, -2]
    assert calls == [1]


# -- in every store --------------------------------------------------------------------------------------------------


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Any]:
    """Open the same storage again."""
    if request.param == "memory":
        store = MemoryStore()
        return lambda: store
    if request.param == "sqlite":
        return lambda: SQLiteStore(tmp_path / "runs.db")
    opened: Callable[[], Any] = request.getfixturevalue("open_postgres")
    return opened


def run_with(engine: Engine, values: dict[str, Any], is_async: bool) -> Any:
    return asyncio.run(engine.arun(values)) if is_async else engine.run(values)


both = pytest.mark.parametrize("is_async", [False, True])


@both
@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("beside", [False, True])
def test_engines_with_one_store_share_results(
    open_store: Callable[[], Any], is_async: bool, mode: str, beside: bool
) -> None:
    calls: list[int] = []

    @node(output="b", cache=True)
    def work(a: int) -> int:
        calls.append(a)
        return a + 1

    @node(output="b", cache=True, name="work")
    async def awork(a: int) -> int:
        calls.append(a)
        return a + 1

    nodes = [work if mode == "sync" else awork, *([node(lambda a: -a, name="c")] if beside else [])]
    results = [run_with(Engine(Graph(nodes), store=open_store()), {"a": 1}, is_async) for _ in range(3)]
    assert ([result["b"] for result in results], calls) == ([2, 2, 2], [1])
    assert [result.state.node_history["work"].cached for result in results] == [False, True, True]
    assert len({result.state.digest for result in results}) == 1
    executed = 2 if beside else 1
    metrics = [(r.metrics.total_nodes_executed, r.metrics.total_cache_hits) for r in results]
    assert metrics == [(executed, 0), (executed - 1, 1), (executed - 1, 1)]


@both
def test_each_item_of_a_fan_out_has_a_result(open_store: Callable[[], Any], is_async: bool) -> None:
    calls: list[str] = []

    @route(targets=["size"])
    def each(texts: list[str]) -> Any:
        return [Send("size", {"text": text}) for text in texts]

    @node(output="sizes", cache=True)
    def size(text: str) -> int:
        calls.append(text)
        return len(text)

    engine = Engine(Graph([each, size], state=Texts), store=open_store())
    run_with(engine, {"texts": ["a", "bb"], "sizes": []}, is_async)
    result = run_with(engine, {"texts": ["bb", "ccc", "a"], "sizes": []}, is_async)
    assert (result["sizes"], sorted(calls)) == ([2, 3, 1], ["a", "bb", "ccc"])
    assert engine.history(result.run_id)[-1].cached == ("size#0[0]", "size#0[2]")


@both
def test_a_hit_is_marked_everywhere(open_store: Callable[[], Any], is_async: bool) -> None:
    graph = Graph([node(lambda a: a + 1, name="work", output="b", cache=True)])
    engine = Engine(graph, store=open_store())
    first, again = (run_with(engine, {"a": 1}, is_async) for _ in range(2))
    for result, is_hit in ((first, False), (again, True)):
        checkpoint = engine.history(result.run_id)[-1]
        assert checkpoint.cached == (("work#0",) if is_hit else ())
        assert checkpoint.state.node_history["work"].cached is is_hit
        why = engine.why(result.run_id, "b")
        assert (why.cached, "from the cache" in str(why)) == (is_hit, is_hit)
        stored = engine.result(result.run_id).metrics
        assert (stored.total_nodes_executed, stored.total_cache_hits) == ((0, 1) if is_hit else (1, 0))
    assert engine.replay(again.run_id).ok


def test_results_are_cleared(open_store: Callable[[], Any]) -> None:
    calls: list[Any] = []
    other = node(lambda a: a, name="other", output="c", cache=True)
    engine = Engine(Graph([counting(calls), other]), store=open_store())
    engine.run({"a": 1})
    assert engine.clear_cache("work") == 1
    assert engine.run({"a": 1}).metrics.total_cache_hits == 1
    assert (len(calls), engine.clear_cache(), engine.clear_cache()) == (2, 2, 0)
    with pytest.raises(InputError):
        engine.clear_cache(1)
    with pytest.raises(InputError, match="did you mean 'work'"):
        engine.clear_cache("wrok")
    assert engine.clear_cache("a node of another graph") == 0


@both
def test_a_large_result_is_stored_once(open_store: Callable[[], Any], is_async: bool) -> None:
    large = "x" * 100_000
    store = open_store()
    engine = Engine(Graph([node(lambda a: large, name="b", cache=True)]), store=store)
    first = run_with(engine, {"a": 1}, is_async)
    body = store.cached(next(iter(keys_of(store)))).body
    (digest,) = (bytes(each).decode() for _, each in _BLOB.findall(body))
    assert len(body) < 200
    engine.delete(first.run_id)
    assert store.blob(digest) == json.dumps(large).encode() or store.blob(digest) == large.encode()
    assert run_with(engine, {"a": 1}, is_async)["b"] == large
    engine.clear_cache()
    if store.encodes:
        assert store.blob(digest)  # of the second run


def keys_of(store: Any) -> list[str]:
    if isinstance(store, MemoryStore):
        return list(store._results.rows)
    if isinstance(store, SQLiteStore):
        return clew.stores.sqlite.results.result_keys(store._db)
    from clew.stores.postgres.results import result_keys

    return result_keys(store._link)


TIMES: list[int] = []


def timed(ttl: float | None) -> Graph:
    @node(output="b", cache=Cache(ttl=ttl))
    def work(a: int) -> int:
        TIMES.append(a)
        return a

    return Graph([work])


@pytest.mark.parametrize("is_durable", [False, True])
def test_expired_results_are_computed_again(is_durable: bool, tmp_path: Path) -> None:
    clock = VirtualClock()
    store = SQLiteStore(tmp_path / "runs.db", clock=clock) if is_durable else MemoryStore(clock=clock)
    TIMES.clear()

    def calls_after(seconds: float, ttl: float | None, a: int = 1) -> int:
        clock.advance(clock.monotonic() + seconds)
        Engine(timed(ttl), store=store).run({"a": a})
        return len(TIMES)

    assert [calls_after(*each) for each in ((0, 60), (59, 60), (2, 60))] == [1, 1, 2]
    assert calls_after(30, 20) == 3  # a shorter time counts for what is stored
    assert calls_after(1000, None) == 4
    assert calls_after(10**9, None) == 4
    calls_after(0, 5, a=2)
    calls_after(6, 5, a=3)
    assert len(keys_of(store)) == (2 if is_durable else 3)  # a write deletes what has expired


DAMAGE = {
    "body": "UPDATE results SET body = x'00ff'",
    "type": "UPDATE results SET body = 'text'",
    "checksum": "UPDATE results SET crc = 1",
    "time": "UPDATE results SET made = 'never'",
    "form": "form",
    "blob": "UPDATE blobs SET body = x'00' WHERE run = 0",
    "missing blob": "DELETE FROM blobs WHERE run = 0",
}


@both
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_result_is_computed_again(damage: str, is_async: bool, tmp_path: Path) -> None:
    calls: list[int] = []
    large = "x" * 100_000

    @node(output="b", cache=True)
    def work(a: int) -> str:
        calls.append(a)
        return large

    store = SQLiteStore(tmp_path / "runs.db")
    engine = Engine(Graph([work]), store=store)
    engine.delete(engine.run({"a": 1}).run_id)
    if damage == "form":
        (key,) = keys_of(store)
        store.cache(key, "work", b'd["command"]')
    else:
        store._db.execute(DAMAGE[damage])
    assert damage == "form" or list(store.check())
    with pytest.warns(GraphWarning, match="'work'"):
        result = run_with(engine, {"a": 1}, is_async)
    assert (result.status, result["b"] == large, len(calls)) == ("completed", True, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run_with(engine, {"a": 1}, is_async)["b"] == large
    assert (len(calls), list(store.check())) == (2, [])


class Broken(SQLiteStore):
    """A store without a working cache."""

    def cached(self, key: str) -> Any:
        raise StoreUnavailableError("gone")

    def cache(self, *_: Any, **__: Any) -> None:
        raise StoreUnavailableError("gone")


def test_a_cache_that_fails_is_a_miss(tmp_path: Path) -> None:
    calls: list[Any] = []
    engine = Engine(Graph([counting(calls)]), store=Broken(tmp_path / "runs.db"))
    with pytest.warns(GraphWarning) as caught:
        assert engine.run({"a": 1}).status == "completed"
    assert (len(caught), len(calls)) == (2, 1)


def test_concurrent_misses_are_safe(open_store: Callable[[], Any]) -> None:
    start, calls = threading.Barrier(4), []

    @node(output="b", cache=True)
    def work(a: int) -> int:
        calls.append(a)
        start.wait(300)
        return a + 1

    graph = Graph([work])
    found: list[Any] = []
    threads = [
        threading.Thread(target=lambda: found.append(Engine(graph, store=open_store()).run({"a": 1})["b"]))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (found, len(calls)) == ([2] * 4, 4)
    assert Engine(graph, store=open_store()).run({"a": 1}).metrics.total_cache_hits == 1


def test_a_resume_and_a_replay_do_not_need_the_cache(tmp_path: Path) -> None:
    calls: list[Any] = []
    broken = [True]

    @node(output="c")
    def fails(b: str) -> str:
        if broken[0]:
            raise ValueError
        return b

    engine = Engine(Graph([counting(calls), fails]), store=tmp_path / "runs.db")
    engine.run({"a": 1}, check=False)
    result = engine.run({"a": 1}, check=False)
    broken[0] = False
    engine.clear_cache()
    done = engine.resume(result.run_id)
    assert (done.status, len(calls), done.metrics.total_cache_hits) == ("completed", 1, 1)
    assert engine.replay(result.run_id).ok
    assert len(calls) == 1


@both
def test_a_result_of_a_process_is_cached(is_async: bool, tmp_path: Path) -> None:
    graph = Graph([on_processes.cached, on_processes.here])
    with processes(1) as executor:
        for _ in range(2):
            engine = Engine(graph, store=tmp_path / "runs.db", executor=executor)
            result = run_with(engine, {"a": 1, "log": str(tmp_path / "log")}, is_async)
            assert result.status == "completed"
    assert result.state.node_history["cached"].cached
    assert (tmp_path / "log").read_text() == "called\n"


def test_a_retried_node_is_cached_when_it_succeeds(tmp_path: Path) -> None:
    calls: list[int] = []

    @node(output="b", cache=True, retry=3)
    def work(a: int) -> int:
        calls.append(a)
        if len(calls) < 3:
            raise ValueError
        return a

    engine = Engine(Graph([work]), store=tmp_path / "runs.db", clock=VirtualClock())
    assert [engine.run({"a": 1})["b"] for _ in range(2)] == [1, 1]
    assert len(calls) == 3


def answers(**fields: Any) -> Graph:
    """A graph that returns an instance of a library's class, as it is in some version of the library."""
    made = dataclasses.make_dataclass("Answer", [(name, type(value)) for name, value in fields.items()])
    made.__module__ = "library"
    register_type(made)

    @node(output="b", cache=True)
    def work(a: int) -> Any:
        COUNTED.append(a)
        return made(*FIELDS)

    FIELDS[:] = fields.values()
    return Graph([work])


COUNTED: list[int] = []
FIELDS: list[Any] = []


def test_a_class_that_has_changed_is_computed_again(tmp_path: Path) -> None:
    COUNTED.clear()
    for fields in ({"text": "x"}, {"text": "x"}, {"text": "x", "more": 1}):
        result = Engine(answers(**fields), store=tmp_path / "runs.db").run({"a": 1})
        assert (result.status, dataclasses.asdict(result["b"])) == ("completed", fields)
    assert len(COUNTED) == 2


CHOSEN = ["one"]


def choose_any(a: int) -> str:
    return CHOSEN[0]


def test_a_gate_with_other_targets_decides_again(tmp_path: Path) -> None:
    done = [node(lambda a: a, name="one"), node(lambda a: -a, name="two")]
    for target in ("one", "two"):
        CHOSEN[0] = target
        gate = route(targets=[target, END], cache=True)(choose_any)
        result = Engine(Graph([gate, *done]), store=tmp_path / "runs.db").run({"a": 1})
        assert result.status == "completed"
        assert not result.state.node_history["choose_any"].cached
