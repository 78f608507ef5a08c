"""What is counted over a run's lifetime, however many processes had a part in it.

A stretch is what one process does of a run between two pauses. Its counters are kept in the log (`Measured`), unless
all of them can be read off the log: the run was completed in one stretch, and no item waited for room in the queue.
Of steps that no stretch has counted, because their process was killed or they can be read off, the log tells: how many
there are, how often their items were tried, and when.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from clew.engine.machine import Machine
from clew.engine.records import Outcome, Step


class SchedulerMetrics(msgspec.Struct, frozen=True):
    """Counters of one run, over its lifetime."""

    total_steps: int = 0
    total_nodes_executed: int = 0
    avg_step_latency_ms: float = 0.0
    max_queue_depth: int = 0
    total_retries: int = 0
    total_backpressure_blocks: int = 0


class Totals(msgspec.Struct, frozen=True):
    """Counters that add up."""

    steps: int = 0
    executed: int = 0
    retries: int = 0
    peak: int = 0
    blocks: int = 0
    elapsed: float = 0.0  # seconds

    def plus(self, other: Totals) -> Totals:
        """Both together."""
        return Totals(
            self.steps + other.steps,
            self.executed + other.executed,
            self.retries + other.retries,
            max(self.peak, other.peak),
            self.blocks + other.blocks,
            self.elapsed + other.elapsed,
        )

    def metrics(self) -> SchedulerMetrics:
        """In the words of the specification."""
        return SchedulerMetrics(
            total_steps=self.steps,
            total_nodes_executed=self.executed,
            avg_step_latency_ms=self.elapsed * 1000.0 / self.steps if self.steps else 0.0,
            max_queue_depth=max(self.peak, 1 if self.executed else 0),
            total_retries=self.retries,
            total_backpressure_blocks=self.blocks,
        )


class Measured(msgspec.Struct, frozen=True):
    """What one stretch of a run counted, from after step `first` to step `last`."""

    n: int
    first: int
    last: int
    totals: Totals


def totals_of(machine: Machine, elapsed: float) -> Totals:
    """What a machine has counted."""
    counters, frontier = machine.counters, machine.frontier
    steps, executed = counters.steps + counters.short, counters.executed + counters.short
    return Totals(steps, executed, counters.retries, frontier.peak, frontier.blocks, elapsed)


def lifetime(
    first: int, steps: Sequence[Step], inner: Iterable[Step], measured: Sequence[Measured]
) -> Totals:
    """What a run has counted so far. It began after step `first`; `steps` are those of its own that are at hand,
    `inner` those of subgraphs, which count where no stretch has counted them."""
    total = Totals()
    for stretch in measured:
        total = total.plus(stretch.totals)
    uncounted = [step for step in steps if not any(m.first < step.number <= m.last for m in measured)]
    if not uncounted:
        return total
    outcomes = [outcome for step in uncounted for outcome in step.outcomes]
    tried = outcomes if measured else [*outcomes, *(o for step in inner for o in step.outcomes)]
    last = max(step.number for step in steps)
    return total.plus(
        Totals(
            steps=last - first - sum(stretch.last - stretch.first for stretch in measured),
            executed=sum(outcome.attempt + 1 for outcome in tried if not outcome.cached),
            retries=sum(outcome.attempt for outcome in tried),
            peak=max(len(step.outcomes) for step in uncounted),
            elapsed=_elapsed(outcomes),
        )
    )


def _elapsed(outcomes: Iterable[Outcome]) -> float:
    """For how long something ran; what ran at the same time counts once."""
    total, until = 0.0, 0.0
    for began, duration in sorted((outcome.started, outcome.duration) for outcome in outcomes):
        total += max(0.0, began + duration - max(until, began))
        until = max(until, began + duration)
    return total
