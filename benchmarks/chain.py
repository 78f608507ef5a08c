"""A chain of trivial nodes, sync and async: what a framework adds to a function call.

Clew's bar holds for every length: what a node costs may not depend on how many others there are.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.contestants import CLEW, FLOOR, Contestant
from benchmarks.measure import measure
from benchmarks.rows import Bar, Result, Row, Settings, Timing

SYNC_BAR = Bar(limit=3.0, floor=0.15)
ASYNC_BAR = Bar(limit=5.0, floor=0.21)

# Peers take part where a run of theirs lasts less than a second.
LENGTHS = (10, 100, 400, 1_000, 10_000)
QUICK_LENGTHS = (10, 100, 1_000)
WITH_PEERS = (100, 400)
ASYNC_LENGTHS = (100, 400)


def chain(contestants: tuple[Contestant, ...], settings: Settings) -> Iterator[Result]:
    for nodes in QUICK_LENGTHS if settings.quick else LENGTHS:
        row = Row(f"chain-{nodes}", "chain", f"chain of {nodes:,} nodes, per node", "µs", SYNC_BAR, nodes)
        only = None if nodes in WITH_PEERS else frozenset({FLOOR, CLEW})
        yield measure(row, Timing("chain", (nodes,), nodes, nodes, only=only), contestants, settings)


def async_chain(contestants: tuple[Contestant, ...], settings: Settings) -> Iterator[Result]:
    for nodes in ASYNC_LENGTHS[:1] if settings.quick else ASYNC_LENGTHS:
        title = f"async chain of {nodes:,} nodes, per node"
        row = Row(f"async-chain-{nodes}", "async chain", title, "µs", ASYNC_BAR, nodes)
        timing = Timing("async_chain", (nodes,), nodes, nodes, asynchronous=True)
        yield measure(row, timing, contestants, settings)
