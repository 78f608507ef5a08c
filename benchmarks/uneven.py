"""A slow node beside three quick ones in a row: who waits at a barrier that the graph does not ask for.

The row takes less time than the slow node, so the whole should take what the slow node takes; with a barrier
after each step it takes 1.6 times that. The times of the original (1 s beside 0.3 s) are divided by five.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.contestants import Contestant
from benchmarks.measure import measure
from benchmarks.rows import Bar, Result, Row, Settings, Timing

SLOW, QUICK = 0.2, 0.06
BAR = Bar(limit=210.0, floor=200.0)
ANSWER = 4  # each of the four nodes adds one


def uneven(contestants: tuple[Contestant, ...], settings: Settings) -> Iterator[Result]:
    for key, workload, kind in (
        ("uneven", "uneven", "async"),
        ("uneven-threads", "uneven_threads", "threads"),
    ):
        title = f"uneven branches, {kind}: {SLOW * 1e3:.0f} ms next to 3 × {QUICK * 1e3:.0f} ms"
        timing = Timing(
            workload, (SLOW, QUICK), ANSWER, parts=1, scale=1e3, asynchronous=kind == "async", once=True
        )
        yield measure(Row(key, key, title, "ms", BAR), timing, contestants, settings)
