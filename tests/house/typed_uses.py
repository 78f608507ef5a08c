"""Uses of the public API, as type checkers and editors see them. Only type checkers read this file.

A line without a mark is correct. The mark of a wrong line names what mypy and pyright report.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict, assert_type

import msgspec
from pydantic import BaseModel

import clew
from clew import (
    END,
    Context,
    Engine,
    Event,
    Graph,
    GraphState,
    Node,
    RetryPolicy,
    RunHandle,
    RunResult,
    ifelse,
    interrupt,
    node,
    route,
)
from clew.explore import Check, check_graph
from clew.testing import Stepper, VirtualClock, random_order, run_in_order
from clew_nl2sql import Pipeline


class Dict(TypedDict):
    x: int


@dataclass
class Data:
    x: int


class Model(BaseModel):
    x: int


class Struct(msgspec.Struct):
    x: int


@node(output="y")
def plus(x: int, ctx: Context) -> int:
    return x + 1


@node
async def later(x: int) -> int:
    return x


@route(targets=["plus", END])
def gate(y: int) -> str:
    return "plus"


@route(targets=plus, multi=True, after=later, retry=RetryPolicy(max_attempts=2))
def gates(y: int) -> tuple[str, ...]:
    return ("plus",)


@ifelse(when_true="plus", when_false=END, timeout=3)
def small(y: int) -> bool:
    return y < 3


@interrupt
def asked(y: int) -> str:
    return "?"


@interrupt(output="ok", description="May it be sent?")
def approved(y: int) -> str:
    return "?"


# -- correct

graph = Graph([plus], state=Data, entry="plus", edges=[(plus, later), ("later", "plus", later)])
engine = Engine(graph)
mapping: Dict = {"x": 1}
for given in (mapping, {"x": 1}, Data(1), GraphState({"x": 1})):
    engine.run(given)
engine.run(mapping)
engine.run(Data(1), run_id="a")
engine.run(Model(x=1))
engine.run(Struct(x=1))
engine.run(GraphState({"x": 1}))
engine.stream(Data(1))
Engine(graph, seed=1, durability="exit", on_error="continue", clock=VirtualClock(), store=Path("runs.db"))
Engine(graph, executor=ThreadPoolExecutor(), default_node_timeout=None, listeners=[print])
graph.run(Struct(x=1))
graph.run(x=1)
assert_type(graph.run(x=1), RunResult)
assert_type(graph.run({"x": 1}, seed=3, store="runs.db", progress=True), RunResult)
assert_type(engine.run({"x": 1}), RunResult)
assert_type(graph.as_node("inner", inputs=["x"], timeout=3.0), Node)
Stepper(graph, Data(1), seed=1)
run_in_order(graph, Model(x=1), choose=random_order(1), on_error="continue")
check_graph(graph, {"x": 1}, faults=["crash"], max_steps=10, seed=1, progress=False)
Check(graph, {"x": 1}).replace(max_faults=2, on_error="continue")
Pipeline({"sales": "sqlite:///sales.db"}, store=Path("runs.db"), durability="async")
approved.func(1).upper()
asked.func(1).upper()
later.func(1).close()
clew.explore.check_graph(graph, {"x": 1})


assert_type(engine.start(Data(1), run_id="a"), RunHandle)
assert_type(engine.handle("a").result(timeout=1.0), RunResult)
for event in engine.handle("a").events(after="cursor", follow=True):
    assert_type(event, Event)
engine.stream(run_id="a", answer=True)
engine.runs(status="waiting")
engine.prune(status="failed", older_than=3600)
engine.update("a", {"y": 1}, as_node=plus)
assert_type(engine.start(Data(1), thread="t", timeout=1.0, on_busy="refuse", drop=True), RunHandle)
for event in engine.stream({"x": 1}, thread="t", timeout=None):
    assert_type(event, Event)
engine.fork("a", thread="t", on_busy="wait")
assert_type(engine.resume("a", answer=1, progress=True), RunResult)
assert_type(engine.fork("a", step=1, progress=True), RunResult)
assert_type(engine.rerun("a", force=["plus"], progress=True), RunResult)


async def awaited() -> None:
    assert_type(await engine.start({"x": 1}), RunResult)
    async for each in engine.handle("a").answer(1, question="ask#0").events():
        assert_type(each, Event)
    assert_type(await graph.arun(x=1), RunResult)
    assert_type(await graph.arun({"x": 1}, seed=3), RunResult)
    assert_type(await engine.aresume("a", progress=True), RunResult)
    assert_type(await engine.afork("a", progress=True), RunResult)
    assert_type(await engine.arerun("a", progress=True), RunResult)


@node(output="z")
def parent(x: int, ctx: Context) -> str:
    result: RunResult = ctx.run(graph, {"x": x}, key="first")
    assert_type(ctx.run(graph, Data(x))["y"], Any)
    assert_type(result.last_step, int)
    return ctx.run(graph).status


@node(output="z")
async def async_parent(x: int, ctx: Context) -> list[Any]:
    assert_type(await ctx.run(graph, {"x": x}), RunResult)
    one, two = await asyncio.gather(ctx.run(graph, {"x": 1}), ctx.run(graph, {"x": 2}))
    assert_type(one, RunResult)
    return [one["y"], two["y"]]


# -- wrong


@node(output="z")
async def wrong_parent(x: int, ctx: Context) -> Any:
    ctx.run(graph, {"x": x}, kye="first")  # mypy: call-arg; pyright: reportCallIssue
    ctx.run(plus, {"x": x})  # mypy: arg-type; pyright: reportArgumentType
    ctx.run(graph, 5)  # mypy: arg-type; pyright: reportArgumentType
    (await ctx.run(graph)).statsu  # mypy: attr-defined; pyright: reportAttributeAccessIssue
    return ctx.run(graph).vales  # mypy: attr-defined; pyright: reportAttributeAccessIssue


plus(1, "no context")  # mypy: arg-type; pyright: reportArgumentType
engine.run(5)  # mypy: arg-type; pyright: reportArgumentType
engine.start(5)  # mypy: arg-type; pyright: reportArgumentType
engine.start({"x": 1}, thread="t", on_busy="never")  # mypy: arg-type; pyright: reportArgumentType
engine.handle("a").events(after=3)  # mypy: arg-type; pyright: reportArgumentType
Engine(graph, publish="all")  # mypy: arg-type; pyright: reportArgumentType
engine.runs(status="done")  # mypy: arg-type; pyright: reportArgumentType
engine.prune(status="done")  # mypy: arg-type; pyright: reportArgumentType
engine.prune(older_than="30d")  # mypy: arg-type; pyright: reportArgumentType
engine.resume("a", progress="bar")  # mypy: arg-type; pyright: reportArgumentType
engine.fork("a", progres=True)  # mypy: call-arg; pyright: reportCallIssue
engine.rerun("a", force="plus", progres=True)  # mypy: call-arg; pyright: reportCallIssue
engine.run("x")  # mypy: arg-type; pyright: reportArgumentType
engine.run([("x", 1)])  # mypy: arg-type; pyright: reportArgumentType
route(5)  # mypy: call-overload; pyright: reportCallIssue
Engine(graph, max_concurent_nodes=3)  # mypy: call-arg; pyright: reportCallIssue
Engine(graph, durability="snyc")  # mypy: arg-type; pyright: reportArgumentType
Engine(graph, on_error="ignore")  # mypy: arg-type; pyright: reportArgumentType
Engine(graph, on_conflict="first")  # mypy: arg-type; pyright: reportArgumentType
Engine(graph, on_ambiguous="guess")  # mypy: arg-type; pyright: reportArgumentType
Engine(graph, seed="abc")  # mypy: arg-type; pyright: reportArgumentType
Engine(graph, executor=4)  # mypy: arg-type; pyright: reportArgumentType
Engine(graph, store=4)  # mypy: arg-type; pyright: reportArgumentType
graph.run({"x": 1}, max_concurent_nodes=3)  # mypy: call-overload; pyright: reportArgumentType
graph.run({"x": 1}, durability="snyc")  # mypy: call-overload; pyright: reportCallIssue, reportArgumentType
graph.run(5)  # mypy: call-overload; pyright: reportCallIssue, reportArgumentType
graph.rnu(x=1)  # mypy: attr-defined; pyright: reportAttributeAccessIssue
clew.Grahp([plus])  # mypy: attr-defined; pyright: reportAttributeAccessIssue
node(retrry=3)  # mypy: call-overload; pyright: reportCallIssue
node(retry="3")  # mypy: arg-type; pyright: reportArgumentType
route(targets=[plus], retrry=3)  # mypy: call-overload; pyright: reportCallIssue
ifelse(when_true=plus, when_false=END, timout=3)  # mypy: call-overload; pyright: reportCallIssue
ifelse(when_true=plus, wehn_false=END)  # mypy: call-overload; pyright: reportCallIssue
interrupt(outptu="y")  # mypy: call-overload; pyright: reportCallIssue
graph.as_node("inner", timout=3)  # mypy: call-arg; pyright: reportCallIssue
graph.map_over("x", mode="both")  # mypy: arg-type; pyright: reportArgumentType
graph.draw("png")  # mypy: arg-type; pyright: reportArgumentType
Graph([plus], naem="g")  # mypy: call-arg; pyright: reportCallIssue
Stepper(graph, {"x": 1}, sede=1)  # mypy: call-arg; pyright: reportCallIssue
check_graph(graph, {"x": 1}, sede=1)  # mypy: call-arg; pyright: reportCallIssue
Check(graph).replace(max_fault=2)  # mypy: call-arg; pyright: reportCallIssue
Pipeline({"s": "sqlite:///s.db"}, durability="snyc")  # mypy: arg-type; pyright: reportArgumentType
Pipeline({"s": "sqlite:///s.db"}, max_row=5)  # mypy: call-arg; pyright: reportCallIssue
RetryPolicy(max_atempts=2)  # mypy: call-arg; pyright: reportCallIssue
value: Any = assert_type(graph.run(x=1), int)  # mypy: assert-type; pyright: reportAssertTypeFailure
