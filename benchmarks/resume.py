"""Resume a run whose process was killed, on PostgreSQL: how long it takes, and how many statements.

A process begins some runs and ends without a word while all of them are in their second step of three. Each sample
resumes one of them, to its end. The first one, which does not count, finds out that the process is dead.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks.contestants import CLEW, Contestant
from benchmarks.places import postgres_place
from benchmarks.rows import Bar, Outcome, Result, Row, Settings

BAR = Bar(limit=7)  # statements


def resume(contestants: tuple[Contestant, ...], settings: Settings) -> Iterator[Result]:
    try:
        seconds, statements = _measured(settings.rounds)
        timed = Outcome(CLEW, "measured", tuple(1e3 * each for each in seconds))
        counted = Outcome(CLEW, "measured", tuple(statements))
    except Exception as error:  # no server here: a finding for this row
        timed = counted = Outcome(CLEW, "missing", note=f"{type(error).__name__}: {error}")
    title = "resume a killed run of three steps to its end, PostgreSQL"
    yield Result(Row("resume", "resume", title, "ms"), (timed,))
    yield Result(Row("resume-statements", "resume", f"{title}: statements", "statements", BAR), (counted,))


def _measured(rounds: int) -> tuple[list[float], list[int]]:
    import psycopg

    from clew import Engine, PostgresStore

    executed: list[Any] = []
    execute = psycopg.Cursor.execute

    def counting(self: Any, query: Any, *given: Any, **options: Any) -> Any:
        executed.append(query)
        return execute(self, query, *given, **options)

    seconds, statements = list[float](), list[int]()
    with postgres_place() as place:
        command = [sys.executable, "-m", "benchmarks.resume", place.dsn, str(rounds + 1)]
        subprocess.run(command, cwd=Path(__file__).parent.parent, check=False)
        with (
            Engine(_graph(None), store=PostgresStore(place.dsn)) as engine,
            mock.patch.object(psycopg.Cursor, "execute", counting),
        ):
            for number in range(rounds + 1):
                executed.clear()
                began = time.perf_counter()
                assert engine.resume(f"run {number}")["d"] == 3
                seconds.append(time.perf_counter() - began)
                statements.append(len(executed))
    return seconds[1:], statements[1:]


def _graph(arrived: threading.Barrier | None) -> Any:
    from clew import Graph, node

    @node(output="b")
    def first(a: int) -> int:
        return a + 1

    @node(output="c")
    def second(b: int) -> int:
        if _process["arrived"] is not None:
            _process["arrived"].wait()
            os._exit(9)
        return b + 1

    @node(output="d")
    def third(c: int) -> int:
        return c + 1

    _process["arrived"] = arrived
    return Graph([first, second, third])


_process: dict[str, Any] = {
    "arrived": None
}  # not a variable of the node, which would be a part of its code hash


def _be_killed(dsn: str, count: int) -> None:
    from clew import Engine, PostgresStore

    engine = Engine(_graph(threading.Barrier(count)), store=PostgresStore(dsn))
    threads = [
        threading.Thread(target=engine.run, args=({"a": 0},), kwargs={"run_id": f"run {number}"})
        for number in range(count)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    _be_killed(sys.argv[1], int(sys.argv[2]))
