"""Runs of three steps that are submitted to a queue in PostgreSQL, and executed by worker processes.

Every sample has a new server and new worker processes of one contestant, so that nobody polls beside another. The
workers first execute some runs that do not count. Then runs are submitted, one after the other, until all have
completed, three times. The shortest time counts, because a disk that others use has slow moments. The contestants take
turns, and those of one round are compared with each other (`share`): the load of the machine changes in the course of
minutes. `processor` is the processor time of all processes, which depends least on what else the machine does. `slots`
shows whether runs that wait, here 20 ms in each step, are executed at the same time: how long they take with eight
slots, as a share of the time with one.

The contestants' parts are here and not in their modules, because a worker process must not import all of them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.contestants import CLEW, FLOOR, Contestant
from benchmarks.functions import SYNC, chain_functions
from benchmarks.places import Place, postgres_place
from benchmarks.rows import Bar, Outcome, Result, Row, Settings

RUNS, QUICK_RUNS = 400, 200
BURSTS = 3
WARM_UP = 40
WORKERS = (1, 2, 4)
SLOTS = 8
WAIT = 0.02  # seconds that a step waits in the row `slots`
WAITING_RUNS = 40
SLOTS_BAR = Bar(limit=1 / 6)
SHARE_BAR = Bar(limit=1 / 2)  # of the time of DBOS
PATIENCE = 300.0

ROOT = Path(__file__).parent.parent
DONE = {
    CLEW: "SELECT count(*) FROM clew.runs WHERE status = 'completed'",
    "DBOS": "SELECT count(*) FROM dbos.workflow_status WHERE status = 'SUCCESS'",
    FLOOR: "SELECT count(*) FROM floor_runs WHERE done",
}

_WAITING = SYNC.replace("return", "import time; time.sleep(SECONDS); return")

Submit = Callable[[int], None]


def queue(contestants: tuple[Contestant, ...], settings: Settings) -> Iterator[Result]:
    entered = [each for each in contestants if each.name in DONE]
    for workers in WORKERS:
        samples: dict[str, list[float]] = {each.name: [] for each in entered}
        processor: dict[str, list[float]] = {each.name: [] for each in entered}
        failed: dict[str, str] = {}
        for number in range(settings.rounds):
            first = number % len(entered)
            for each in entered[first:] + entered[:first]:
                if each.module is None or each.name in failed:
                    continue
                try:
                    runs = QUICK_RUNS if settings.quick else RUNS
                    seconds, used = _sample(each.name, workers, SLOTS, 0.0, runs)
                    samples[each.name].append(1e3 * seconds / runs)
                    processor[each.name].append(1e3 * used / runs)
                except Exception as error:  # as in measure: what breaks is reported, and the others go on
                    failed[each.name] = f"{type(error).__name__}: {error}"
        outcomes = tuple(_outcome(each, samples[each.name], failed) for each in entered)
        title = (
            f"queued run of three steps, PostgreSQL, {workers} worker process{'es' * (workers > 1)}, per run"
        )
        yield Result(Row(f"queue-{workers}", "queue", title, "ms", size=workers), outcomes)
        title = "the same, processor time of submitter, workers and server"
        outcomes = tuple(_outcome(each, processor[each.name], failed) for each in entered)
        yield Result(
            Row(f"queue-{workers}-processor", "queue processor", title, "ms", size=workers), outcomes
        )
        if not failed and samples.get("DBOS") and samples.get(CLEW):
            shares = tuple(mine / theirs for mine, theirs in zip(samples[CLEW], samples["DBOS"]))
            row = Row(
                f"queue-{workers}-share", "queue share", "the same, share of the time of DBOS", "×", SHARE_BAR
            )
            yield Result(row, (Outcome(CLEW, "measured", shares),))
    yield _slots(entered, settings)


def _slots(entered: list[Contestant], settings: Settings) -> Result:
    title = (
        f"runs that wait 3 × {WAIT * 1e3:g} ms, {SLOTS} slots of one worker, share of the time with one slot"
    )
    row = Row("queue-slots", "queue slots", title, "×", SLOTS_BAR)
    shares = [
        _sample(CLEW, 1, SLOTS, WAIT, WAITING_RUNS)[0] / _sample(CLEW, 1, 1, WAIT, WAITING_RUNS)[0]
        for _ in range(settings.rounds)
    ]
    return Result(row, (Outcome(CLEW, "measured", tuple(shares)),))


def _outcome(each: Contestant, samples: list[float], failed: dict[str, str]) -> Outcome:
    if each.module is None:
        return Outcome(each.name, "missing", note=each.problem)
    if each.name in failed:
        return Outcome(each.name, "failed", note=failed[each.name])
    return Outcome(each.name, "measured", tuple(samples))


def _sample(name: str, workers: int, slots: int, wait: float, runs: int) -> tuple[float, float]:
    """Return the seconds from the first submission until all runs have completed, the shortest of some times, and the
    mean processor time."""
    import psycopg

    with (
        postgres_place() as place,
        psycopg.connect(place.dsn, autocommit=True) as db,
        _SUBMITTERS[name](place, slots, wait) as submit,
        _processes(name, place, workers, slots, wait) as started,
    ):

        def finish(count: int) -> None:
            until = time.monotonic() + PATIENCE
            while db.execute(DONE[name]).fetchone() != (count,):
                if time.monotonic() > until:
                    raise TimeoutError(f"{count} runs have not completed")
                time.sleep(0.01)

        done = min(WARM_UP, runs)
        submit(done)
        finish(done)
        times: list[float] = []
        before = _processor_times(place, started)
        for _ in range(BURSTS):
            began = time.perf_counter()
            submit(runs)
            done += runs
            finish(done)
            times.append(time.perf_counter() - began)
        used = sum(used - before.get(pid, 0.0) for pid, used in _processor_times(place, started).items())
        return min(times), used / BURSTS


def _processor_times(place: Place, started: list[int]) -> dict[int, float]:
    """Return the processor time of this process, the workers and the server, in seconds; nothing without /proc."""
    found: dict[int, float] = {}
    server = int((place.folder / "data" / "postmaster.pid").read_text().split()[0])
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        pid, parent = int(stat.parent.name), int(fields[1])
        if server in (pid, parent) or pid in (os.getpid(), *started):
            found[pid] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return found


@contextmanager
def _processes(name: str, place: Place, workers: int, slots: int, wait: float) -> Iterator[list[int]]:
    command = [sys.executable, "-m", "benchmarks.queued_runs", name, place.dsn, str(slots), str(wait)]
    started = [
        subprocess.Popen([*command, str(number)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
        for number in range(workers)
    ]
    try:
        for process in started:
            assert process.stdout is not None
            if process.stdout.readline() != "ready\n":
                raise RuntimeError(f"a worker of {name} did not start")
        yield [process.pid for process in started]
    finally:
        for process in started:
            process.kill()
            process.communicate()


# -- Clew --------------------------------------------------------------------------------------------------


def _clew_graph(wait: float) -> Any:
    from clew import Graph

    return Graph(chain_functions(3, _WAITING.replace("SECONDS", str(wait)) if wait else SYNC), name="queue")


@contextmanager
def _clew_submitter(place: Place, slots: int, wait: float) -> Iterator[Submit]:
    from clew import Engine, PostgresStore

    with Engine(_clew_graph(wait), store=PostgresStore(place.dsn)) as engine:

        def submit(count: int) -> None:
            for _ in range(count):
                engine.submit({"x0": 0})

        yield submit


def _clew_worker(dsn: str, slots: int, wait: float, number: int) -> None:
    from clew import PostgresStore, Worker

    worker = Worker(_clew_graph(wait), store=PostgresStore(dsn, pool_size=slots + 1), slots=slots)
    print("ready", flush=True)
    worker.run()


# -- DBOS --------------------------------------------------------------------------------------------------


def _dbos_url(dsn: str) -> str:
    host = dict(part.split("=") for part in dsn.split())["host"]
    return f"postgresql+psycopg://postgres@/postgres?host={host}"


def _dbos_launched(dsn: str, wait: float, number: int) -> Any:
    from dbos import DBOS

    config = {"name": "bench", "run_admin_server": False, "log_level": "CRITICAL"}
    DBOS(config={**config, "system_database_url": _dbos_url(dsn), "executor_id": f"worker{number}"})

    @DBOS.step(name="add")
    def add(value: int) -> int:
        if wait:
            time.sleep(wait)
        return value + 1

    @DBOS.workflow(name="three")
    def three() -> int:
        value = 0
        for _ in range(3):
            value = add(value)
        return value

    DBOS.launch()
    DBOS.register_queue(
        "bench", polling_interval_sec=0.1
    )  # of the forms that we tried, the best with two workers
    return DBOS


@contextmanager
def _dbos_submitter(place: Place, slots: int, wait: float) -> Iterator[Submit]:
    from dbos import DBOSClient

    _dbos_launched(place.dsn, wait, 99).destroy()  # creates the tables
    client = DBOSClient(system_database_url=_dbos_url(place.dsn))
    try:

        def submit(count: int) -> None:
            for _ in range(count):
                client.enqueue({"queue_name": "bench", "workflow_name": "three"})

        yield submit
    finally:
        client.destroy()


def _dbos_worker(dsn: str, slots: int, wait: float, number: int) -> None:
    _dbos_launched(dsn, wait, number)
    print("ready", flush=True)
    time.sleep(PATIENCE * 10)


# -- the floor: a table of jobs ----------------------------------------------------------------------------

_TABLES = """
    CREATE TABLE floor_runs (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, taken boolean DEFAULT false, done boolean DEFAULT false);
    CREATE INDEX floor_ready ON floor_runs (id) WHERE NOT taken;
    CREATE TABLE floor_steps (run bigint, n int, body text NOT NULL, PRIMARY KEY (run, n));
"""
_CLAIM = """
    UPDATE floor_runs SET taken = true WHERE id = (
        SELECT id FROM floor_runs WHERE NOT taken ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED
    ) RETURNING id
"""


@contextmanager
def _floor_submitter(place: Place, slots: int, wait: float) -> Iterator[Submit]:
    import psycopg

    with psycopg.connect(place.dsn, autocommit=True) as db:
        db.execute(_TABLES)

        def submit(count: int) -> None:
            for _ in range(count):
                db.execute("INSERT INTO floor_runs DEFAULT VALUES")

        yield submit


def _floor_worker(dsn: str, slots: int, wait: float, number: int) -> None:
    """One connection: threads of Python gain nothing where nothing waits but the server."""
    import psycopg

    with psycopg.connect(dsn, autocommit=True, prepare_threshold=0) as db:
        print("ready", flush=True)
        while True:
            found = db.execute(_CLAIM).fetchone()
            if found is None:
                time.sleep(0.01)
                continue
            for n in range(3):
                db.execute("INSERT INTO floor_steps VALUES (%s, %s, %s)", (found[0], n, '{"x": 1}'))
            db.execute("UPDATE floor_runs SET done = true WHERE id = %s", found)


_SUBMITTERS: dict[str, Any] = {CLEW: _clew_submitter, "DBOS": _dbos_submitter, FLOOR: _floor_submitter}
_WORKERS: dict[str, Any] = {CLEW: _clew_worker, "DBOS": _dbos_worker, FLOOR: _floor_worker}

if __name__ == "__main__":
    _WORKERS[sys.argv[1]](sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5]))
