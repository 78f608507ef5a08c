"""What a large value costs on its way through a durable run, or a stored dependency graph: time, and memory.

A node returns 50 MB, as bytes or as an array of numpy, and a second node reads it. Both steps are in a new SQLite file
when the run ends; in the rows of a dependency graph, both values are stored when the pull returns. Time is counted in
multiples of one SHA-256 of the same bytes, measured beside each run: a store that names content by its digest takes at
least one. The floor hashes the bytes, writes them to a file and waits for the disk; on PostgreSQL it inserts them into
a table. Memory is the highest use of a process of its own, in multiples of the value, which is included.
"""

from __future__ import annotations

import gc
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.contestants import CLEW, FLOOR, Contestant, load
from benchmarks.places import Place, postgres_place, sqlite_place
from benchmarks.rows import Bar, Outcome, Result, Row, Settings

SIZE = 50_000_000
KINDS = ("bytes", "numpy array")
TIME_BAR = Bar(limit=4.0)
MEMORY_BAR = Bar(limit=2.5)


def large_values(contestants: tuple[Contestant, ...], settings: Settings) -> Iterator[Result]:
    entered = [each for each in contestants if each.name in (FLOOR, CLEW)]
    for kind in KINDS:
        key = kind.replace(" ", "-")
        title = f"durable run with {SIZE // 10**6} MB as {kind}, SQLite, in SHA-256 of the same bytes"
        row = Row(f"large-values-{key}", "large values", title, "×", TIME_BAR)
        yield Result(row, tuple(_outcome(each, _times, kind, settings) for each in entered))
        title = f"the same: highest memory, in sizes of the {kind}"
        row = Row(f"large-values-memory-{key}", "large values, memory", title, "×", MEMORY_BAR)
        yield Result(row, tuple(_outcome(each, _memory, kind, settings) for each in entered))
        title = f"pull of {SIZE // 10**6} MB as {kind} in a dependency graph, SQLite, in SHA-256 of the same bytes"
        row = Row(f"large-values-pull-{key}", "large values, pull", title, "×", TIME_BAR)
        yield Result(row, tuple(_outcome(each, _pull_times, kind, settings) for each in entered))
    title = (
        f"pull of {SIZE // 10**6} MB as bytes in a dependency graph, PostgreSQL, in SHA-256 of the same bytes"
    )
    row = Row("large-values-pull-postgres", "large values, pull", title, "×")
    yield Result(row, tuple(_outcome(each, _postgres_times, "bytes", settings) for each in entered))


def _outcome(
    contestant: Contestant,
    measured: Callable[[Contestant, str, Settings], tuple[float, ...]],
    kind: str,
    settings: Settings,
) -> Outcome:
    if contestant.module is None:
        return Outcome(contestant.name, "missing", note=contestant.problem)
    try:
        return Outcome(contestant.name, "measured", measured(contestant, kind, settings))
    except ImportError as error:
        return Outcome(contestant.name, "missing", note=str(error))
    except Exception as error:  # as in measure: what breaks is reported, and the others go on
        return Outcome(contestant.name, "failed", note=f"{type(error).__name__}: {error}")


def made(kind: str) -> Any:
    """A value that no store has seen."""
    if kind == "bytes":
        return os.urandom(SIZE)
    import numpy

    return numpy.random.default_rng().random(SIZE // 8)


def _times(contestant: Contestant, kind: str, settings: Settings) -> tuple[float, ...]:
    return _measured(contestant, "large_values", kind, settings)


def _pull_times(contestant: Contestant, kind: str, settings: Settings) -> tuple[float, ...]:
    return _measured(contestant, "large_pull", kind, settings)


def _postgres_times(contestant: Contestant, kind: str, settings: Settings) -> tuple[float, ...]:
    with postgres_place() as place:
        return tuple(_sample(contestant, "large_pull", kind, place) for _ in range(settings.rounds))


def _measured(contestant: Contestant, workload: str, kind: str, settings: Settings) -> tuple[float, ...]:
    samples = []
    for _ in range(settings.rounds):
        with sqlite_place("normal") as place, place.open:
            samples.append(_sample(contestant, workload, kind, place))
    return tuple(samples)


def _sample(contestant: Contestant, workload: str, kind: str, place: Place) -> float:
    value = made(kind)
    run = contestant.workload(workload)(value, place)
    gc.collect()
    return _seconds(run) / _seconds(lambda: hashlib.sha256(value).digest())


def _seconds(run: Callable[[], Any]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def _memory(contestant: Contestant, kind: str, settings: Settings) -> tuple[float, ...]:
    done = subprocess.run(
        [sys.executable, "-m", __spec__.name, contestant.name, kind],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr.strip().rpartition("\n")[2])
    return (float(json.loads(done.stdout)),)


def _measure_memory(name: str, kind: str) -> float:
    """The growth of the highest memory use of this process."""
    (contestant,) = (each for each in load(["large-values"]) if each.name == name)
    small = b"small" if kind == "bytes" else made(kind)[:100].copy()  # a first run loads modules
    with sqlite_place("normal") as place, place.open:
        contestant.workload("large_values")(small, place)()
    before = _bytes("VmRSS")
    value = made(kind)
    with sqlite_place("normal") as place, place.open:
        contestant.workload("large_values")(value, place)()
    return (_bytes("VmHWM") - before) / SIZE


def _bytes(name: str) -> int:
    """A number of this process. Not from getrusage, whose highest use includes that of the parent."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(f"{name}:"))


if __name__ == "__main__":
    print(json.dumps(_measure_memory(sys.argv[1], sys.argv[2])))
