"""One node that fans out into many and one that joins them, on an event loop: the cost of a branch.

The bar is the same at every width: what meets in the join may not be copied once a branch.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.contestants import Contestant
from benchmarks.measure import measure
from benchmarks.rows import Bar, Result, Row, Settings, Timing

BAR = Bar(limit=10.0, floor=4.2)
WIDTHS = (100, 1_000, 10_000)


def fanout(contestants: tuple[Contestant, ...], settings: Settings) -> Iterator[Result]:
    for branches in WIDTHS[:2] if settings.quick else WIDTHS:
        title = f"fan-out 1 → {branches:,} → 1, async, per branch"
        row = Row(f"fanout-{branches}", "fan-out", title, "µs", BAR, branches)
        expected = branches * (branches - 1)  # the sum of twice every index
        timing = Timing("fanout", (branches,), expected, branches, asynchronous=True)
        yield measure(row, timing, contestants, settings)
