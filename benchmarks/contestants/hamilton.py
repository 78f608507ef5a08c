"""Hamilton: a driver built once over a module of functions, asked for the last value as a dictionary.

Its graphs are fixed and acyclic: a loop cannot be written, and the asyncio driver has no fan-out over data
(`Parallelizable` is refused by its builder).
"""

# The peers live in an environment of their own, where the type checker does not look.
# mypy: disable-error-code="import-not-found, misc, no-any-return, override, untyped-decorator"

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

from hamilton import ad_hoc_utils, async_driver, base, driver

from benchmarks.functions import ASYNC, chain_functions
from benchmarks.places import DURABLE, Place

IMPORTS = "hamilton.driver"
ABSENT = {
    "loop": "its graphs are acyclic",
    "fanout": "its asyncio driver has no fan-out over data",
    "uneven_threads": "sync nodes run one after the other",
    **dict.fromkeys(DURABLE, "it keeps no runs"),
}


def chain(nodes: int) -> Callable[[], Any]:
    module = ad_hoc_utils.create_temporary_module(*chain_functions(nodes))
    built = driver.Builder().with_modules(module).with_adapters(base.DictResult()).build()
    last = f"x{nodes}"

    def run() -> Any:
        return built.execute([last], inputs={"x0": 0})[last]

    return run


def async_chain(nodes: int) -> Callable[[], Awaitable[Any]]:
    built = _async_driver(*chain_functions(nodes, ASYNC))
    last = f"x{nodes}"

    async def run() -> Any:
        return (await built.execute([last], inputs={"x0": 0}))[last]

    return run


def uneven(slow: float, quick: float) -> Callable[[], Awaitable[Any]]:
    async def long(start: int) -> int:
        await asyncio.sleep(slow)
        return start + 1

    async def first(start: int) -> int:
        await asyncio.sleep(quick)
        return start + 1

    async def second(first: int) -> int:
        await asyncio.sleep(quick)
        return first + 1

    async def third(second: int) -> int:
        await asyncio.sleep(quick)
        return second + 1

    async def total(long: int, third: int) -> int:
        return long + third

    built = _async_driver(long, first, second, third, total)

    async def run() -> Any:
        return (await built.execute(["total"], inputs={"start": 0}))["total"]

    return run


def _async_driver(*functions: Callable[..., Any]) -> Any:
    module = ad_hoc_utils.create_temporary_module(*functions)
    return async_driver.Builder().with_modules(module).build_without_init()


def incremental_chain(nodes: int) -> Callable[[], Any]:
    """It keeps nothing between executions: all nodes are computed because they always are."""
    return _recompute(nodes, driver.Builder())


def incremental_disk(nodes: int, place: Place) -> Callable[[], Any]:
    return _recompute(nodes, driver.Builder().with_cache(path=str(place.folder / "hamilton")))


def _recompute(nodes: int, builder: Any) -> Callable[[], Any]:
    sys.setrecursionlimit(max(sys.getrecursionlimit(), 20 * nodes))  # it recurses through the chain
    module = ad_hoc_utils.create_temporary_module(*chain_functions(nodes))
    built = builder.with_modules(module).with_adapters(base.DictResult()).build()
    last, numbers = f"x{nodes}", count(1)

    def run() -> Any:
        number = next(numbers) * 1_000_000  # a value that no earlier execution has seen
        return built.execute([last], inputs={"x0": number})[last] - number

    return run
