"""The floor: the plainest Python that does the work, without any framework.

Functions called in a loop over a dict, `asyncio.gather` for what runs side by side, a pool for threads.
Nothing is checked, kept or planned, so nothing that offers more can be quicker; ratios are taken to it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

from benchmarks.functions import ASYNC, chain_functions

IMPORTS = "asyncio"


def chain(nodes: int) -> Callable[[], int]:
    plan = [(f"x{index + 1}", f"x{index}", function) for index, function in enumerate(chain_functions(nodes))]

    def run() -> int:
        values = {"x0": 0}
        for output, source, function in plan:
            values[output] = function(values[source])
        return values[f"x{nodes}"]

    return run


def async_chain(nodes: int) -> Callable[[], Awaitable[int]]:
    functions = chain_functions(nodes, ASYNC)
    plan = [(f"x{index + 1}", f"x{index}", function) for index, function in enumerate(functions)]

    async def run() -> int:
        values = {"x0": 0}
        for output, source, function in plan:
            values[output] = await function(values[source])
        return values[f"x{nodes}"]

    return run


def loop(rounds: int) -> Callable[[], int]:
    def step(count: int) -> int:
        return count + 1

    def again(count: int) -> bool:
        return count < rounds

    def run() -> int:
        values = {"count": 0}
        while again(values["count"]):
            values["count"] = step(values["count"])
        return values["count"]

    return run


def fanout(branches: int) -> Callable[[], Awaitable[int]]:
    async def work(item: int) -> int:
        return item * 2

    async def run() -> int:
        return sum(await asyncio.gather(*(work(item) for item in range(branches))))

    return run


def uneven(slow: float, quick: float) -> Callable[[], Awaitable[int]]:
    async def long() -> int:
        await asyncio.sleep(slow)
        return 1

    async def row() -> int:
        value = 0
        for _ in range(3):
            await asyncio.sleep(quick)
            value += 1
        return value

    async def run() -> int:
        return sum(await asyncio.gather(long(), row()))

    return run


def uneven_threads(slow: float, quick: float) -> Callable[[], int]:
    def long() -> int:
        time.sleep(slow)
        return 1

    def row() -> int:
        value = 0
        for _ in range(3):
            time.sleep(quick)
            value += 1
        return value

    def run() -> int:
        with ThreadPoolExecutor(2) as pool:
            parts = [pool.submit(long), pool.submit(row)]
            return sum(part.result() for part in parts)

    return run
