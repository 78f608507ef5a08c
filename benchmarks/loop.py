"""A loop of one node and a gate that sends it round again: the cost of a turn."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.contestants import Contestant
from benchmarks.measure import measure
from benchmarks.rows import Bar, Result, Row, Settings, Timing

BAR = Bar(limit=4.0, floor=0.2)
ROUNDS = 1_000
QUICK_ROUNDS = 100


def loop(contestants: tuple[Contestant, ...], settings: Settings) -> Iterator[Result]:
    rounds = QUICK_ROUNDS if settings.quick else ROUNDS
    row = Row(
        f"loop-{rounds}",
        "loop",
        f"loop of a node and a gate, {rounds:,} rounds, per round",
        "µs",
        BAR,
        rounds,
    )
    yield measure(row, Timing("loop", (rounds,), rounds, rounds), contestants, settings)
