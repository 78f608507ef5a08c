"""Reading what is stored: a page of many runs, and a state of a run with many steps.

`list` reads the newest 100 of 10,000 runs, as `clew runs` does. `open` reads one state of a run of 100,000 steps with a
new engine, the last one and the first one: what somebody waits for who opens a long run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from benchmarks.contestants import CLEW, Contestant
from benchmarks.measure import measure
from benchmarks.places import Place, postgres_place, sqlite_place
from benchmarks.rows import Bar, Outcome, Result, Row, Settings, Timing

RUNS, PAGE = 10_000, 100
STEPS = 100_000
LIST_BAR = Bar(limit=5.0)
OPEN_BAR = Bar(limit=30.0)
PLACES: dict[str, Callable[[], AbstractContextManager[Place]]] = {
    "SQLite": lambda: sqlite_place("normal"),
    "PostgreSQL": postgres_place,
}


def list_runs(contestants: tuple[Contestant, ...], settings: Settings) -> Iterator[Result]:
    for name, where in PLACES.items():
        title = f"one page of {PAGE} of {RUNS:,} runs, {name}"
        row = Row(f"list-{name.lower()}", "list", title, "ms", LIST_BAR)
        yield _measured(row, "listed", (RUNS, PAGE), PAGE, where, contestants, settings)


def open_run(contestants: tuple[Contestant, ...], settings: Settings) -> Iterator[Result]:
    for title, step in {"last": None, "first": 0}.items():
        what = f"{title} state of a run of {STEPS:,} steps, new engine, SQLite"
        row = Row(f"open-{title}", "open", what, "ms", OPEN_BAR)
        expected = STEPS if step is None else step
        yield _measured(row, "opened", (STEPS, step), expected, PLACES["SQLite"], contestants, settings)


def _measured(
    row: Row,
    workload: str,
    arguments: tuple[Any, ...],
    expected: Any,
    where: Callable[[], AbstractContextManager[Place]],
    contestants: tuple[Contestant, ...],
    settings: Settings,
) -> Result:
    try:
        with where() as place:
            timing = Timing(
                workload, (*arguments, place), expected, 1, scale=1e3, only=frozenset({CLEW}), once=False
            )
            return measure(row, timing, contestants, settings)
    except Exception as error:  # no server here: a finding for this row
        return Result(row, (Outcome(CLEW, "missing", note=f"{type(error).__name__}: {error}"),))


def stored_rows(count: int) -> Iterator[Any]:
    """Rows of runs as they are stored, a second apart."""
    from clew.stores import RunRow

    for number in range(count):
        created = time.time() - count + number
        yield RunRow(
            f"run {number}", "shop", status="completed", created=created, updated=created,
            structure="structure", description="{}", attributes={"tenant": f"t{number % 10}"},
        )  # fmt: skip
