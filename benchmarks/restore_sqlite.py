"""Going back in SQLite, by size: row deltas beside copies of the whole file.

One file in WAL mode, which an application writes through a connection of its own. Three states A, B and C, each
five rows away from the start, so ten from each other, and between two restores the application has changed a row
more. What is timed:

- restore: from one state to another, in the order A, C, B, A, …; the rows are compared with what they were
- checkpoint: of a state that has not changed since the last one
- observe: after a change of five rows, all of which are part of the answer
- write: what the journal's triggers cost the application, for a row that is changed

The others restore by copying the file (everybody has to disconnect) or by the backup API.
"""

from __future__ import annotations

import shutil
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks import report
from benchmarks.contestants import CLEW, Contestant
from benchmarks.rows import Bar, Outcome, Result, Row, Settings

SIZES = (1, 10, 40)  # megabytes
QUICK_SIZES = (1, 40)
ROW_BYTES = 220  # of a row and its part of the index
RESTORE_BAR, CHECKPOINT_BAR = Bar(limit=0.6), Bar(limit=0.1)
REPEATS = 50  # restores in a sample: one alone is too short to be read off the clock
_NUMBERS = count(1)  # no name is given twice
COPY, BACKUP, SCAN, BARE = "file copy", "backup API", "reading all", "no triggers"


def restore_sqlite(contestants: tuple[Contestant, ...], settings: Settings) -> Iterator[Result]:
    """All rows; the contestants of other workloads do not know how to restore."""
    for size in QUICK_SIZES if settings.quick else SIZES:
        with tempfile.TemporaryDirectory(prefix="clew-bench-") as folder:
            yield from _rows(Path(folder) / "app.db", size, settings.rounds)


def _row(what: str, size: int, bar: Bar | None = None) -> Row:
    title = f"SQLite, {size} MB: {what}"
    return Row(f"sqlite-{what.split()[0]}-{size}", f"sqlite {what}", title, "ms", bar, size)


def _rows(path: Path, size: int, rounds: int) -> Iterator[Result]:
    from clew.explore.systems import SQLiteSystem

    rows = _fill(path, size)
    with closing(_connected(path)) as application:
        bare = _writes(application.execute, rows, rounds)
        with SQLiteSystem(path) as system:
            shared = _Bench(system, application.execute, rows, rounds)
            journaled = _writes(application.execute, rows, rounds)
    copies, backups = _copies(path, rounds), _backups(path, rounds)
    yield Result(
        _row("restore of ten rows, any order", size, RESTORE_BAR),
        (
            Outcome(CLEW, "measured", shared.restore),
            Outcome(COPY, "measured", copies),
            Outcome(BACKUP, "measured", backups),
        ),
    )
    yield Result(
        _row("checkpoint, nothing changed", size, CHECKPOINT_BAR),
        (
            Outcome(CLEW, "measured", shared.checkpoint),
            Outcome(COPY, "measured", copies),
            Outcome(BACKUP, "measured", backups),
        ),
    )
    yield Result(
        _row("observe, five rows changed", size),
        (
            Outcome(CLEW, "measured", shared.observe, f"the first look, at all rows: {shared.first:,.0f} ms"),
            Outcome(SCAN, "measured", _scans(path, rounds)),
        ),
    )
    yield Result(
        _row("write of a row by the application", size),
        (Outcome(CLEW, "measured", journaled), Outcome(BARE, "measured", bare)),
    )


def _connected(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = OFF")  # what is measured is not the disk
    return connection


def _fill(path: Path, size: int) -> int:
    """Five tables with an index each, of that many megabytes together; how many rows a table has."""
    rows = size * 1_000_000 // ROW_BYTES // 5
    with closing(_connected(path)) as connection:
        connection.execute("BEGIN")
        for table in range(5):
            connection.execute(
                f"CREATE TABLE t{table}(id INTEGER PRIMARY KEY, name TEXT, amount REAL, note TEXT)"
            )
            connection.execute(f"CREATE UNIQUE INDEX i{table} ON t{table}(name)")
            values = ((n, f"name of {n}", n * 1.25, "x" * 150) for n in range(rows))
            connection.executemany(f"INSERT INTO t{table} VALUES (?, ?, ?, ?)", values)
        connection.execute("COMMIT")
    return rows


class _Bench:
    """A system with three states, and an application that goes on writing."""

    def __init__(self, system: Any, execute: Callable[..., Any], rows: int, rounds: int) -> None:
        self._system, self._execute, self._rows = system, execute, rows
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
        """A row of every table, changed or new. In one transaction, as a request would."""
        number = next(_NUMBERS)
        self._execute("BEGIN")
        for table in range(5):
            if (number + table) % 2:
                changed = f"UPDATE t{table} SET amount = amount + 1, name = ? WHERE id = ?"
                self._execute(changed, (f"changed {number}", number * 7919 % self._rows))
            else:
                self._execute(f"INSERT INTO t{table}(name) VALUES (?)", (f"new {number}",))
        self._execute("COMMIT")

    def _restored(self, number: int) -> float:
        token, digest = (self._states[0], self._states[2], self._states[1])[number % 3]
        self._execute("UPDATE t0 SET amount = 0 WHERE id = 3")
        seconds = _timed(lambda: self._system.rollback(token))
        if self._system.observe().digest != digest:
            raise RuntimeError("other rows than at the checkpoint")
        return seconds

    def _observed(self, number: int) -> float:
        self._change()
        return _timed(self._system.observe)


def _timed(work: Callable[[], Any]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _samples(once: Callable[[int], float], rounds: int) -> tuple[float, ...]:
    """The median of some runs, once for each round, in milliseconds; what was needed to get going is left out."""
    for number in range(REPEATS):
        once(number)
    return tuple(statistics.median(once(n) for n in range(REPEATS)) * 1e3 for _ in range(max(1, rounds)))


def _writes(execute: Callable[..., Any], rows: int, rounds: int) -> tuple[float, ...]:
    def once(number: int) -> float:
        key = number * 7919 % rows
        return _timed(lambda: execute("UPDATE t1 SET amount = amount + 1 WHERE id = ?", (key,)))

    return _samples(once, rounds)


def _copies(path: Path, rounds: int) -> tuple[float, ...]:
    kept = path.with_suffix(".kept")
    shutil.copy2(path, kept)
    return tuple(_timed(lambda: shutil.copy2(kept, path)) * 1e3 for _ in range(rounds))


def _backups(path: Path, rounds: int) -> tuple[float, ...]:
    def once() -> None:
        with closing(sqlite3.connect(path.with_suffix(".kept"))) as kept, closing(_connected(path)) as live:
            kept.backup(live)

    return tuple(_timed(once) * 1e3 for _ in range(rounds))


def _scans(path: Path, rounds: int) -> tuple[float, ...]:
    """What looking costs without a journal: all rows of all tables."""

    def once() -> None:
        with closing(sqlite3.connect(path)) as connection:
            for table in range(5):
                hash(tuple(connection.execute(f"SELECT * FROM t{table} ORDER BY id")))

    return tuple(_timed(once) * 1e3 for _ in range(rounds))


def main(arguments: Sequence[str]) -> int:
    results = []
    for result in restore_sqlite((), Settings(rounds=5, quick="--quick" in arguments)):
        results.append(result)
        print(f"{report.text(result)}\n", flush=True)
    return int(any(outcome.status == "failed" for result in results for outcome in result.outcomes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
