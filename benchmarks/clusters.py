"""Nodes on Dask and Ray, against the bare engine: the cost of a task, and the driver's memory for large inputs.

Each cluster has two workers on this machine. `fanout` runs tasks that do nothing, on the bare engine (the floor: its
own `map` or `remote`, and the results gathered) and as nodes of a Clew run, in turns on the same cluster. The bar is
twice the floor of the same run. `memory` is what the driver's own memory grows by at most while four nodes read 100 MB
each; shared memory of an object store does not count. It is measured in a new process, which holds the inputs before.
"""

from __future__ import annotations

import operator
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Annotated, Any, TypedDict

from benchmarks.contestants import CLEW, FLOOR, Contestant
from benchmarks.rows import Bar, Outcome, Result, Row, Settings
from clew import Engine, Graph, Send, node, route
from clew.runtime import executors

ROOT = Path(__file__).parent.parent
TASKS, QUICK_TASKS = 400, 200
WORKERS = 2
SHARE = 2.0  # times the bare engine
MEMORY_BAR = Bar(limit=150.0)
SIZE, INPUTS = 100_000_000, 4


class Fan(TypedDict, total=False):
    n: int
    doubled: Annotated[list[int], operator.add]
    total: int


@route(targets=["double"], on="driver")
def spread(n: int) -> list[Send]:
    return [Send("double", {"i": i}) for i in range(n)]


@node(output="doubled")
def double(i: int) -> list[int]:
    return [i * 2]


@node(output="total", after="double", on="driver")
def total(doubled: list[int]) -> int:
    return sum(doubled)


graph = Graph([spread, double, total], state=Fan, name="fan")


def bare(i: int) -> int:
    return i * 2


@node(output="size")
def size_of(data: bytes) -> int:
    return len(data)


def clusters(contestants: tuple[Contestant, ...], settings: Settings) -> Iterator[Result]:
    for name, start in STARTS.items():
        with ExitStack() as stack:
            try:
                floor, executor = stack.enter_context(start())
            except ImportError as error:
                row = Row(f"fanout-{name}", "cluster", f"task on {name}", "ms")
                yield Result(row, (Outcome(CLEW, "missing", note=str(error)),))
                continue
            yield _fanout(name, floor, executor, settings)
        yield _memory(name, settings)


def _fanout(name: str, floor: Callable[[int], int], executor: Any, settings: Settings) -> Result:
    tasks = QUICK_TASKS if settings.quick else TASKS
    engine = Engine(graph, executor=executor, max_concurrent_nodes=tasks, queue_depth=tasks)
    runs = {FLOOR: floor, CLEW: lambda n: int(engine.run({"n": n})["total"])}
    samples: dict[str, list[float]] = {each: [] for each in runs}
    for number in range(settings.rounds + 1):
        order = list(runs) if number % 2 else list(runs)[::-1]
        for each in order:
            began = time.perf_counter()
            assert runs[each](tasks) == tasks * (tasks - 1)
            if number:  # the first round starts processes
                samples[each].append(1e3 * (time.perf_counter() - began) / tasks)
    engine.close()
    title = f"fan-out to {tasks:,} nodes on {name}, {WORKERS} workers, per node"
    row = Row(f"fanout-{name}", "cluster", title, "ms", Bar(limit=SHARE * median(samples[FLOOR])), tasks)
    return Result(row, tuple(Outcome(each, "measured", tuple(samples[each])) for each in runs))


def _memory(name: str, settings: Settings) -> Result:
    title = f"driver's memory for {INPUTS} nodes on {name} that read {SIZE // 1_000_000} MB each"
    row = Row(f"memory-{name}", "cluster memory", title, "MB", MEMORY_BAR)
    command = [sys.executable, "-m", "benchmarks.clusters", name]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        return Result(row, (Outcome(CLEW, "failed", note=done.stderr[-500:]),))
    return Result(row, (Outcome(CLEW, "measured", (float(done.stdout.split()[-1]),)),))


@contextmanager
def _dask() -> Iterator[tuple[Callable[[int], int], Any]]:
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=WORKERS,
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            memory_limit="1GiB",
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
        executors.dask(client) as executor,
    ):
        yield lambda n: sum(client.gather(client.map(bare, range(n), pure=False))), executor


@contextmanager
def _ray() -> Iterator[tuple[Callable[[int], int], Any]]:
    import ray

    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        ray.init(
            address="local",
            num_cpus=WORKERS,
            include_dashboard=False,
            object_store_memory=700 << 20,
            _temp_dir=folder,
            log_to_driver=False,
        )
        try:
            task = ray.remote(bare)
            with executors.ray() as executor:
                yield lambda n: sum(ray.get([task.remote(i) for i in range(n)])), executor
        finally:
            ray.shutdown()


STARTS = {"dask": _dask, "ray": _ray}


def _own_memory() -> float:
    """Return the memory of this process that no other one shares, in MB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1000
    raise RuntimeError("the memory of a process can only be read on Linux")


def _grown(name: str) -> float:
    """Return by how much this process grows while nodes read large inputs."""
    with STARTS[name]() as (floor, executor):
        floor(4)
        Engine(graph, executor=executor).run({"n": 4})
        values = {f"data{i}": bytes([i]) * SIZE for i in range(INPUTS)}
        nodes = [
            size_of.rename(inputs={"data": f"data{i}"}, outputs={"size": f"size{i}"}, name=f"size{i}")
            for i in range(INPUTS)
        ]
        engine, peak, done = Engine(Graph(nodes), executor=executor), [0.0], threading.Event()
        before = _own_memory()

        def watch() -> None:
            while not done.wait(0.005):
                peak[0] = max(peak[0], _own_memory())

        thread = threading.Thread(target=watch)
        thread.start()
        result = engine.run(values)
        done.set()
        thread.join()
        assert [result[f"size{i}"] for i in range(INPUTS)] == [SIZE] * INPUTS
    return peak[0] - before


if __name__ == "__main__":
    print(_grown(sys.argv[1]))
