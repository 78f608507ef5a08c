"""Going back in Redis, by number of keys: the touched keys beside all of them.

One database, which an application writes through a client of its own. Three states A, B and C, each five keys away
from the start, so ten from each other, and between two restores the application has changed a key more. What is
timed:

- restore: from one state to another, in the order A, C, B, A, …; the keys are compared with what they were
- checkpoint: of a state that has not changed since the last one
- observe: after a change of five keys, all of which are part of the answer

The others flush the database and restore the dumps of all keys, and dump all keys, in pipelines.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any

from benchmarks import report
from benchmarks.contestants import CLEW, Contestant
from benchmarks.rows import Outcome, Result, Row, Settings

SIZES = (1_000, 10_000, 100_000)  # keys
QUICK_SIZES = (1_000, 10_000)
REPEATS = 30  # restores in a sample: one alone is too short to be read off the clock
ALL = "all keys"
_PIECE = 10_000  # commands in a pipeline


def restore_redis(contestants: tuple[Contestant, ...], settings: Settings) -> Iterator[Result]:
    """All rows; the contestants of other workloads do not know how to restore."""
    for size in QUICK_SIZES if settings.quick else SIZES:
        try:
            from tests.explore.systems.servers import RedisServer

            server = RedisServer("redis")  # whose wheel comes with the peers
            try:
                server.start()
                yield from _rows(server.url, size, settings.rounds)
            finally:
                server.remove()
        except Exception as error:  # no server here: a finding for this row, and the others go on
            yield Result(_row("restore", size), (Outcome(CLEW, "failed", note=str(error)),))


def _row(what: str, size: int) -> Row:
    title = f"Redis, {size:,} keys: {what}"
    return Row(f"redis-{what.split()[0]}-{size}", f"redis {what}", title, "ms", None, size)


def _rows(url: str, size: int, rounds: int) -> Iterator[Result]:
    import redis

    from clew.explore.systems import RedisSystem

    with redis.Redis.from_url(url) as client:
        _fill(client, size)
        with RedisSystem(url) as system:
            bench = _Bench(system, client, size, rounds)
        few = rounds if size <= 10_000 else 1
        dumped, restored = _everything(client, few)
    yield Result(
        _row("restore of ten keys, any order", size),
        (Outcome(CLEW, "measured", bench.restore), Outcome(ALL, "measured", restored)),
    )
    yield Result(
        _row("checkpoint, nothing changed", size),
        (Outcome(CLEW, "measured", bench.checkpoint), Outcome(ALL, "measured", dumped)),
    )
    yield Result(
        _row("observe, five keys changed", size),
        (
            Outcome(CLEW, "measured", bench.observe, f"the first look, at all keys: {bench.first:,.0f} ms"),
            Outcome(ALL, "measured", dumped),
        ),
    )


def _fill(client: Any, size: int) -> None:
    for start in range(0, size, _PIECE):
        pipeline = client.pipeline(transaction=False)
        for number in range(start, min(size, start + _PIECE)):
            if number % 2:
                pipeline.set(f"string:{number}", "x" * 100)
            else:
                pipeline.hset(f"hash:{number}", mapping={"name": f"name of {number}", "amount": number})
        pipeline.execute()


class _Bench:
    """A system with three states, and an application that goes on writing."""

    def __init__(self, system: Any, client: Any, size: int, rounds: int) -> None:
        self._system, self._client, self._size, self._numbers = system, client, size, count(1)
        started = time.perf_counter()
        system.observe()
        self.first = (time.perf_counter() - started) * 1e3
        start = system.checkpoint("start")
        self._states = []
        for _ in range(3):
            system.rollback(start)
            self._change()
            self._states.append((system.checkpoint("state"), system.observe().digest))
        self.restore = _samples(self._restored, rounds)
        self.checkpoint = _samples(lambda _: _timed(lambda: system.checkpoint("same")), rounds)
        self.observe = _samples(self._observed, rounds)

    def _change(self) -> None:
        number = next(self._numbers)
        for step in range(2):
            key = (number * 7919 + step) * 2 % self._size
            self._client.hset(f"hash:{key}", "amount", number)
            self._client.set(f"string:{key + 1}", f"changed {number}")
        self._client.rpush(f"new:{number}", number)

    def _restored(self, number: int) -> float:
        token, digest = (self._states[0], self._states[2], self._states[1])[number % 3]
        self._client.set("string:1", number)
        seconds = _timed(lambda: self._system.rollback(token))
        if self._system.observe().digest != digest:
            raise RuntimeError("other keys than at the checkpoint")
        return seconds

    def _observed(self, number: int) -> float:
        self._change()
        return _timed(self._system.observe)


def _everything(client: Any, rounds: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Dump all keys, and restore them all."""
    kept: list[tuple[bytes, int, bytes]] = []

    def dump() -> None:
        kept.clear()
        keys = list(client.scan_iter(count=1000))
        for start in range(0, len(keys), _PIECE):
            piece = keys[start : start + _PIECE]
            pipeline = client.pipeline(transaction=False)
            for key in piece:
                pipeline.dump(key).pttl(key)
            answers = pipeline.execute()
            kept.extend(
                (key, max(0, ttl), data) for key, data, ttl in zip(piece, answers[::2], answers[1::2])
            )

    def restore() -> None:
        client.flushdb()
        for start in range(0, len(kept), _PIECE):
            pipeline = client.pipeline(transaction=False)
            for key, ttl, data in kept[start : start + _PIECE]:
                pipeline.restore(key, ttl, data)
            pipeline.execute()

    dumps = tuple(_timed(dump) * 1e3 for _ in range(rounds))
    return dumps, tuple(_timed(restore) * 1e3 for _ in range(rounds))


def _timed(work: Callable[[], Any]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _samples(once: Callable[[int], float], rounds: int) -> tuple[float, ...]:
    """The median of some runs, once for each round, in milliseconds; what was needed to get going is left out."""
    for number in range(REPEATS):
        once(number)
    return tuple(statistics.median(once(n) for n in range(REPEATS)) * 1e3 for _ in range(max(1, rounds)))


def main(arguments: Sequence[str]) -> int:
    results = []
    for result in restore_redis((), Settings(rounds=5, quick="--quick" in arguments)):
        results.append(result)
        print(f"{report.text(result)}\n", flush=True)
    return int(any(outcome.status == "failed" for result in results for outcome in result.outcomes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
