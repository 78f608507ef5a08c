"""pydantic-graph: a graph from its builder, built once, without instrumentation; values flow along the edges.

All of its steps are coroutines, so the sync rows use `run_sync`, and there are no threads.
"""

# The peers live in an environment of their own, where the type checker does not look.
# mypy: disable-error-code="import-not-found, misc, no-any-return, override, untyped-decorator"

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from pydantic_graph import (
    BaseNode,
    End,
    GraphBuilder,
    GraphRunContext,
    StepContext,
    reduce_list_append,
    reduce_sum,
)

from benchmarks.places import DURABLE

IMPORTS = "pydantic_graph"
ABSENT = {
    "uneven_threads": "all steps are coroutines",
    **dict.fromkeys(DURABLE, "it has no store in a database"),
}


def chain(nodes: int) -> Callable[[], int]:
    graph = _chain_of(nodes)

    def run() -> int:
        return graph.run_sync(inputs=0)

    return run


def async_chain(nodes: int) -> Callable[[], Awaitable[int]]:
    graph = _chain_of(nodes)

    async def run() -> int:
        return await graph.run(inputs=0)

    return run


def _chain_of(nodes: int) -> Any:
    async def add(ctx: StepContext[None, None, int]) -> int:
        return ctx.inputs + 1

    builder = GraphBuilder(name="chain", input_type=int, output_type=int, auto_instrument=False)
    steps = [builder.step(add, node_id=f"n{index}") for index in range(nodes)]
    ends = zip([builder.start_node, *steps], [*steps, builder.end_node], strict=True)
    builder.add(*(builder.edge_from(source).to(target) for source, target in ends))
    return builder.build()


@dataclass
class Step(BaseNode[None, None, int]):
    """The loop in its quickest form: a node that returns itself, or the end."""

    count: int
    rounds: int

    async def run(self, ctx: GraphRunContext[None, None]) -> Step | End[int]:
        count = self.count + 1
        return Step(count, self.rounds) if count < self.rounds else End(count)


def loop(rounds: int) -> Callable[[], int]:
    builder = GraphBuilder(name="loop", input_type=Step, output_type=int, auto_instrument=False)
    builder.add(builder.node(Step), builder.edge_from(builder.start_node).to(Step))
    graph = builder.build()

    def run() -> int:
        return graph.run_sync(inputs=Step(0, rounds))

    return run


def fanout(branches: int) -> Callable[[], Awaitable[int]]:
    async def fan(ctx: StepContext[None, None, int]) -> list[int]:
        return list(range(ctx.inputs))

    async def work(ctx: StepContext[None, None, int]) -> int:
        return ctx.inputs * 2

    async def add_up(ctx: StepContext[None, None, list[int]]) -> int:
        return sum(ctx.inputs)

    builder = GraphBuilder(name="fanout", input_type=int, output_type=int, auto_instrument=False)
    spread, each = builder.step(fan, node_id="fan"), builder.step(work, node_id="work")
    total = builder.step(add_up, node_id="total")
    join = builder.join(reduce_list_append, initial_factory=list)
    builder.add(
        builder.edge_from(builder.start_node).to(spread),
        builder.edge_from(spread).map().to(each),
        builder.edge_from(each).to(join),
        builder.edge_from(join).to(total),
        builder.edge_from(total).to(builder.end_node),
    )
    graph = builder.build()

    async def run() -> int:
        return await graph.run(inputs=branches)

    return run


def uneven(slow: float, quick: float) -> Callable[[], Awaitable[int]]:
    async def take_long(ctx: StepContext[None, None, int]) -> int:
        await asyncio.sleep(slow)
        return ctx.inputs + 1

    async def take_quick(ctx: StepContext[None, None, int]) -> int:
        await asyncio.sleep(quick)
        return ctx.inputs + 1

    builder = GraphBuilder(name="uneven", input_type=int, output_type=int, auto_instrument=False)
    long = builder.step(take_long, node_id="long")
    first, second, third = (builder.step(take_quick, node_id=name) for name in ("first", "second", "third"))
    join = builder.join(reduce_sum, initial=0)
    builder.add(
        builder.edge_from(builder.start_node).to(long, first),
        builder.edge_from(first).to(second),
        builder.edge_from(second).to(third),
        builder.edge_from(long, third).to(join),
        builder.edge_from(join).to(builder.end_node),
    )
    graph = builder.build()

    async def run() -> int:
        return await graph.run(inputs=0)

    return run
