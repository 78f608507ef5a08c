"""Counters over the lifetime of a run, across all processes that executed it.

Most counters are computed from the log: the number of steps, attempts and times. Two are not in any other entry: how
often an item waited for room in the queue, and the longest queue. Each resumption of the run stores them in a
`Measured` record.

The latency of a step is the time from the start of its first item to the end of its last one, each in its final
attempt. It excludes waits between attempts, for answers and between two resumes. It is counted in whole microseconds,
the precision of stored times, so a live run and a loaded run report the same number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from clew.engine.machine import Machine
from clew.engine.records import Outcome, SingleItemStep, Step


class SchedulerMetrics(msgspec.Struct, frozen=True):
    """Counters over the lifetime of a run."""

    total_steps: int = 0
    total_nodes_executed: int = 0
    avg_step_latency_ms: float = 0.0
    max_queue_depth: int = 0
    total_retries: int = 0
    total_backpressure_blocks: int = 0
    total_cache_hits: int = 0  # items whose result was cached, or reused by a rerun


class Totals(msgspec.Struct, frozen=True):
    """Counters that can be added."""

    steps: int = 0
    executed: int = 0
    retries: int = 0
    peak: int = 0
    blocks: int = 0
    latency: int = 0  # microseconds, of all steps
    cached: int = 0

    def plus(self, other: Totals) -> Totals:
        """Return the sum of both."""
        return Totals(
            self.steps + other.steps,
            self.executed + other.executed,
            self.retries + other.retries,
            max(self.peak, other.peak),
            self.blocks + other.blocks,
            self.latency + other.latency,
            self.cached + other.cached,
        )

    def metrics(self) -> SchedulerMetrics:
        """Return the counters under the names of the specification."""
        return SchedulerMetrics(
            total_steps=self.steps,
            total_nodes_executed=self.executed,
            avg_step_latency_ms=self.latency / 1000.0 / self.steps if self.steps else 0.0,
            max_queue_depth=max(self.peak, 1 if self.executed else 0),
            total_retries=self.retries,
            total_backpressure_blocks=self.blocks,
            total_cache_hits=self.cached,
        )


class Measured(msgspec.Struct, frozen=True):
    """Queue statistics of one resumption of a run."""

    n: int
    peak: int
    blocks: int


def totals_of(machine: Machine, latency: int) -> Totals:
    """Return the counters of a machine; `latency` is that of its steps, in microseconds."""
    counters, frontier = machine.counters, machine.frontier
    steps, executed = counters.steps + counters.fast_steps, counters.executed + counters.fast_steps
    return Totals(steps, executed, counters.retries, frontier.peak, frontier.blocks, latency, counters.cached)


def lifetime(
    total: int,
    steps: Sequence[Step],
    other_outcomes: Iterable[Outcome],
    tried: int,
    others: int,
    measured: Iterable[Measured],
) -> Totals:
    """Return the counters of a run, computed from its log.

    Of the `total` steps, `steps` were read; each of the others counts as one execution. `other_outcomes` are those
    of items in subgraphs and open steps, `tried` the retries of items without an outcome, and `others` the number of
    final failures, failures without an outcome, and questions. A rescue function does not count.
    """
    own = [outcome for step in steps for outcome in step.outcomes]
    outcomes = [*own, *other_outcomes]
    retries = sum(outcome.attempt for outcome in outcomes) + tried
    called = sum(1 for o in outcomes if not (o.cached or o.by_hand or has_failed_inside(o)))
    queues = list(measured)
    return Totals(
        steps=total,
        executed=called + retries + others + total - len(steps),
        retries=retries,
        peak=max(
            (each.peak for each in queues) if queues else (len(step.outcomes) for step in steps), default=0
        ),
        blocks=sum(each.blocks for each in queues),
        latency=sum(latency_of(step) for step in steps) * total // len(steps) if steps else 0,
        cached=sum(1 for outcome in outcomes if outcome.cached),
    )


def has_failed_inside(outcome: Outcome) -> bool:
    """Return whether this is a subgraph that failed: what failed inside it counts, and it does not."""
    return (outcome.rescued or outcome.error is not None) and any(f.around for f in outcome.failures)


def latency_of(record: Any) -> int:
    """Return the latency of a step of the root frame, in microseconds; 0 for any other record."""
    if type(record) is SingleItemStep:
        return micros(record.duration)
    if type(record) is not Step or record.prefix:
        return 0
    outcomes = record.outcomes
    if len(outcomes) == 1:
        return micros(outcomes[0].duration)
    began = min(outcome.started for outcome in outcomes)
    return micros(max(outcome.started + outcome.duration for outcome in outcomes) - began)


def micros(seconds: float) -> int:
    """Return seconds in whole microseconds, the precision of stored times."""
    return round(seconds * 1e6)
