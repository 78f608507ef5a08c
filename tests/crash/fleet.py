"""Workers as real processes, and a graph whose effects can be counted.

A recorded call creates a file that is named by its idempotency key, and adds a line to a list. A call that was running
when its process was killed is made again with its key; nothing else is.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random

from clew import Context, Engine, Graph, SQLiteStore, Worker, node
from clew.stores import PostgresStore, Store

ROOT = Path(__file__).parents[2]
SLOTS = 4
LEASE = 2.0
POOLER = "pooler"
PATIENCE = 600.0  # crashes may follow each other; a worker that gives a commit up makes its call again


def _effect(key: str, n: int) -> int:
    folder = Path(os.environ["CLEW_EFFECTS"])
    with (folder / "calls").open("a") as calls:
        calls.write(f"{key}\n")
    time.sleep(0.02)  # so that many calls are running when something happens
    (folder / key).touch()
    return n + 1


@node(output="a")
def first(n: int, ctx: Context) -> int:
    return ctx.record("first", _effect, ctx.idempotency_key.replace("/", "|"), n)


@node(output="b")
def second(a: int, ctx: Context) -> int:
    return ctx.record("second", _effect, ctx.idempotency_key.replace("/", "|"), a)


@node(output="c")
def third(a: int, b: int) -> int:
    return a * b


graph = Graph([first, second, third], name="effects")


def main() -> None:
    """Be a worker, on the store and with the lease that are named on the command line."""
    store, lease = opened(sys.argv[1]), float(sys.argv[2])
    Worker(graph, store=store, slots=SLOTS, lease=lease, poll=0.2, tries=1_000).run()


def opened(target: str) -> Store:
    """Open a store by the name of a file, or by ``dsn|schema`` or ``dsn|schema|pooler``.

    A suspended worker may hold the lock of a file, and another one after it.
    """
    dsn, *rest = target.split("|")
    if not rest:
        return SQLiteStore(target, timeout=120.0)
    return PostgresStore(dsn, schema=rest[0], pooler=POOLER in rest, patience=PATIENCE)


class Fleet:
    """Workers as processes. Their clocks may be wrong by some seconds, each by its own."""

    def __init__(
        self,
        target: str,
        folder: Path,
        count: int,
        rng: Random,
        *,
        lease: float = LEASE,
        offsets: Sequence[float] = (0.0,),
        module: str = "fleet",
    ) -> None:
        self._target, self._rng, self._lease, self._offsets = target, rng, lease, offsets
        self._module = module  # whose `main` is a worker
        paths = [str(ROOT / "src"), str(ROOT)]
        self._environment = {**os.environ, "CLEW_EFFECTS": str(folder), "PYTHONPATH": os.pathsep.join(paths)}
        self._suspended: list[tuple[float, subprocess.Popen[bytes]]] = []
        self.disturbed = 0
        self.workers = [self._started(place) for place in range(count)]

    def _started(self, place: int) -> subprocess.Popen[bytes]:
        offset = self._offsets[place % len(self._offsets)]
        clock = f"import time; real = time.time; time.time = lambda: real() + {offset!r}\n" if offset else ""
        code = f"{clock}from tests.crash.{self._module} import main; main()"
        command = [sys.executable, "-c", code, self._target, str(self._lease)]
        return subprocess.Popen(command, env=self._environment)

    def disturb(self) -> None:
        """Kill a worker and start another one, or suspend it until its lease is over."""
        place = self._rng.randrange(len(self.workers))
        worker = self.workers[place]
        self.disturbed += 1
        if self._rng.random() < 0.7:
            worker.kill()
            worker.wait()
        else:
            worker.send_signal(signal.SIGSTOP)
            self._suspended.append((time.monotonic() + 1.5 * self._lease, worker))
        self.workers[place] = self._started(place)

    def wake(self, *, everyone: bool = False) -> None:
        """Let suspended workers go on whose lease is over."""
        now = time.monotonic()
        for until, worker in [*self._suspended]:
            if everyone or until <= now:
                worker.send_signal(signal.SIGCONT)
                self._suspended.remove((until, worker))
                self.workers.append(worker)

    def close(self) -> None:
        self.wake(everyone=True)
        for worker in self.workers:
            worker.kill()
            worker.wait()


def finished(engine: Engine) -> bool:
    """Return whether all runs have ended."""
    return not any(engine.runs(status=status, limit=1) for status in ("queued", "running", "sleeping"))


def declared_dead(engine: Engine) -> int:
    """Return how many owners were declared dead: those that were disturbed, and on a busy machine perhaps more."""
    return sum(not each.is_alive for each in engine.store.workers())


def check(engine: Engine, runs: int, effects: Path, rng: Random, *, repeated: int) -> None:
    """Check that every run has completed as with one worker, and that at most some calls were made again."""
    results = [engine.result(f"run {n}") for n in range(runs)]
    assert Counter(result.status for result in results) == {"completed": runs}
    assert [result["c"] for result in results] == [(n + 1) * (n + 2) for n in range(runs)]
    calls = Counter((effects / "calls").read_text().splitlines())
    assert len(calls) == 2 * runs == len(list(effects.iterdir())) - 1
    assert sum(calls.values()) - len(calls) <= repeated
    with Engine(graph) as alone:
        for n in rng.sample(range(runs), 20):
            expected = alone.run({"n": n}, run_id=f"run {n}")
            assert [each.digest for each in engine.history(f"run {n}")] == [
                each.digest for each in alone.history(expected.run_id)
            ]
