"""100,000 runs that sleep in PostgreSQL, of which 1,000 are due within a minute: how late they continue.

The runs that become due were submitted, and fell asleep on the worker that continues them. The others are copies of a
run that fell asleep there too, and are due tomorrow. A run is late by the time between the end of its sleep and the
first line after it, on one clock. Memory is that of the worker after the runs that became due, as a share of what it
had before.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.contestants import CLEW, Contestant
from benchmarks.places import postgres_place
from benchmarks.rows import Bar, Outcome, Result, Row, Settings

LATE_BAR = Bar(limit=2_000)
MEMORY_BAR = Bar(limit=1.1)
SLOTS = 8
DAY = 86_400.0
PATIENCE = 300.0
PREPARATION = 0.06  # seconds that a run may take to fall asleep


@dataclass(frozen=True)
class Plan:
    """How many runs sleep, how many of them become due, and within how many seconds."""

    sleeping: int = 100_000
    due: int = 1_000
    within: float = 60.0


@dataclass(frozen=True)
class Found:
    """The seconds by which each run was late, and the bytes of the worker before and after they were due."""

    late: list[float]
    before: int
    after: int

    def percentile(self, share: float) -> float:
        return sorted(self.late)[min(len(self.late) - 1, int(share * len(self.late)))]


def sleeping(contestants: tuple[Contestant, ...], settings: Settings) -> Iterator[Result]:
    plan = Plan(10_000, 200, 12.0) if settings.quick else Plan()
    try:
        with postgres_place() as place:
            found = measured(place.dsn, plan)
        late = Outcome(CLEW, "measured", (1e3 * found.percentile(0.99),))
        memory = Outcome(CLEW, "measured", (found.after / found.before,))
    except Exception as error:  # no server here: a finding for this row
        late = memory = Outcome(CLEW, "missing", note=f"{type(error).__name__}: {error}")
    title = (
        f"{plan.sleeping:,} sleeping runs, {plan.due:,} due within {plan.within:g} s, one worker, PostgreSQL"
    )
    yield Result(Row("sleeping", "sleeping", f"{title}: lateness, 99th percentile", "ms", LATE_BAR), (late,))
    share = f"{title}: memory of the worker, share of that before"
    yield Result(Row("sleeping-memory", "sleeping memory", share, "×", MEMORY_BAR), (memory,))


def measured(dsn: str, plan: Plan) -> Found:
    """Let runs sleep in an empty database, and wake those that are due."""
    from clew import Engine, PostgresStore

    store = PostgresStore(dsn)
    worker = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.sleeping", dsn], cwd=Path(__file__).parent.parent
    )
    try:
        with Engine(_graph(), store=store) as engine:
            engine.submit({"until": time.time() + DAY}, run_id="template")
            _wait(store, "sleeping", 1)
            _copy(store, dsn, plan.sleeping - plan.due - 1)
            first = time.time() + 5.0 + PREPARATION * plan.due
            ids = [f"due {number}" for number in range(plan.due)]
            for number, run_id in enumerate(ids):
                engine.submit({"until": first + plan.within * number / plan.due}, run_id=run_id)
            _wait(store, "sleeping", plan.sleeping)
            if time.time() > first:
                raise TimeoutError("the machine is too slow: a run was due before all were asleep")
            before = _memory(worker.pid)
            _wait(store, "completed", plan.due)
            after = _memory(worker.pid)
            return Found([engine.state(run_id).get("late") for run_id in ids], before, after)
    finally:
        worker.kill()
        worker.wait()
        store.close()


def _graph() -> Any:
    from clew import Context, Graph, node

    @node(output="late")
    def sleep(until: float, ctx: Context) -> float:
        import time

        ctx.sleep(max(6.0, until - time.time()))  # the first one counts
        return time.time() - until

    return Graph([sleep], name="sleeping")


def _wait(store: Any, status: str, count: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while _count(store, status) < count:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{count} runs are not {status}")
        time.sleep(0.2)


def _count(store: Any, status: str) -> int:
    found = store._link.fetch("runs", "SELECT count(*) FROM @.runs WHERE status = %s", (status,))
    return int(found[0][0])


def _memory(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024


def _copy(store: Any, dsn: str, count: int) -> None:
    """Copy the sleeping run, in the format of the store: submitting that many would take an hour."""
    import psycopg
    from msgspec.structs import replace

    from clew.stores.postgres.entries import content, named
    from clew.stores.postgres.migrations import key_of
    from clew.stores.sql_rows import COLUMNS, ORIGIN, row_values

    row, entries, place = store.row("template"), store.entries("template"), store.entry("template")
    with psycopg.connect(dsn, autocommit=True) as db:
        cursor = db.cursor()
        cursor.execute("SELECT id, fence, census FROM clew.runs WHERE key = 'template'")
        number, fence, census = cursor.fetchone()
        ids = range(number + 1, number + 1 + count)
        rows = [replace(row, run_id=f"sleeping {n}") for n in ids]

        def copy(table: str, columns: str, values: Iterator[tuple[Any, ...]]) -> None:
            with cursor.copy(f"COPY clew.{table} ({columns}) FROM STDIN") as copying:
                for each in values:
                    copying.write_row(each)

        copied = zip(ids, rows, strict=True)
        copy(
            "runs",
            f"id, fence, key, census, {COLUMNS}",
            (
                (n, (n << 32) + (fence & 0xFFFFFFFF), key_of(each.run_id), census, *row_values(each)[0])
                for n, each in copied
            ),
        )
        copied = zip(ids, rows, strict=True)
        copy("origins", f"run, {ORIGIN}", ((n, *row_values(each)[1]) for n, each in copied))
        copied = zip(ids, rows, strict=True)
        copy(
            "log",
            "run, kind, key, path, n, body, digest, crc",
            ((n, *named(entry), *content(each.run_id, entry)) for n, each in copied for entry in entries),
        )
        copy("uses", "run, digest", ((n, row.description) for n in ids))
        copy(
            "queue",
            "run, queue, structure, priority, due, mark",
            ((n, place.queue, row.structure, place.priority, place.due, "") for n in ids),
        )
        cursor.execute(
            "SELECT setval(pg_get_serial_sequence('clew.runs', 'id'), (SELECT max(id) FROM clew.runs))"
        )
        cursor.execute("ANALYZE")
    assert store.row(rows[-1].run_id).status == "sleeping"
    assert len(store.entries(rows[-1].run_id)) == len(entries)


def _work(dsn: str) -> None:
    from clew import PostgresStore, Worker

    Worker(_graph(), store=PostgresStore(dsn), slots=SLOTS).run()


if __name__ == "__main__":
    _work(sys.argv[1])
