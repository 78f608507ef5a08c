"""Clew: a graph of plain functions, run in memory; versions and history are kept, as always.

The fan-out lifts the bound on nodes at work at once (`max_concurrent_nodes`), since no peer has one unasked.
"""

from __future__ import annotations

import asyncio
import operator
import time
from collections.abc import Awaitable, Callable
from itertools import count
from secrets import token_hex
from typing import Annotated, Any, TypedDict

from benchmarks.functions import ASYNC, chain_functions
from benchmarks.places import Place, message
from clew import END, Command, DependencyGraph, Engine, Graph, Send, append, node, route, schema
from clew import explore as explorer
from clew.explore import Action, Agent, Invariant, RandomWalk, World
from clew.explore.systems import MemoryStorage
from clew.stores import PostgresStore, SQLiteStore, Store

IMPORTS = "clew"
RUNS = "clew, clew.runtime"


def chain(nodes: int) -> Callable[[], Any]:
    graph = Graph(chain_functions(nodes))
    last = f"x{nodes}"
    # A chain takes a step a node; only the longest needs more steps than a run may take by default.
    options: dict[str, Any] = {"max_steps": nodes + 1} if nodes >= 10_000 else {}
    kept = graph.run({"x0": 0}, **options).state
    assert kept.versions[last] == 1, "the chain's bar is for runs that keep versions"
    assert len(kept.node_history) == nodes, "and the history of their nodes"

    def run() -> Any:
        return graph.run({"x0": 0}, **options)[last]

    return run


def async_chain(nodes: int) -> Callable[[], Awaitable[Any]]:
    graph = Graph(chain_functions(nodes, ASYNC))
    last = f"x{nodes}"

    async def run() -> Any:
        return (await graph.arun({"x0": 0}))[last]

    return run


def _explorer(values: int, **options: Any) -> Agent:
    records = MemoryStorage()

    def create(key: str) -> Action:
        def run(world: World) -> None:
            if key not in records:
                records.put(key, 0)

        return Action(f"create_{key}", run)

    def change(key: str) -> Action:
        def run(world: World) -> None:
            if key in records:
                records.put(key, (records[key] + 1) % values)

        return Action(f"change_{key}", run)

    def delete(key: str) -> Action:
        return Action(f"delete_{key}", lambda world: records.delete(key))

    actions = [make(key) for key in ("r0", "r1", "r2") for make in (create, change, delete)]
    holds = Invariant("small", lambda world: len(records) <= 3)
    return Agent(World(systems={"records": records}), actions, [holds], **options)


def explore(values: int) -> Callable[[], int]:
    return explore_by(values, "BFS")


def explore_by(values: int, strategy: str) -> Callable[[], int]:
    agent = _explorer(values, strategy=getattr(explorer, strategy))

    def run() -> int:
        result = agent.explore()
        assert result.ok
        assert not result.truncated
        return len(result.states)

    return run


def walk(values: int, steps: int) -> Callable[[], int]:
    agent = _explorer(values, strategy=RandomWalk(1), max_steps=steps)

    def run() -> int:
        return len(agent.explore().transitions)

    return run


def loop(rounds: int) -> Callable[[], Any]:
    @node(output="count")
    def step(count: int) -> int:
        return count + 1

    @route(targets=["step", END])
    def again(count: int) -> Any:
        return "step" if count < rounds else END

    graph = Graph([step, again])

    def run() -> Any:
        return graph.run({"count": 0})["count"]

    return run


class Items(TypedDict):
    branches: int
    results: Annotated[list[int], append]
    total: int


def fanout(branches: int) -> Callable[[], Awaitable[Any]]:
    @route(targets=["work"])
    def fan(branches: int) -> list[Send]:
        return [Send("work", {"item": item}) for item in range(branches)]

    @node(output="results")
    async def work(item: int) -> int:
        return item * 2

    @node(output="total")
    async def join(results: list[int]) -> int:
        return sum(results)

    graph = Graph([fan, work, join], state=Items)

    async def run() -> Any:
        return (await graph.arun({"branches": branches}, max_concurrent_nodes=branches))["total"]

    return run


def uneven(slow: float, quick: float) -> Callable[[], Awaitable[Any]]:
    @node(output="long")
    async def take_long(start: int) -> int:
        await asyncio.sleep(slow)
        return start + 1

    @node(output="first")
    async def take_first(start: int) -> int:
        await asyncio.sleep(quick)
        return start + 1

    @node(output="second")
    async def take_second(first: int) -> int:
        await asyncio.sleep(quick)
        return first + 1

    @node(output="third")
    async def take_third(second: int) -> int:
        await asyncio.sleep(quick)
        return second + 1

    @node(output="total")
    async def join(long: int, third: int) -> int:
        return long + third

    graph = Graph([take_long, take_first, take_second, take_third, join])

    async def run() -> Any:
        return (await graph.arun({"start": 0}))["total"]

    return run


def uneven_threads(slow: float, quick: float) -> Callable[[], Any]:
    @node(output="long")
    def take_long(start: int) -> int:
        time.sleep(slow)
        return start + 1

    @node(output="first")
    def take_first(start: int) -> int:
        time.sleep(quick)
        return start + 1

    @node(output="second")
    def take_second(first: int) -> int:
        time.sleep(quick)
        return first + 1

    @node(output="third")
    def take_third(second: int) -> int:
        time.sleep(quick)
        return second + 1

    @node(output="total")
    def join(long: int, third: int) -> int:
        return long + third

    graph = Graph([take_long, take_first, take_second, take_third, join])

    def run() -> Any:
        return graph.run({"start": 0})["total"]

    return run


def _stored_chain(nodes: int, place: Place, store: Store) -> Callable[[], Any]:
    graph = Graph(chain_functions(nodes))
    engine = place.open.enter_context(Engine(graph, store=store, durability=place.durability))
    last = f"x{nodes}"
    run_id = engine.run({"x0": 0}).run_id
    assert len(engine.history(run_id)) == nodes + 1, "every state of the run can be had from the store"

    def run() -> Any:
        return engine.run({"x0": 0})[last]

    return run


def durable_chain(nodes: int, place: Place) -> Callable[[], Any]:
    return _stored_chain(nodes, place, _file(place))


durable_async_chain = durable_chain


def postgres_chain(nodes: int, place: Place) -> Callable[[], Any]:
    from clew.stores.postgres.store import PostgresStore

    return _stored_chain(nodes, place, PostgresStore(place.dsn))


def concurrent(runs: int, steps: int, place: Place, connections: int) -> Callable[[], Awaitable[int]]:
    from clew.stores.postgres.store import PostgresStore

    store = PostgresStore(place.dsn, pool_size=connections)
    engine = place.open.enter_context(Engine(Graph(chain_functions(steps)), store=store))
    last = f"x{steps}"

    async def run() -> int:
        results = await asyncio.gather(*(engine.arun({"x0": 0}) for _ in range(runs)))
        return sum(result[last] for result in results)

    return run


def stall(place: Place, shut: Callable[[], None], seconds: float) -> Callable[[], Awaitable[int]]:
    from clew.stores.postgres.store import PostgresStore

    @node(output="y")
    async def work(x: int) -> int:
        await asyncio.to_thread(shut)
        return x + 1

    store = PostgresStore(place.dsn) if place.dsn else SQLiteStore(place.file("stall"))
    engine = place.open.enter_context(Engine(Graph([work]), store=store))

    async def run() -> int:
        return int((await engine.arun({"x": 1}))["y"])

    return run


def listed(runs: int, page: int, place: Place) -> Callable[[], int]:
    from benchmarks.reading import stored_rows
    from clew.stores.postgres.store import PostgresStore

    # Only the writing is hasty.
    quick = f"{place.dsn} options='-c synchronous_commit=off'"
    store = PostgresStore(quick) if place.dsn else SQLiteStore(place.file("list"))
    for row in stored_rows(runs):
        store.create(row)
    if isinstance(store, PostgresStore):
        store._link.run(
            "runs", lambda cursor, _: cursor.execute("ANALYZE @.runs")
        )  # as the server does within a minute
    engine = place.open.enter_context(Engine(store=store))
    return lambda: len(engine.runs(limit=page))


def opened(steps: int, step: int | None, place: Place) -> Callable[[], int]:
    @node(writes=("count",), goto=["more", END])
    def more(count: int) -> Command:
        return Command(update={"count": count + 1}, goto="more" if count + 1 < steps else END)

    graph = Graph([more], name="long")
    with Engine(graph, store=_file(place), max_steps=steps + 1) as engine:
        engine.run({"count": 0}, run_id="long")

    def run() -> int:
        with Engine(store=_file(place)) as engine:
            return int(engine.state("long", step).get("count"))

    return run


_large: dict[str, Any] = {}  # not a variable of the node, which would be a part of its code hash


def large_values(value: Any, place: Place) -> Callable[[], int]:
    _large["value"] = value

    @node(output="big")
    def make(x: int) -> Any:
        return _large["value"]

    @node(output="size")
    def size(big: Any) -> int:
        return len(big)

    engine = place.open.enter_context(Engine(Graph([make, size]), store=_file(place)))
    return lambda: int(engine.run({"x": 1})["size"])


def large_pull(value: Any, place: Place) -> Callable[[], int]:
    _large["value"] = value
    schemas = [schema("big", ["x"], _big), schema("size", ["big"], _size)]
    store = place.dsn and PostgresStore(place.dsn, schema=f"large_{token_hex(6)}")
    if store:
        place.open.callback(store.close)
    graph = place.open.enter_context(DependencyGraph(schemas, store or place.file("clew")))
    graph.set("x", 1)
    return lambda: int(graph.pull("size"))


def _big(inputs: list[Any], old: Any, bindings: dict[str, Any]) -> Any:
    return _large["value"]


def _size(inputs: list[Any], old: Any, bindings: dict[str, Any]) -> int:
    return len(inputs[0])


def _file(place: Place) -> Store:
    return SQLiteStore(place.file("clew"), synchronous=place.synchronous)


class Talk(TypedDict):
    messages: Annotated[list[dict[str, Any]], operator.add]


def appends(steps: int, place: Place) -> Callable[[], Any]:
    @node(writes=("messages",), goto=["say", END])
    def say(messages: list[dict[str, Any]]) -> Command:
        update = {"messages": [message(len(messages))]}
        return Command(update=update, goto="say" if len(messages) + 1 < steps else END)

    engine = place.open.enter_context(Engine(Graph([say], state=Talk), store=_file(place)))

    def run() -> Any:
        return len(engine.run({"messages": []})["messages"])

    return run


def _next(inputs: list[Any], old: Any, bindings: dict[str, Any]) -> Any:
    return inputs[0] + 1


def _recompute(nodes: int, store: Any) -> tuple[DependencyGraph, Callable[[], Any]]:
    schemas = [schema(f"x{index + 1}", inputs=[f"x{index}"], computor=_next) for index in range(nodes)]
    graph = DependencyGraph(schemas, store=store)
    last, numbers = f"x{nodes}", count(1)

    def run() -> Any:
        number = next(numbers)
        graph.set("x0", number)
        return graph.pull(last) - number

    return graph, run


def incremental_chain(nodes: int) -> Callable[[], Any]:
    return _recompute(nodes, None)[1]


def incremental_disk(nodes: int, place: Place) -> Callable[[], Any]:
    graph, run = _recompute(nodes, place.file("clew"))
    place.open.callback(graph.close)
    return run


incremental_disk_grouped = incremental_disk  # rows that a pull has finished share transactions


def _dependents(nodes: int) -> DependencyGraph:
    graph = DependencyGraph([schema("dependent(d)", inputs=["source"], computor=_next)])
    graph.set("source", 0)
    for index in range(nodes):
        graph.pull("dependent", index)
    return graph


def incremental_fan(nodes: int) -> Callable[[], Any]:
    graph, one, numbers = _dependents(nodes), f"dependent({nodes // 2})", count(1)

    def run() -> Any:
        number = next(numbers)
        graph.set("source", number)
        return graph.pull(one) - number

    return run


def incremental_idle(nodes: int, pulls: int) -> Callable[[], Any]:
    graph, numbers = _dependents(nodes), count(1)
    some = [f"dependent({index})" for index in range(0, nodes, nodes // pulls)][:pulls]

    def run() -> Any:
        graph.set("other", next(numbers))
        total = 0
        for one in some:
            total += graph.pull(one)
        return total

    return run
