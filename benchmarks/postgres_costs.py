"""What a queued run costs the PostgreSQL server: `python -m benchmarks.postgres_costs`.

Runs of 3 and of 30 steps with small values are submitted and executed by a worker in this process. The server counts
transactions, bytes of its log (WAL), and bytes of the tables with their indexes; the difference between the two lengths
is what a step costs, the rest what a run costs. Then processes commit steps as fast as they can, on a connection each:
what the server sustains here, with fsync.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.functions import chain_functions
from benchmarks.places import postgres_place
from clew import Engine, Graph, PostgresStore, Worker
from clew.stores import LogEntry, RunRow

RUNS = 300
LENGTHS = (3, 30)
CLIENTS = (1, 2, 4, 8, 16)
SECONDS = 5.0

_COUNTS = """
    SELECT (SELECT sum(xact_commit + xact_rollback) FROM pg_stat_database),
        pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0'),
        (SELECT sum(pg_total_relation_size(oid)) FROM pg_class
         WHERE relkind = 'r' AND relnamespace = 'clew'::regnamespace)
"""


def counts(dsn: str) -> list[float]:
    """Return transactions, bytes of WAL and bytes of tables; from a new session, which sees all statistics."""
    time.sleep(1.5)  # sessions report their statistics once a second
    with psycopg.connect(dsn, autocommit=True) as db:
        db.execute("CHECKPOINT")
        found = db.execute(_COUNTS).fetchone()
    assert found is not None
    return [float(each) for each in found]


def cost(dsn: str, steps: int) -> list[float]:
    """Return what a queued run of some steps costs."""
    graph, store = Graph(chain_functions(steps)), PostgresStore(dsn)
    with Engine(graph, store=store) as engine:
        before = counts(dsn)
        for _ in range(RUNS):
            engine.submit({"x0": 0})
        Worker(graph, store=store, slots=4).run(until_idle=True)
        store.close()  # its sessions report what they have counted
    return [(after - early) / RUNS for after, early in zip(counts(dsn), before)]


def sustained(dsn: str, clients: int) -> float:
    """Return the steps that clients commit in a second."""
    command = [sys.executable, "-m", "benchmarks.postgres_costs", dsn]
    processes = [
        subprocess.Popen([*command, str(number)], cwd=Path(__file__).parent.parent, stdout=subprocess.PIPE, text=True)
        for number in range(clients)
    ]  # fmt: skip
    return sum(float(process.communicate()[0]) for process in processes) / SECONDS


def commit_steps(dsn: str, number: int) -> None:
    """Commit steps of one run for some seconds, and print how many."""
    store = PostgresStore(dsn)
    run_id = f"client {number} {time.time()}"
    fence = store.create(RunRow(run_id, start=b""), owner=run_id, lease=600.0)
    body, count, until = b"x" * 100, 0, time.monotonic() + SECONDS
    while time.monotonic() < until:
        count += 1
        store.append(run_id, [LogEntry("step", "", count, body, b"d" * 32)], fence)
    store.close()
    print(count)


def main() -> None:
    with postgres_place() as place:
        dsn: Any = place.dsn
        cost(dsn, 3)  # everything is created and known
        short, long = (cost(dsn, steps) for steps in LENGTHS)
        step = [(much - little) / (LENGTHS[1] - LENGTHS[0]) for little, much in zip(short, long)]
        print("                 transactions  bytes of WAL  bytes of tables")
        for title, values in (
            (f"a run of {LENGTHS[0]}", short),
            (f"a run of {LENGTHS[1]}", long),
            ("a step", step),
        ):
            print(f"{title:<16}" + "".join(f"{value:>14,.1f}" for value in values))
        for clients in CLIENTS:
            print(f"{clients} clients: {sustained(dsn, clients):,.0f} steps a second", flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        commit_steps(sys.argv[1], int(sys.argv[2]))
    else:
        main()
