"""What a row is, the bar that Clew has to clear in it, and what came of measuring it.

A bar is an absolute number, set on one machine together with the floor there. On another machine it is scaled
by what the floor takes here, and both verdicts are given: against the bar as written, and the scaled one.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from benchmarks.contestants import CLEW, FLOOR, Contestant


@dataclass(frozen=True)
class Bar:
    limit: float
    floor: float | None = None  # what the floor took where the limit was set; None: a limit for every machine

    def scaled(self, floor: float | None) -> float | None:
        return None if floor is None or self.floor is None else self.limit * floor / self.floor


@dataclass(frozen=True)
class Row:
    key: str
    family: str  # rows of one family differ in size only
    title: str
    unit: str
    bar: Bar | None = None
    size: int = 1


@dataclass(frozen=True)
class Timing:
    """How a row is timed: which workload with which arguments, and what one run of it amounts to."""

    workload: str
    arguments: tuple[Any, ...]
    expected: Any
    parts: float  # nodes, rounds or branches in a run
    scale: float = 1e6  # units in a second
    asynchronous: bool = False
    once: bool = False  # a sample is one run, however short
    only: frozenset[str] | None = None
    clock: Callable[[], float] = time.perf_counter  # or process_time, for work that never waits


Status = Literal["measured", "missing", "absent", "failed"]


@dataclass(frozen=True)
class Outcome:
    contestant: str
    status: Status
    samples: tuple[float, ...] = ()
    note: str = ""

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    @property
    def spread(self) -> float:
        """The range of the samples as a share of their median."""
        return (max(self.samples) - min(self.samples)) / self.median if self.median else 0.0


@dataclass(frozen=True)
class Verdict:
    limit: float
    passed: bool
    scaled: float | None  # None where the floor was not measured, or the bar is not scaled
    scaled_passed: bool | None


@dataclass(frozen=True)
class Result:
    row: Row
    outcomes: tuple[Outcome, ...] = field(default=())

    def median(self, contestant: str) -> float | None:
        for outcome in self.outcomes:
            if outcome.contestant == contestant and outcome.status == "measured":
                return outcome.median
        return None

    @property
    def verdict(self) -> Verdict | None:
        """None where there is no bar, or Clew was not measured."""
        clew, floor, bar = self.median(CLEW), self.median(FLOOR), self.row.bar
        if bar is None or clew is None:
            return None
        scaled = bar.scaled(floor)
        return Verdict(bar.limit, clew <= bar.limit, scaled, None if scaled is None else clew <= scaled)


@dataclass(frozen=True)
class Settings:
    rounds: int
    quick: bool

    @property
    def sample_seconds(self) -> float:
        """How long a sample lasts at least; shorter runs are repeated to fill it."""
        return 0.01 if self.quick else 0.05


# Measures the rows of one workload, one after the other.
Workload = Callable[[tuple[Contestant, ...], Settings], Iterator[Result]]
