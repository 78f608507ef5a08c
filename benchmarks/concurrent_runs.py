"""Many runs at once in one process, on PostgreSQL: three steps each, every step kept before the next one begins.

Two rows differ in the number of connections. With one, every commit waits for the one before it; with several, the
server writes the commits of several runs to its disk together. The floor does the same with one thread a connection.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.contestants import CLEW, FLOOR, Contestant
from benchmarks.measure import measure
from benchmarks.places import postgres_place
from benchmarks.rows import Bar, Outcome, Result, Row, Settings, Timing

RUNS = 200
STEPS = 3
CONNECTIONS = (1, 8)
BAR = Bar(
    limit=1_000 / 54
)  # milliseconds: what eight processes with a connection each reach is 54 runs a second


def concurrent(contestants: tuple[Contestant, ...], settings: Settings) -> Iterator[Result]:
    for connections in CONNECTIONS:
        title = f"{RUNS} runs of {STEPS} steps at once, PostgreSQL, pool of {connections}, per run"
        bar = BAR if connections > 1 else None
        row = Row(f"concurrent-{connections}", "concurrent", title, "ms", bar, connections)
        yield _timed(row, connections, contestants, settings)


def _timed(row: Row, connections: int, contestants: tuple[Contestant, ...], settings: Settings) -> Result:
    where = postgres_place()
    try:
        place = where.__enter__()
    except Exception as error:  # no server here: a finding for this row
        return Result(row, tuple(Outcome(each.name, "missing", note=str(error)) for each in contestants))
    try:
        timing = Timing(
            "concurrent",
            (RUNS, STEPS, place, connections),
            RUNS * STEPS,
            RUNS,
            scale=1e3,
            asynchronous=True,
            once=True,
            only=frozenset({FLOOR, CLEW}),
        )
        return measure(row, timing, contestants, settings)
    finally:
        where.__exit__(None, None, None)
