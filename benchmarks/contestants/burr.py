"""Burr: an application built once without tracker or persister, put back to its entry point for every run.

Branches that run side by side are sub-applications: `MapStates` over items for the fan-out, `MapActions` over
two subgraphs for the uneven branches. Their graphs are built once, outside the timing.
"""

# The peers live in an environment of their own, where the type checker does not look.
# mypy: disable-error-code="import-not-found, import-untyped, misc, no-any-return, override, untyped-decorator"

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from itertools import pairwise
from typing import Any

from burr.core import Application, ApplicationBuilder, Condition, GraphBuilder, State, action, default
from burr.core.parallelism import MapActions, MapStates, RunnableGraph
from burr.core.persistence import SQLitePersister

from benchmarks.places import Place, message

IMPORTS = "burr.core"
ABSENT = {"durable_async_chain": "every step waits for its commit"}


def chain(nodes: int) -> Callable[[], int]:
    @action(reads=["count"], writes=["count"])
    def add(state: State) -> State:
        return state.update(count=state["count"] + 1)

    app, last = _chain_of(add, nodes)

    def run() -> int:
        app.update_state(State({"count": 0}))
        return app.run(halt_after=[last])[2]["count"]

    return run


def async_chain(nodes: int) -> Callable[[], Awaitable[int]]:
    @action(reads=["count"], writes=["count"])
    async def add(state: State) -> State:
        return state.update(count=state["count"] + 1)

    app, last = _chain_of(add, nodes)

    async def run() -> int:
        app.update_state(State({"count": 0}))
        return (await app.arun(halt_after=[last]))[2]["count"]

    return run


def _chain_of(function: Callable[..., Any], nodes: int) -> tuple[Application[Any], str]:
    names = [f"n{index}" for index in range(nodes)]
    builder = ApplicationBuilder().with_actions(**dict.fromkeys(names, function))
    builder = builder.with_transitions(*pairwise(names))
    return builder.with_state(State({"count": 0})).with_entrypoint(names[0]).build(), names[-1]


def loop(rounds: int) -> Callable[[], int]:
    @action(reads=["count"], writes=["count"])
    def step(state: State) -> State:
        return state.update(count=state["count"] + 1)

    @action(reads=["count"], writes=[])
    def done(state: State) -> State:
        return state

    again = Condition.lmda(lambda state: state["count"] < rounds, ["count"])
    builder = ApplicationBuilder().with_actions(step=step, done=done)
    builder = builder.with_transitions(("step", "step", again), ("step", "done", default))
    app = builder.with_state(State({"count": 0})).with_entrypoint("step").build()

    def run() -> int:
        app.update_state(State({"count": 0}))
        return app.run(halt_before=["done"])[2]["count"]

    return run


@action(reads=["item"], writes=["result"])
async def work(state: State) -> State:
    return state.update(result=state["item"] * 2)


WORK = RunnableGraph.create(work)


class Spread(MapStates):
    def is_async(self) -> bool:
        return True

    def action(self, state: State, inputs: dict[str, Any]) -> RunnableGraph:
        return WORK

    def states(self, state: State, context: Any, inputs: dict[str, Any]) -> Generator[State, None, None]:
        for item in range(state["branches"]):
            yield state.update(item=item)

    async def reduce(self, state: State, states: AsyncGenerator[State, None]) -> State:
        return state.update(total=sum([part["result"] async for part in states]))

    @property
    def reads(self) -> list[str]:
        return ["branches"]

    @property
    def writes(self) -> list[str]:
        return ["total"]


def fanout(branches: int) -> Callable[[], Awaitable[int]]:
    builder = ApplicationBuilder().with_actions(spread=Spread()).with_entrypoint("spread")
    app = builder.with_state(State({"branches": branches})).build()

    async def run() -> int:
        app.update_state(State({"branches": branches}))
        return (await app.arun(halt_after=["spread"]))[2]["total"]

    return run


class Branches(MapActions):
    """Two subgraphs over one state; what they leave in `value` is added up."""

    def __init__(self, graphs: list[RunnableGraph]) -> None:
        super().__init__()
        self.graphs = graphs

    def actions(
        self, state: State, context: Any, inputs: dict[str, Any]
    ) -> Generator[RunnableGraph, None, None]:
        yield from self.graphs

    def reduce(self, state: State, states: Generator[State, None, None]) -> State:
        return state.update(total=sum(part["value"] for part in states))

    @property
    def reads(self) -> list[str]:
        return ["value"]

    @property
    def writes(self) -> list[str]:
        return ["total"]


class AsyncBranches(Branches):
    def is_async(self) -> bool:
        return True

    async def reduce(self, state: State, states: AsyncGenerator[State, None]) -> State:
        return state.update(total=sum([part["value"] async for part in states]))


def uneven(slow: float, quick: float) -> Callable[[], Awaitable[int]]:
    @action(reads=["value"], writes=["value"])
    async def take_long(state: State) -> State:
        await asyncio.sleep(slow)
        return state.update(value=state["value"] + 1)

    @action(reads=["value"], writes=["value"])
    async def take_quick(state: State) -> State:
        await asyncio.sleep(quick)
        return state.update(value=state["value"] + 1)

    app = _branches_app(AsyncBranches([_row_of("long", take_long, 1), _row_of("quick", take_quick, 3)]))

    async def run() -> int:
        app.update_state(State({"value": 0}))
        return (await app.arun(halt_after=["branches"]))[2]["total"]

    return run


def uneven_threads(slow: float, quick: float) -> Callable[[], int]:
    @action(reads=["value"], writes=["value"])
    def take_long(state: State) -> State:
        time.sleep(slow)
        return state.update(value=state["value"] + 1)

    @action(reads=["value"], writes=["value"])
    def take_quick(state: State) -> State:
        time.sleep(quick)
        return state.update(value=state["value"] + 1)

    app = _branches_app(Branches([_row_of("long", take_long, 1), _row_of("quick", take_quick, 3)]))

    def run() -> int:
        app.update_state(State({"value": 0}))
        return app.run(halt_after=["branches"])[2]["total"]

    return run


def _row_of(name: str, function: Callable[..., Any], length: int) -> RunnableGraph:
    names = [f"{name}{index}" for index in range(length)]
    builder = GraphBuilder().with_actions(**dict.fromkeys(names, function))
    graph = builder.with_transitions(*pairwise(names)).build()
    return RunnableGraph(graph=graph, entrypoint=names[0], halt_after=[names[-1]])


def _branches_app(branches: Branches) -> Application[Any]:
    builder = ApplicationBuilder().with_actions(branches=branches).with_entrypoint("branches")
    return builder.with_state(State({"value": 0})).build()


def _stored_chain(nodes: int, persister: Any) -> Callable[[], int]:
    @action(reads=["count"], writes=["count"])
    def add(state: State) -> State:
        return state.update(count=state["count"] + 1)

    names = [f"n{index}" for index in range(nodes)]
    persister.initialize()
    builder = (
        ApplicationBuilder().with_actions(**dict.fromkeys(names, add)).with_transitions(*pairwise(names))
    )
    builder = builder.with_state_persister(persister).with_identifiers(app_id="only", partition_key="all")
    app = builder.with_state(State({"count": 0})).with_entrypoint(names[0]).build()

    def run() -> int:
        # One application for all runs; the numbers of its steps go on, since they are the key they are kept under.
        number = app.sequence_id
        app.update_state(State({"count": 0} if number is None else {"count": 0, "__SEQUENCE_ID": number}))
        return app.run(halt_after=[names[-1]])[2]["count"]

    return run


def _file(place: Place) -> Any:
    db = sqlite3.connect(place.file("burr"))
    place.open.callback(db.close)
    return SQLitePersister(str(place.file("burr")), connection=place.set_up(db))


def durable_chain(nodes: int, place: Place) -> Callable[[], int]:
    return _stored_chain(nodes, _file(place))


def postgres_chain(nodes: int, place: Place) -> Callable[[], int]:
    import psycopg2
    from burr.integrations.persisters.b_psycopg2 import PostgreSQLPersister

    db = psycopg2.connect(place.dsn)
    place.open.callback(db.close)
    return _stored_chain(nodes, PostgreSQLPersister(db))


def appends(steps: int, place: Place) -> Callable[[], int]:
    @action(reads=["messages"], writes=["messages"])
    def say(state: State) -> State:
        return state.append(messages=message(len(state["messages"])))

    @action(reads=["messages"], writes=[])
    def done(state: State) -> State:
        return state

    persister = _file(place)
    persister.initialize()
    again = Condition.lmda(lambda state: len(state["messages"]) < steps, ["messages"])
    builder = ApplicationBuilder().with_actions(say=say, done=done)
    builder = builder.with_transitions(("say", "say", again), ("say", "done", default))
    builder = builder.with_state_persister(persister).with_identifiers(app_id="only", partition_key="all")
    app = builder.with_state(State({"messages": []})).with_entrypoint("say").build()

    def run() -> int:
        return len(app.run(halt_before=["done"])[2]["messages"])

    return run
