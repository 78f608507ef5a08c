"""Going back in PostgreSQL, by size: row deltas beside copies of the whole database.

Five tables with keys, foreign keys and an index each. Three states A, B and C, each ten rows (two in every table)
away from the start, and between two restores the application has changed a row more. What is timed:

- restore: from one state to another, in the order A, C, B, A, …; the rows are compared with what they were
- checkpoint: of a state that has not changed since the last one
- observe: after a change of ten rows, all of which are part of the answer

The others restore by copying a template database (everybody has to disconnect) or from a dump with pg_restore. They
are given one round at the large sizes, because they take seconds.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks import report
from benchmarks.contestants import CLEW, Contestant
from benchmarks.places import postgres_place
from benchmarks.rows import Bar, Outcome, Result, Row, Settings

TABLES = 5
SIZES = (1_000, 10_000, 100_000)
QUICK_SIZES = (1_000, 10_000)
RESTORE_BAR, CHECKPOINT_BAR = Bar(limit=5.0), Bar(limit=0.5)
REPEATS = 20  # restores in a sample: one alone is too short to be read off the clock
TEMPLATE, DUMP, SCAN = "template", "pg_restore", "reading all"

_TABLE = """
CREATE TABLE t{n} (id serial PRIMARY KEY, parent int, name text NOT NULL, amount numeric(12, 2),
                   at timestamptz DEFAULT now());
INSERT INTO t{n} (parent, name, amount) SELECT i, 'name of ' || i, i * 1.25 FROM generate_series(1, {rows}) i;
CREATE INDEX ON t{n} (name);
"""


def restore_postgres(contestants: tuple[Contestant, ...], settings: Settings) -> Iterator[Result]:
    """All rows; the contestants of other workloads do not know how to restore."""
    for size in QUICK_SIZES if settings.quick else SIZES:
        try:
            with postgres_place() as place:
                yield from _rows(place.dsn, size, settings.rounds)
        except Exception as error:  # no server here: a finding for this row, and the others go on
            yield Result(_row("restore", size, RESTORE_BAR), (Outcome(CLEW, "failed", note=str(error)),))


def _row(what: str, size: int, bar: Bar | None = None) -> Row:
    title = f"PostgreSQL, {TABLES} × {size:,} rows: {what}"
    return Row(f"postgres-{what.split()[0]}-{size}", f"postgres {what}", title, "ms", bar, size)


def _rows(admin_dsn: str, size: int, rounds: int) -> Iterator[Result]:
    from clew.explore.systems import PostgresSystem

    dsn = _database(admin_dsn, size)
    with PostgresSystem(dsn) as system:
        bench = _Bench(system, dsn)
        ours = {
            "restore": bench.restores(rounds),
            "checkpoint": bench.checkpoints(rounds),
            "observe": bench.observations(rounds),
        }
        bench.close()
    few = rounds if size <= 10_000 else 1
    copies, scans = _template_copies(admin_dsn, few), _scans(dsn, rounds)
    dumped, restored = _dumps(admin_dsn, few)
    yield Result(
        _row("restore of ten rows, any order", size, RESTORE_BAR),
        (Outcome(CLEW, "measured", ours["restore"]), Outcome(TEMPLATE, "measured", copies), restored),
    )
    yield Result(
        _row("checkpoint, nothing changed", size, CHECKPOINT_BAR),
        (Outcome(CLEW, "measured", ours["checkpoint"]), Outcome(TEMPLATE, "measured", copies), dumped),
    )
    yield Result(
        _row("observe, ten rows changed", size),
        (
            Outcome(CLEW, "measured", ours["observe"], f"the first look, at all rows: {bench.first:,.0f} ms"),
            Outcome(SCAN, "measured", scans),
        ),
    )


def _database(admin_dsn: str, size: int) -> str:
    import psycopg

    with psycopg.connect(admin_dsn, autocommit=True) as admin:
        admin.execute("CREATE DATABASE explored")
    dsn = admin_dsn.replace("dbname=postgres", "dbname=explored")
    with psycopg.connect(dsn, autocommit=True) as connection:
        for number in range(TABLES):
            connection.execute(_TABLE.format(n=number, rows=size).encode())
            if number:
                link = f"ALTER TABLE t{number} ADD FOREIGN KEY (parent) REFERENCES t{number - 1}"
                connection.execute(link.encode())
        connection.execute("VACUUM ANALYZE")
    return dsn


class _Bench:
    """A system with three states, and an application that goes on writing."""

    def __init__(self, system: Any, dsn: str) -> None:
        import psycopg

        self._system, self._numbers = system, count(1)
        system.checkpoint("start")
        started = time.perf_counter()
        system.observe()
        self.first = (time.perf_counter() - started) * 1e3
        self._application = psycopg.connect(dsn, autocommit=True)
        start = system.checkpoint("start")
        self._states = []
        for _ in range(3):
            system.rollback(start)
            self._change()
            self._states.append((system.checkpoint("state"), system.observe().digest))

    def close(self) -> None:
        self._application.close()

    def _change(self) -> None:
        """Two rows of every table: one changed, one new."""
        number = next(self._numbers)
        for table in range(TABLES):
            changed = f"UPDATE t{table} SET amount = amount + 1, name = 'changed {number}' WHERE id = %s"
            self._application.execute(changed.encode(), [number * 7 % 1000 + 1])
            new = f"INSERT INTO t{table} (parent, name) VALUES (1, %s)"
            self._application.execute(new.encode(), [f"new {number}"])

    def restores(self, rounds: int) -> tuple[float, ...]:
        a, b, c = self._states
        order = [a, c, b]

        def once(number: int) -> float:
            token, digest = order[number % 3]
            self._application.execute("UPDATE t0 SET amount = 0 WHERE id = 3")
            seconds = _timed(lambda: self._system.rollback(token))
            if self._system.observe().digest != digest:
                raise RuntimeError("other rows than at the checkpoint")
            return seconds

        return _samples(once, rounds)

    def checkpoints(self, rounds: int) -> tuple[float, ...]:
        return _samples(lambda _: _timed(lambda: self._system.checkpoint("same")), rounds)

    def observations(self, rounds: int) -> tuple[float, ...]:
        def once(_: int) -> float:
            self._change()
            return _timed(self._system.observe)

        return _samples(once, rounds)


def _timed(work: Callable[[], Any]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _samples(once: Callable[[int], float], rounds: int) -> tuple[float, ...]:
    """The median of some runs, once for each round, in milliseconds; what was needed to get going is left out."""
    for number in range(REPEATS):
        once(number)
    return tuple(
        statistics.median(once(number) for number in range(REPEATS)) * 1e3 for _ in range(max(1, rounds))
    )


def _template_copies(admin_dsn: str, rounds: int) -> tuple[float, ...]:
    """Drop the database and copy it from a template again."""
    import psycopg

    with psycopg.connect(admin_dsn, autocommit=True) as admin:
        admin.execute("CREATE DATABASE kept TEMPLATE explored")

        def once() -> None:
            admin.execute("DROP DATABASE explored WITH (FORCE)")
            admin.execute("CREATE DATABASE explored TEMPLATE kept")

        return tuple(_timed(once) * 1e3 for _ in range(rounds))


def _scans(dsn: str, rounds: int) -> tuple[float, ...]:
    """What looking costs without a journal: all rows of all tables, digested by the server."""
    import psycopg

    with psycopg.connect(dsn, autocommit=True) as connection:

        def once() -> None:
            for table in range(TABLES):
                connection.execute(
                    f"SELECT md5(string_agg(t::text, ',' ORDER BY id)) FROM t{table} t".encode()
                )

        return tuple(_timed(once) * 1e3 for _ in range(rounds))


def _dumps(admin_dsn: str, rounds: int) -> tuple[Outcome, Outcome]:
    """pg_dump and pg_restore, where these programs are."""
    folder = _programs()
    if folder is None:
        missing = Outcome(DUMP, "missing", note="pg_dump is not here")
        return missing, missing
    parts = dict(part.split("=", 1) for part in admin_dsn.split())
    where = ["-h", parts["host"], "-U", parts["user"]]
    file = Path(parts["host"]) / "explored.dump"

    def run(program: str, *arguments: str) -> float:
        command = [str(folder / program), *where, *arguments]
        return _timed(lambda: subprocess.run(command, check=True, capture_output=True)) * 1e3

    try:
        dumps = [run("pg_dump", "-Fc", "-f", str(file), "explored") for _ in range(rounds)]
        restores = [
            run("pg_restore", "--clean", "--if-exists", "-d", "explored", str(file)) for _ in range(rounds)
        ]
    except (OSError, subprocess.CalledProcessError) as error:
        failed = Outcome(DUMP, "missing", note=str(error))
        return failed, failed
    return Outcome(DUMP, "measured", tuple(dumps), "(pg_dump)"), Outcome(DUMP, "measured", tuple(restores))


def _programs() -> Path | None:
    try:
        from tests.stores.servers import program_folders
    except ImportError:
        found = shutil.which("pg_restore")
        return Path(found).parent if found else None
    return next((folder for folder in program_folders() if (folder / "pg_restore").exists()), None)


def main(arguments: Sequence[str]) -> int:
    results = []
    for result in restore_postgres((), Settings(rounds=5, quick="--quick" in arguments)):
        results.append(result)
        print(f"{report.text(result)}\n", flush=True)
    print(_growth(results))
    return int(any(outcome.status == "failed" for result in results for outcome in result.outcomes))


def _growth(results: Sequence[Result]) -> str:
    lines = ["cost at the largest size, as a multiple of that at the smallest"]
    for family in dict.fromkeys(result.row.family for result in results):
        same = [result for result in results if result.row.family == family]
        for name in dict.fromkeys(outcome.contestant for result in same for outcome in result.outcomes):
            measured = [value for result in same if (value := result.median(name)) is not None]
            if len(measured) > 1:
                lines.append(f"  {family:<44}{name:<14}{report.ratio(measured[-1], measured[0]):>8}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
