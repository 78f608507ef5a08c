"""How many function calls a node costs, counted by cProfile in the sync chain of 100.

A count, not a time: it is the same on a busy machine, and it is what the time follows.
"""

from __future__ import annotations

import cProfile
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.contestants import Contestant
from benchmarks.rows import Outcome, Result, Row, Settings

NODES = 100


def calls(contestants: tuple[Contestant, ...], settings: Settings) -> Iterator[Result]:
    row = Row("calls", "calls", f"function calls a node, chain of {NODES} (cProfile)", "calls")
    yield Result(row, tuple(_outcome(each) for each in contestants))


def _outcome(contestant: Contestant) -> Outcome:
    if contestant.module is None:
        return Outcome(contestant.name, "missing", note=contestant.problem)
    workload = contestant.workload("chain")
    if workload is None:
        return Outcome(contestant.name, "absent", note=contestant.excuse("chain"))
    try:
        every, python = count_calls(workload(NODES))
    except Exception as error:  # as in measure: what breaks is reported, and the others go on
        return Outcome(contestant.name, "failed", note=f"{type(error).__name__}: {error}")
    return Outcome(contestant.name, "measured", (every / NODES,), f"{python / NODES:.1f} of them in Python")


def count_calls(run: Callable[[], Any]) -> tuple[int, int]:
    """All calls of one warm run, and those of functions that are written in Python."""
    run()
    profile = cProfile.Profile()
    profile.enable()
    run()
    profile.disable()
    stats = profile.getstats()
    return (
        sum(entry.callcount for entry in stats),
        sum(entry.callcount for entry in stats if not isinstance(entry.code, str)),
    )
