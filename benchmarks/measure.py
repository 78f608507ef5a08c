"""How a row is timed.

- Every contestant is built once, outside the timing, and its first run is not counted.
- Rounds: in each, every contestant gives one sample, one after the other, and each round starts with another
  contestant, so that whatever else the machine does meets all alike. The median of the samples counts.
- A sample repeats the run until it lasts long enough to be read off the clock, and checks every answer.
- Garbage is collected before each sample; the collector then runs with its usual settings, for everybody.
  What was built is frozen out of its sight, so that nobody pays for walking another's modules.
- Coroutines are timed inside one running event loop: starting a loop is not part of a run.
"""

from __future__ import annotations

import asyncio
import gc
import math
import time
from collections.abc import Awaitable, Callable
from typing import Any

from benchmarks.contestants import Contestant
from benchmarks.rows import Outcome, Result, Row, Settings, Timing

# Calls the run `count` times and returns the seconds that took.
Sampler = Callable[[int], float]


class WrongAnswerError(Exception):
    """A contestant did not compute what the workload asks for."""


def measure(row: Row, timing: Timing, contestants: tuple[Contestant, ...], settings: Settings) -> Result:
    entered = [each for each in contestants if timing.only is None or each.name in timing.only]
    outcomes: dict[str, Outcome] = {}
    samplers: dict[str, tuple[Sampler, int]] = {}
    with asyncio.Runner() as runner:
        for contestant in entered:
            prepared = _prepare(contestant, timing, settings, runner)
            if isinstance(prepared, Outcome):
                outcomes[contestant.name] = prepared
            else:
                samplers[contestant.name] = prepared
        gc.collect()
        gc.freeze()
        try:
            outcomes |= _rounds(samplers, timing, settings.rounds)
        finally:
            gc.unfreeze()
    return Result(row, tuple(outcomes[each.name] for each in entered))


def _prepare(
    contestant: Contestant, timing: Timing, settings: Settings, runner: asyncio.Runner
) -> tuple[Sampler, int] | Outcome:
    """The contestant's sampler and how often it runs in a sample, or why it does not take part."""
    if contestant.module is None:
        return Outcome(contestant.name, "missing", note=contestant.problem)
    workload = contestant.workload(timing.workload)
    if workload is None:
        return Outcome(contestant.name, "absent", note=contestant.excuse(timing.workload))
    try:
        run = workload(*timing.arguments)
        sampler = (
            _async_sampler(run, timing.expected, runner)
            if timing.asynchronous
            else _sampler(run, timing.expected, timing.clock)
        )
        sampler(1)
        if timing.once:
            return sampler, 1
        return sampler, max(1, math.ceil(settings.sample_seconds / sampler(1)))
    except ImportError as error:  # a part of its own that this row needs, such as a store
        return Outcome(contestant.name, "missing", note=str(error))
    except Exception as error:  # a contestant that breaks is a result to report, and the others go on
        return Outcome(contestant.name, "failed", note=f"{type(error).__name__}: {error}")


def _rounds(samplers: dict[str, tuple[Sampler, int]], timing: Timing, rounds: int) -> dict[str, Outcome]:
    names = list(samplers)
    samples: dict[str, list[float]] = {name: [] for name in names}
    failures: dict[str, Outcome] = {}
    for number in range(rounds):
        first = number % len(names) if names else 0
        for name in names[first:] + names[:first]:
            if name in failures:
                continue
            sampler, count = samplers[name]
            gc.collect()
            try:
                samples[name].append(sampler(count) / count / timing.parts * timing.scale)
            except Exception as error:  # as in _prepare
                failures[name] = Outcome(name, "failed", note=f"{type(error).__name__}: {error}")
    return {name: failures.get(name) or Outcome(name, "measured", tuple(samples[name])) for name in names}


def _sampler(run: Callable[[], Any], expected: Any, clock: Callable[[], float]) -> Sampler:
    def sample(count: int) -> float:
        started = clock()
        for _ in range(count):
            answer = run()
            if answer != expected:
                raise WrongAnswerError(f"{answer!r} instead of {expected!r}")
        return clock() - started

    return sample


def _async_sampler(run: Callable[[], Awaitable[Any]], expected: Any, runner: asyncio.Runner) -> Sampler:
    async def timed(count: int) -> float:
        started = time.perf_counter()
        for _ in range(count):
            answer = await run()
            if answer != expected:
                raise WrongAnswerError(f"{answer!r} instead of {expected!r}")
        return time.perf_counter() - started

    def sample(count: int) -> float:
        return runner.run(timed(count))

    return sample
