"""LangGraph: a `StateGraph` compiled once without checkpointer, run with `invoke` or `ainvoke`.

The chain writes one key over and over, its idiom and its quickest form; the recursion limit is raised to
the length of the run, and tracing stays off.
"""

# The peers live in an environment of their own, where the type checker does not look.
# mypy: disable-error-code="import-not-found, misc, no-any-return, override, untyped-decorator"

from __future__ import annotations

import asyncio
import operator
import os
import sqlite3
import time
from collections.abc import Awaitable, Callable
from itertools import count as counter
from typing import Annotated, Any, TypedDict

os.environ["LANGSMITH_TRACING"] = "false"

from langgraph.graph import END, START, StateGraph
from langgraph.types import Send

from benchmarks.places import Place, message

IMPORTS = "langgraph.graph"


class Count(TypedDict):
    count: int


def chain(nodes: int) -> Callable[[], int]:
    def add(state: Count) -> Count:
        return {"count": state["count"] + 1}

    graph = _chain_of(add, nodes)
    config = {"recursion_limit": nodes + 10}

    def run() -> int:
        return graph.invoke({"count": 0}, config)["count"]

    return run


def async_chain(nodes: int) -> Callable[[], Awaitable[int]]:
    async def add(state: Count) -> Count:
        return {"count": state["count"] + 1}

    graph = _chain_of(add, nodes)
    config = {"recursion_limit": nodes + 10}

    async def run() -> int:
        return (await graph.ainvoke({"count": 0}, config))["count"]

    return run


def _chain_of(function: Callable[..., Any], nodes: int, checkpointer: Any = None) -> Any:
    builder = StateGraph(Count)
    names = [f"n{index}" for index in range(nodes)]
    for name in names:
        builder.add_node(name, function)
    for source, target in zip([START, *names], [*names, END], strict=True):
        builder.add_edge(source, target)
    return builder.compile(checkpointer=checkpointer)


def loop(rounds: int) -> Callable[[], int]:
    def step(state: Count) -> Count:
        return {"count": state["count"] + 1}

    def again(state: Count) -> str:
        return "step" if state["count"] < rounds else END

    builder = StateGraph(Count)
    builder.add_node("step", step)
    builder.add_edge(START, "step")
    builder.add_conditional_edges("step", again, ["step", END])
    graph = builder.compile()
    config = {"recursion_limit": rounds + 10}

    def run() -> int:
        return graph.invoke({"count": 0}, config)["count"]

    return run


class Items(TypedDict):
    branches: int
    results: Annotated[list[int], operator.add]
    total: int


class Item(TypedDict):
    item: int


def fanout(branches: int) -> Callable[[], Awaitable[int]]:
    def fan(state: Items) -> list[Send]:
        return [Send("work", {"item": item}) for item in range(state["branches"])]

    async def work(state: Item) -> dict[str, list[int]]:
        return {"results": [state["item"] * 2]}

    async def join(state: Items) -> dict[str, int]:
        return {"total": sum(state["results"])}

    builder = StateGraph(Items)
    builder.add_node("work", work)
    builder.add_node("join", join)
    builder.add_conditional_edges(START, fan, ["work"])
    builder.add_edge("work", "join")
    builder.add_edge("join", END)
    graph = builder.compile()

    async def run() -> int:
        return (await graph.ainvoke({"branches": branches}))["total"]

    return run


class Branches(TypedDict):
    start: int
    long: int
    row: int
    total: int


def uneven(slow: float, quick: float) -> Callable[[], Awaitable[int]]:
    async def take_long(state: Branches) -> dict[str, int]:
        await asyncio.sleep(slow)
        return {"long": state["start"] + 1}

    async def take_quick(state: Branches) -> dict[str, int]:
        await asyncio.sleep(quick)
        return {"row": state.get("row", 0) + 1}

    async def join(state: Branches) -> dict[str, int]:
        return {"total": state["long"] + state["row"]}

    graph = _uneven_of(take_long, take_quick, join)

    async def run() -> int:
        return (await graph.ainvoke({"start": 0}))["total"]

    return run


def uneven_threads(slow: float, quick: float) -> Callable[[], int]:
    def take_long(state: Branches) -> dict[str, int]:
        time.sleep(slow)
        return {"long": state["start"] + 1}

    def take_quick(state: Branches) -> dict[str, int]:
        time.sleep(quick)
        return {"row": state.get("row", 0) + 1}

    def join(state: Branches) -> dict[str, int]:
        return {"total": state["long"] + state["row"]}

    graph = _uneven_of(take_long, take_quick, join)

    def run() -> int:
        return graph.invoke({"start": 0})["total"]

    return run


def _uneven_of(long: Callable[..., Any], quick: Callable[..., Any], join: Callable[..., Any]) -> Any:
    builder = StateGraph(Branches)
    builder.add_node("take_long", long)
    for name in ("first", "second", "third"):
        builder.add_node(name, quick)
    builder.add_node("join", join)
    builder.add_edge(START, "take_long")
    builder.add_edge(START, "first")
    builder.add_edge("first", "second")
    builder.add_edge("second", "third")
    builder.add_edge(["take_long", "third"], "join")
    builder.add_edge("join", END)
    return builder.compile()


def _stored_chain(nodes: int, place: Place, saver: Any) -> Callable[[], int]:
    def add(state: Count) -> Count:
        return {"count": state["count"] + 1}

    graph = _chain_of(add, nodes, saver)
    threads = counter()

    def run() -> int:
        config = {"recursion_limit": nodes + 10, "configurable": {"thread_id": str(next(threads))}}
        return graph.invoke({"count": 0}, config, durability=place.durability)["count"]

    return run


def _file(place: Place) -> Any:
    from langgraph.checkpoint.sqlite import SqliteSaver

    db = sqlite3.connect(place.file("langgraph"), check_same_thread=False)
    place.open.callback(db.close)
    saver = SqliteSaver(place.set_up(db))
    saver.setup()
    return saver


def durable_chain(nodes: int, place: Place) -> Callable[[], int]:
    return _stored_chain(nodes, place, _file(place))


durable_async_chain = durable_chain


def postgres_chain(nodes: int, place: Place) -> Callable[[], int]:
    from langgraph.checkpoint.postgres import PostgresSaver

    saver = place.open.enter_context(PostgresSaver.from_conn_string(place.dsn))
    saver.setup()
    return _stored_chain(nodes, place, saver)


class Talk(TypedDict):
    messages: Annotated[list[dict[str, Any]], operator.add]


def appends(steps: int, place: Place) -> Callable[[], int]:
    def say(state: Talk) -> Talk:
        return {"messages": [message(len(state["messages"]))]}

    def again(state: Talk) -> str:
        return "say" if len(state["messages"]) < steps else END

    builder = StateGraph(Talk)
    builder.add_node("say", say)
    builder.add_edge(START, "say")
    builder.add_conditional_edges("say", again, ["say", END])
    graph = builder.compile(checkpointer=_file(place))
    config = {"recursion_limit": steps + 10, "configurable": {"thread_id": "only"}}

    def run() -> int:
        return len(graph.invoke({"messages": []}, config, durability="sync")["messages"])

    return run
