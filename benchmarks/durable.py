"""A chain whose every step is kept before the next one begins, and how much of a disk that takes.

Time: the chain of trivial nodes, each run a new one in the same file or database. The floor inserts one row and
commits it a step. With `durability="async"` the run does not wait for the disk, only its end does.

Size: steps that each append one message to a list. Whoever writes the whole list at each step writes more with every
step, which is why the bar is for every length.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager

from benchmarks.contestants import CLEW, FLOOR, Contestant
from benchmarks.measure import measure
from benchmarks.places import PAYLOAD, Place, postgres_place, size_of, sqlite_place
from benchmarks.rows import Bar, Outcome, Result, Row, Settings, Timing

NODES = 100
# Making and ending a run is shared by its steps: a longer one shows the step alone. Peers take part in the shorter.
LENGTHS = (NODES, 1_000)
NORMAL_BAR = Bar(limit=28.0, floor=19.0)
FULL_BAR = Bar(limit=1.15 * 238, floor=238.0)
ASYNC_BAR = Bar(limit=15.0)
POSTGRES_BAR = Bar(limit=1.25 * 281, floor=281.0)
BYTES_BAR = Bar(limit=PAYLOAD + 150.0)

STEPS = (100, 1_000, 9_000)  # a run of Clew takes 10,000 steps at most, unless told otherwise
QUICK_STEPS = (100, 1_000)
WITH_PEERS = 1_000


def durable(contestants: tuple[Contestant, ...], settings: Settings) -> Iterator[Result]:
    for key, synchronous, durability, bar in (
        ("normal", "normal", "sync", NORMAL_BAR),
        ("full", "full", "sync", FULL_BAR),
        ("full-async", "full", "async", ASYNC_BAR),
    ):
        how = f"synchronous={synchronous.upper()}" + (", async" if durability == "async" else "")
        workload = "durable_async_chain" if durability == "async" else "durable_chain"
        for nodes in LENGTHS[:1] if settings.quick and durability == "sync" else LENGTHS:
            title = f"durable chain of {nodes:,}, SQLite WAL, {how}, per step"
            row = Row(f"durable-{key}-{nodes}", f"durable {key}", title, "µs", bar, nodes)
            yield _timed(row, workload, sqlite_place(synchronous, durability), contestants, settings)
    title = f"durable chain of {NODES}, PostgreSQL, per step"
    row = Row(f"durable-postgres-{NODES}", "durable postgres", title, "µs", POSTGRES_BAR, NODES)
    yield _timed(row, "postgres_chain", postgres_place(), contestants, settings)


def _timed(
    row: Row,
    workload: str,
    where: AbstractContextManager[Place],
    contestants: tuple[Contestant, ...],
    settings: Settings,
) -> Result:
    try:
        place = where.__enter__()
    except Exception as error:  # no server here: a finding for this row, and the others go on
        return Result(row, tuple(Outcome(each.name, "missing", note=str(error)) for each in contestants))
    try:
        only = None if row.size == NODES else frozenset({FLOOR, CLEW})
        timing = Timing(workload, (row.size, place), row.size, row.size, only=only)
        return measure(row, timing, contestants, settings)
    finally:
        where.__exit__(None, None, None)


def durable_bytes(contestants: tuple[Contestant, ...], settings: Settings) -> Iterator[Result]:
    for steps in QUICK_STEPS if settings.quick else STEPS:
        title = f"bytes a step, {steps:,} steps that append a message of {PAYLOAD}"
        row = Row(f"durable-bytes-{steps}", "bytes", title, "bytes", BYTES_BAR, steps)
        entered = [each for each in contestants if steps == WITH_PEERS or each.name in (FLOOR, CLEW)]
        yield Result(row, tuple(_bytes(each, steps) for each in entered))


def _bytes(contestant: Contestant, steps: int) -> Outcome:
    """A size, not a time: one run, in a file of its own."""
    if contestant.module is None:
        return Outcome(contestant.name, "missing", note=contestant.problem)
    workload = contestant.workload("appends")
    if workload is None:
        return Outcome(contestant.name, "absent", note=contestant.excuse("appends"))
    try:
        with sqlite_place("normal") as place:
            with place.open:
                kept = workload(steps, place)()
            if kept != steps:
                raise RuntimeError(f"{kept} messages instead of {steps}")
            (file,) = place.folder.glob("*.db")
            return Outcome(contestant.name, "measured", (size_of(file) / steps,))
    except ImportError as error:
        return Outcome(contestant.name, "missing", note=str(error))
    except Exception as error:  # as in measure: what breaks is reported, and the others go on
        return Outcome(contestant.name, "failed", note=f"{type(error).__name__}: {error}")
