"""Children that wait at the same time: all their questions are questions of the run."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any

import pytest

from clew import Context, Engine, Graph, interrupt, node
from clew.runtime.calls.in_flight import CallsInFlight
from clew.runtime.calls.recorder import Recorder
from clew.stores import Store


@interrupt(output="ok")
def ask(n: int) -> str:
    return f"accept {n}?"


KID = Graph([ask], name="kid")


@node(output="out")
async def gathers(ns: list[int], ctx: Context) -> list[Any]:
    return [each["ok"] for each in await asyncio.gather(*(ctx.run(KID, {"n": n}) for n in ns))]


@node(output="out")
async def groups(ns: list[int], ctx: Context) -> list[Any]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(ctx.run(KID, {"n": n})) for n in ns]
    return [task.result()["ok"] for task in tasks]


@node(output="out")
async def awaits_one(ns: list[int], ctx: Context) -> list[Any]:
    tasks = [asyncio.ensure_future(ctx.run(KID, {"n": n})) for n in ns[:-1]]
    await asyncio.sleep(0)
    last = await ctx.run(KID, {"n": ns[-1]})
    return [each["ok"] for each in [*await asyncio.gather(*tasks), last]]


def paths(count: int, name: str, first: int = 0) -> list[str]:
    return [f"{name}#0!{number}/ask#0" for number in range(first, count)]


def asked(result: Any) -> list[str]:
    return [question.path for question in result.questions]


@pytest.mark.parametrize("most", [1, 2, 64])
@pytest.mark.parametrize("function", [gathers, groups, awaits_one], ids=lambda each: each.name)
def test_all_questions_are_asked_and_answered_together(store: Store, function: Any, most: int) -> None:
    engine = Engine(Graph([function]), store=store, max_concurrent_nodes=most)
    result = engine.run({"ns": [1, 2, 3]}, run_id="r")
    assert asked(result) == paths(3, function.name)
    assert asked(engine.result("r")) == paths(3, function.name)
    assert engine.replay("r").ok
    answers = {path: number * 10 for number, path in enumerate(asked(result), 1)}
    assert engine.resume("r", answers=answers)["out"] == [10, 20, 30]
    assert engine.replay("r").ok


def test_answers_one_after_the_other(store: Store) -> None:
    engine = Engine(Graph([gathers]), store=store)
    engine.run({"ns": [1, 2, 3]}, run_id="r")
    first, second, third = paths(3, "gathers")
    assert asked(engine.resume("r", answers={second: "b"})) == [first, third]
    assert asked(engine.resume("r", answers={third: "c"})) == [first]
    assert engine.resume("r", answer="a")["out"] == ["a", "b", "c"]
    assert [row.status for row in store.rows(of="r")] == ["completed"] * 3


def test_a_child_whose_recordings_are_read_after_another_has_asked(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Engine(Graph([gathers]), store=store)
    result = engine.run({"ns": [1, 2, 3]}, run_id="r")
    has_asked, reads = asyncio.Event(), count()
    read, finish = Recorder._ahistory, CallsInFlight.finish

    async def late(self: Recorder, item: Any) -> Any:
        if next(reads):
            await has_asked.wait()
        return await read(self, item)

    async def note(self: CallsInFlight, asking: Any) -> Any:
        has_asked.set()
        return await finish(self, asking)

    monkeypatch.setattr(Recorder, "_ahistory", late)
    monkeypatch.setattr(CallsInFlight, "finish", note)
    second = asked(result)[1]
    assert asked(engine.resume("r", answers={second: "b"})) == [
        path for path in asked(result) if path != second
    ]


def test_more_than_ten(store: Store) -> None:
    engine = Engine(Graph([gathers]), store=store)
    result = engine.run({"ns": list(range(12))}, run_id="r")
    assert asked(result) == paths(12, "gathers")
    left = engine.resume(
        "r", answers={path: 0 for path in paths(12, "gathers") if "!2/" not in path and "!10/" not in path}
    )
    assert asked(left) == ["gathers#0!2/ask#0", "gathers#0!10/ask#0"]
    assert engine.replay("r").ok


def test_a_child_that_does_not_ask_ends_first(store: Store) -> None:
    calls: list[int] = []

    @node(output="ok")
    async def work(n: int) -> int:
        await asyncio.sleep(0.01)
        calls.append(n)
        return n

    @node(output="out")
    async def mixed(ns: list[int], ctx: Context) -> list[Any]:
        graphs = [KID if n % 2 else Graph([work], name="work") for n in ns]
        runs = (ctx.run(graph, {"n": n}) for graph, n in zip(graphs, ns, strict=True))
        return [each["ok"] for each in await asyncio.gather(*runs)]

    engine = Engine(Graph([mixed]), store=store)
    result = engine.run({"ns": [1, 2, 3, 4]}, run_id="r")
    assert asked(result) == ["mixed#0!0/ask#0", "mixed#0!2/ask#0"]
    assert sorted(calls) == [2, 4]
    answers = dict.fromkeys(asked(result), 7)
    assert engine.resume("r", answers=answers)["out"] == [7, 2, 7, 4]
    assert sorted(calls) == [2, 4]


def test_a_question_of_the_node_and_those_of_its_children(store: Store) -> None:
    @node(output="out")
    async def both(ns: list[int], ctx: Context) -> list[Any]:
        async def own() -> Any:
            await asyncio.sleep(0)
            return ctx.interrupt("and you?")

        found = await asyncio.gather(own(), *(ctx.run(KID, {"n": n}) for n in ns))
        return [found[0], *(each["ok"] for each in found[1:])]

    engine = Engine(Graph([both]), store=store)
    result = engine.run({"ns": [1, 2]}, run_id="r")
    assert set(asked(result)) == {"both#0", *paths(2, "both")}
    answers = {path: path for path in asked(result)}
    assert engine.resume("r", answers=answers)["out"] == ["both#0", *paths(2, "both")]


def test_children_of_children(store: Store) -> None:
    middle = Graph([gathers], name="middle")

    @node(output="all")
    async def outer(ns: list[int], ctx: Context) -> list[Any]:
        found = await asyncio.gather(ctx.run(middle, {"ns": ns}), ctx.run(middle, {"ns": ns}))
        return [each["out"] for each in found]

    engine = Engine(Graph([outer]), store=store)
    result = engine.run({"ns": [1, 2]}, run_id="r")
    assert asked(result) == [
        f"outer#0!{number}/gathers#0!{inner}/ask#0" for number in (0, 1) for inner in (0, 1)
    ]
    answers = {path: number for number, path in enumerate(asked(result))}
    assert engine.resume("r", answers=answers)["all"] == [[0, 1], [2, 3]]
