"""The floor: the plainest Python that does the work, without any framework.

Functions called in a loop over a dict, `asyncio.gather` for what runs side by side, a pool for threads.
Nothing is checked, kept or planned, so nothing that offers more can be quicker; ratios are taken to it.
"""

from __future__ import annotations

import asyncio
import copy
import hashlib
import json
import os
import queue
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any

from benchmarks.functions import ASYNC, chain_functions
from benchmarks.places import Place, message

IMPORTS = "asyncio"


def chain(nodes: int) -> Callable[[], int]:
    plan = [(f"x{index + 1}", f"x{index}", function) for index, function in enumerate(chain_functions(nodes))]

    def run() -> int:
        values = {"x0": 0}
        for output, source, function in plan:
            values[output] = function(values[source])
        return values[f"x{nodes}"]

    return run


def async_chain(nodes: int) -> Callable[[], Awaitable[int]]:
    functions = chain_functions(nodes, ASYNC)
    plan = [(f"x{index + 1}", f"x{index}", function) for index, function in enumerate(functions)]

    async def run() -> int:
        values = {"x0": 0}
        for output, source, function in plan:
            values[output] = await function(values[source])
        return values[f"x{nodes}"]

    return run


def loop(rounds: int) -> Callable[[], int]:
    def step(count: int) -> int:
        return count + 1

    def again(count: int) -> bool:
        return count < rounds

    def run() -> int:
        values = {"count": 0}
        while again(values["count"]):
            values["count"] = step(values["count"])
        return values["count"]

    return run


def fanout(branches: int) -> Callable[[], Awaitable[int]]:
    async def work(item: int) -> int:
        return item * 2

    async def run() -> int:
        return sum(await asyncio.gather(*(work(item) for item in range(branches))))

    return run


def explore(values: int) -> Callable[[], int]:
    """Breadth first over a dict: deep copies for checkpoints, JSON and SHA-256 for identity."""

    def create(rows: dict[str, int], key: str) -> None:
        rows.setdefault(key, 0)

    def change(rows: dict[str, int], key: str) -> None:
        if key in rows:
            rows[key] = (rows[key] + 1) % values

    def delete(rows: dict[str, int], key: str) -> None:
        rows.pop(key, None)

    actions = [(function, key) for key in ("r0", "r1", "r2") for function in (create, change, delete)]

    def identity(rows: dict[str, int]) -> str:
        return hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()

    def run() -> int:
        start: dict[str, int] = {}
        seen, queue = {identity(start)}, deque([start])
        while queue:
            state = queue.popleft()
            for function, key in actions:
                rows = copy.deepcopy(state)
                function(rows, key)
                found = identity(rows)
                if found not in seen:
                    seen.add(found)
                    queue.append(rows)
        return len(seen)

    return run


def uneven(slow: float, quick: float) -> Callable[[], Awaitable[int]]:
    async def long() -> int:
        await asyncio.sleep(slow)
        return 1

    async def row() -> int:
        value = 0
        for _ in range(3):
            await asyncio.sleep(quick)
            value += 1
        return value

    async def run() -> int:
        return sum(await asyncio.gather(long(), row()))

    return run


def uneven_threads(slow: float, quick: float) -> Callable[[], int]:
    def long() -> int:
        time.sleep(slow)
        return 1

    def row() -> int:
        value = 0
        for _ in range(3):
            time.sleep(quick)
            value += 1
        return value

    def run() -> int:
        with ThreadPoolExecutor(2) as pool:
            parts = [pool.submit(long), pool.submit(row)]
            return sum(part.result() for part in parts)

    return run


_TABLE = "CREATE TABLE steps (id INTEGER PRIMARY KEY, body BLOB NOT NULL)"
_INSERT = "INSERT INTO steps (body) VALUES (?)"


def _file(place: Place) -> sqlite3.Connection:
    db = sqlite3.connect(place.file("floor"), isolation_level=None, check_same_thread=False)
    place.open.callback(db.close)
    place.set_up(db).execute(_TABLE)
    return db


def durable_chain(nodes: int, place: Place) -> Callable[[], int]:
    db = _file(place)
    plan = [(f"x{index + 1}", f"x{index}", function) for index, function in enumerate(chain_functions(nodes))]

    def run() -> int:
        values = {"x0": 0}
        for output, source, function in plan:
            values[output] = value = function(values[source])
            db.execute(_INSERT, (json.dumps({output: value}),))
        return values[f"x{nodes}"]

    return run


def durable_async_chain(nodes: int, place: Place) -> Callable[[], int]:
    """A thread commits whatever has come in the meantime, and the end of the run waits for it."""
    db = _file(place)
    plan = [(f"x{index + 1}", f"x{index}", function) for index, function in enumerate(chain_functions(nodes))]
    waiting: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    written = threading.Event()

    def write() -> None:
        done = False
        while not done:
            batch = [waiting.get()]
            while not waiting.empty():
                batch.append(waiting.get())
            done = batch[-1] is None
            db.execute("BEGIN")
            db.executemany(_INSERT, [(body,) for body in batch if body is not None])
            db.execute("COMMIT")
        written.set()

    def run() -> int:
        written.clear()
        threading.Thread(target=write).start()
        values = {"x0": 0}
        for output, source, function in plan:
            values[output] = value = function(values[source])
            waiting.put(json.dumps({output: value}))
        waiting.put(None)
        written.wait()
        return values[f"x{nodes}"]

    return run


def postgres_chain(nodes: int, place: Place) -> Callable[[], int]:
    import psycopg

    db = place.open.enter_context(psycopg.connect(place.dsn, autocommit=True, prepare_threshold=0))
    db.execute("CREATE TABLE floor (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body TEXT NOT NULL)")
    plan = [(f"x{index + 1}", f"x{index}", function) for index, function in enumerate(chain_functions(nodes))]

    def run() -> int:
        values = {"x0": 0}
        for output, source, function in plan:
            values[output] = value = function(values[source])
            db.execute("INSERT INTO floor (body) VALUES (%s)", (json.dumps({output: value}),))
        return values[f"x{nodes}"]

    return run


def stall(place: Place, shut: Callable[[], None], seconds: float) -> Callable[[], Awaitable[None]]:
    return lambda: asyncio.sleep(seconds)


def large_values(value: Any, place: Place) -> Callable[[], int]:
    def run() -> int:
        name = hashlib.sha256(value).hexdigest()
        with open(place.folder / name, "wb", buffering=0) as file:
            view = memoryview(value).cast("B")
            while view:
                view = view[file.write(view[: 1 << 20]) :]
            os.fsync(file.fileno())
        return len(value)

    return run


def large_pull(value: Any, place: Place) -> Callable[[], int]:
    if not place.dsn:
        return large_values(value, place)
    import psycopg

    db = place.open.enter_context(psycopg.connect(place.dsn, autocommit=True))
    db.execute("CREATE TABLE IF NOT EXISTS floor_values (body BYTEA NOT NULL)")

    def run() -> int:
        db.execute("INSERT INTO floor_values VALUES (%b)", (value,))
        return len(value)

    return run


def concurrent(runs: int, steps: int, place: Place, connections: int) -> Callable[[], Awaitable[int]]:
    """A row for each run, one for each of its steps, and an update at its end: each its own commit."""
    import psycopg

    def connect() -> psycopg.Connection[Any]:
        db: psycopg.Connection[Any] = psycopg.connect(place.dsn, autocommit=True, prepare_threshold=0)
        return place.open.enter_context(db)

    free = [connect() for _ in range(connections)]
    free[0].execute(
        "CREATE TABLE floor_runs (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, done BOOLEAN)"
    )
    free[0].execute("CREATE TABLE floor_steps (run BIGINT, n INT, body TEXT NOT NULL, PRIMARY KEY (run, n))")
    threads = place.open.enter_context(ThreadPoolExecutor(connections))
    functions = chain_functions(steps)

    def one() -> int:
        db, value = free.pop(), 0
        made = db.execute("INSERT INTO floor_runs (done) VALUES (false) RETURNING id").fetchone()
        assert made is not None
        for n, function in enumerate(functions):
            value = function(value)
            db.execute("INSERT INTO floor_steps VALUES (%s, %s, %s)", (made[0], n, json.dumps({"x": value})))
        db.execute("UPDATE floor_runs SET done = true WHERE id = %s", made)
        free.append(db)
        return value

    async def run() -> int:
        loop = asyncio.get_running_loop()
        return sum(await asyncio.gather(*(loop.run_in_executor(threads, one) for _ in range(runs))))

    return run


def appends(steps: int, place: Place) -> Callable[[], int]:
    db = _file(place)

    def run() -> int:
        messages = []
        for number in range(steps):
            messages.append(message(number))
            db.execute(_INSERT, (json.dumps(messages[-1], separators=(",", ":")),))
        return len(messages)

    return run


def incremental_chain(nodes: int) -> Callable[[], int]:
    """Values with the revision in which they last changed, and that in which they were last checked."""
    functions = chain_functions(nodes)
    values, changed, verified = [0] * (nodes + 1), [0] * (nodes + 1), [0] * (nodes + 1)
    numbers = count(1)

    def run() -> int:
        revision = values[0] = next(numbers)
        changed[0] = revision
        for index, function in enumerate(functions):
            if changed[index] > verified[index + 1]:
                value = function(values[index])
                if value != values[index + 1]:
                    values[index + 1] = value
                    changed[index + 1] = revision
            verified[index + 1] = revision
        return values[nodes] - revision

    return run


def _dependents(nodes: int) -> dict[int, list[int]]:
    return {index: [1, 0] for index in range(nodes)}  # a value, and the revision that it is of


def _asked(nodes: int) -> tuple[Callable[[int], None], Callable[[int], int]]:
    """Set the source; pull a dependent."""
    (function,) = chain_functions(1)
    rows, source = _dependents(nodes), [0, 0]

    def give(value: int) -> None:
        source[0] = value
        source[1] += 1

    def pull(name: int) -> int:
        row = rows[name]
        if source[1] > row[1]:
            row[0] = function(source[0])
            row[1] = source[1]
        return row[0]

    return give, pull


def incremental_fan(nodes: int) -> Callable[[], int]:
    give, pull = _asked(nodes)
    one, numbers = nodes // 2, count(1)

    def run() -> int:
        number = next(numbers)
        give(number)
        return pull(one) - number

    return run


def incremental_idle(nodes: int, pulls: int) -> Callable[[], int]:
    give_other, _ = _asked(1)
    _, pull = _asked(nodes)
    some, numbers = range(0, nodes, nodes // pulls)[:pulls], count(1)

    def run() -> int:
        give_other(next(numbers))
        total = 0
        for one in some:
            total += pull(one)
        return total

    return run


def incremental_disk(nodes: int, place: Place) -> Callable[[], int]:
    """Each value that was computed is one row, replaced and committed."""
    return _disk(nodes, place, grouped=False)


def incremental_disk_grouped(nodes: int, place: Place) -> Callable[[], int]:
    """The same rows in one transaction a pull."""
    return _disk(nodes, place, grouped=True)


def _disk(nodes: int, place: Place, grouped: bool) -> Callable[[], int]:
    db = sqlite3.connect(place.file("floor"), isolation_level=None, check_same_thread=False)
    place.open.callback(db.close)
    place.set_up(db).execute("CREATE TABLE nodes (name TEXT PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID")
    plan = [(f"x{index + 1}", f"x{index}", function) for index, function in enumerate(chain_functions(nodes))]
    numbers = count(1)

    def run() -> int:
        values = {"x0": next(numbers)}
        if grouped:
            db.execute("BEGIN")
        for output, source, function in plan:
            values[output] = value = function(values[source])
            db.execute("INSERT OR REPLACE INTO nodes VALUES (?, ?)", (output, json.dumps(value)))
        if grouped:
            db.execute("COMMIT")
        return values[f"x{nodes}"] - values["x0"]

    return run
