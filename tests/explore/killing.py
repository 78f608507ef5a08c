"""Explorations of real systems that are killed at a chosen moment, for tests.

A `ForkServer` is a process that imports everything once and then forks a child for each task. A child builds its world
as a script would, explores it with a store and answers with the final graph, unless it gets SIGKILL first. The kill
comes at the n-th call of a Python or C function, counted everywhere or only during one operation (`DURING`), so that it
can be repeated; or after a time, so that it can also hit the work of a server or the kernel.

The model is the same for all systems: up to two rows with a number, a value and a flag. The number comes from a counter
that is not part of the state (a sequence, a key, a file), so a counter that is not restored is noticed.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NoReturn

from clew.explore import Action, Agent, Invariant, World
from clew.explore import agent as agents
from clew.explore.search import baseline
from clew.explore.search import journal as journals
from clew.explore.systems import FileSystem, MemoryStorage, PostgresSystem, RedisSystem, SQLiteSystem

MOST = 1
# operations during which calls can be counted
DURING: dict[str, tuple[Any, str]] = {
    "restoring the baseline": (baseline, "restore"),
    "saving the baseline": (journals.Journal, "save_baseline"),
    "deleting the baseline": (journals.Journal, "delete_baseline"),
    "rolling back": (World, "_restore"),
    "checkpointing": (World, "_create_checkpoint"),
    "observing": (World, "_observe"),
}


class Table:
    """Rows in a database that speaks SQL; each action is a transaction."""

    def __init__(self, connection: Any, mark: str) -> None:
        self._connection, self._mark = connection, mark
        if mark == "?":
            self._run("PRAGMA synchronous = OFF")

    def _run(self, sql: str, *values: Any) -> Any:
        return self._connection.execute(sql.replace("?", self._mark), values)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._run("BEGIN")
        try:
            yield
        except BaseException:
            self._run("ROLLBACK")
            raise
        self._run("COMMIT")

    def add(self) -> None:
        with self._transaction():
            self._run("INSERT INTO log (what) VALUES ('add')")
            self._run("INSERT INTO rows (value, flag) VALUES (0, 0)")
            self._run("DELETE FROM log WHERE what = 'add'")

    def bump(self) -> None:
        with self._transaction():
            self._run("UPDATE rows SET value = value + 1 WHERE id = (SELECT max(id) FROM rows)")

    def flag(self) -> None:
        with self._transaction():
            self._run("UPDATE rows SET flag = 1 - flag WHERE id = (SELECT min(id) FROM rows)")

    def fail(self) -> None:
        with self._transaction():
            self._run("DELETE FROM rows")
            raise ValueError("partly done")

    def migrate(self) -> None:
        self._run("ALTER TABLE rows ADD COLUMN note text DEFAULT 'new'")

    @property
    def is_migrated(self) -> bool:
        try:
            self._run("SELECT note FROM rows LIMIT 0")
        except Exception:
            return False
        return True

    def rows(self) -> list[tuple[int, int, int]]:
        return [tuple(row) for row in self._run("SELECT id, value, flag FROM rows ORDER BY id")]


class Keys:
    """Rows in Redis: a key each, and a counter."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def add(self) -> None:
        number = self._client.incr("counter")
        self._client.set("half", "1")
        self._client.hset(f"row:{number}", mapping={"value": 0, "flag": 0})
        self._client.delete("half")

    def bump(self) -> None:
        self._client.hincrby(f"row:{max(self.rows())[0]}", "value", 1)

    def flag(self) -> None:
        number, _, flag = min(self.rows())
        self._client.hset(f"row:{number}", "flag", 1 - flag)

    def fail(self) -> None:
        self._client.delete("kept")
        raise ValueError("partly done")

    def rows(self) -> list[tuple[int, int, int]]:
        found = []
        for key in sorted(self._client.keys("row:*")):
            value, flag = self._client.hmget(key, "value", "flag")
            found.append((int(key.split(b":")[1]), int(value), int(flag)))
        return found


class Files:
    """Rows in a directory: a folder with a file for each, and a counter."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(self) -> None:
        number = int((self._folder / "counter").read_text()) + 1
        (self._folder / "counter").write_text(str(number))
        (self._folder / f"row {number}").mkdir()
        (self._folder / f"row {number}" / "values").write_text("0 0")

    def bump(self) -> None:
        number, value, flag = max(self.rows())
        (self._folder / f"row {number}" / "values").write_text(f"{value + 1} {flag}")

    def flag(self) -> None:
        number, value, flag = min(self.rows())
        (self._folder / f"row {number}" / "values").write_text(f"{value} {1 - flag}")

    def fail(self) -> None:
        (self._folder / "counter").unlink()
        raise ValueError("partly done")

    def rows(self) -> list[tuple[int, int, int]]:
        found = []
        for folder in sorted(self._folder.glob("row *")):
            value, flag = (folder / "values").read_text().split()
            found.append((int(folder.name.split()[1]), int(value), int(flag)))
        return found


def sqlite(place: str) -> tuple[Any, Any]:
    return SQLiteSystem(place), Table(sqlite3.connect(place, isolation_level=None), "?")


def postgres(place: str) -> tuple[Any, Any]:
    import psycopg

    table = Table(psycopg.connect(place, autocommit=True), "%s")
    return PostgresSystem(place, ignore={"rows": ["touched"]}), table


def redis(place: str) -> tuple[Any, Any]:
    import redis as library

    return RedisSystem(place), Keys(library.Redis.from_url(place))


def files(place: str) -> tuple[Any, Any]:
    return FileSystem(place), Files(Path(place))


def memory(place: str) -> tuple[Any, Any]:
    """A cache that the script fills from the database when it starts."""
    with closing(sqlite3.connect(place)) as connection:
        return MemoryStorage({"rows": connection.execute("SELECT * FROM rows").fetchall()}), None


KINDS: dict[str, Callable[[str], tuple[Any, Any]]] = {
    "sqlite": sqlite,
    "postgres": postgres,
    "redis": redis,
    "files": files,
    "memory": memory,
}


def agent(
    places: dict[str, str], store: str, most_rows: int, migrates: bool = False
) -> tuple[Agent, dict[str, Any]]:
    """Return the agent of a script. Each action runs in all systems, one after the other."""
    made = {kind: KINDS[kind](place) for kind, place in places.items()}
    systems = {kind: system for kind, (system, _) in made.items()}
    rows = [model for _, model in made.values() if model is not None]

    def each(what: str) -> Callable[[World], None]:
        def run(world: World) -> None:
            for model in rows:
                getattr(model, what)()
            world.context.set("flagged", what == "flag")

        return run

    def some(world: World) -> bool:
        return bool(rows[0].rows())

    actions = [
        Action("add", each("add"), lambda world: len(rows[0].rows()) < most_rows),
        Action("bump", each("bump"), lambda world: some(world) and max(rows[0].rows())[1] < MOST),
        Action("flag", each("flag"), some),
        Action("fail", each("fail"), lambda world: len(rows[0].rows()) == most_rows),
    ]
    if migrates:
        actions.append(Action("migrate", each("migrate"), lambda world: not rows[0].is_migrated))
    same = Invariant("same", lambda world: all(model.rows() == rows[0].rows() for model in rows))
    small = Invariant("small", lambda world: sum(value for _, value, _ in rows[0].rows()) < most_rows * MOST)
    world = World(systems=systems, context={"flagged": False})
    return Agent(world, actions, [same, small], store=store), systems


def summary(result: Any) -> dict[str, Any]:
    """Return everything that must be the same after kills."""
    document: dict[str, Any] = result.to_dict()
    del document["seconds"]
    for violation in document["violations"]:
        del violation["error"]
    for state in document["states"]:
        state.pop("metadata", None)
    return document


# -- children and the process that forks them -------------------------------------------------------------------------


class ForkServer:
    """The process that forks; `child` runs one task in a child process."""

    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from tests.explore.killing import main; main()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "TMPDIR": str(folder)},
        )

    def child(self, **task: Any) -> dict[str, Any]:
        """Return ``{"killed": True}``, the summary, or the error."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(task) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def __enter__(self) -> ForkServer:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def main() -> None:
    """Run the process that forks."""
    import psycopg  # noqa: F401
    import redis  # noqa: F401

    import clew.explore.systems.postgres.connection
    import clew.explore.systems.postgres.system
    import clew.explore.systems.redis.connection
    import clew.explore.systems.sqlite.system
    import clew.stores.sqlite.kv

    for module in (clew.explore.systems.postgres.connection, clew.explore.systems.redis.connection):
        module._CLAIM_TIMEOUT = (
            120.0  # seconds: a busy server may take long to notice that a child was killed
        )
    gc.collect()
    gc.freeze()  # a collection in a child would copy all of it
    for line in sys.stdin:
        task = json.loads(line)
        reading, writing = os.pipe()
        pid = os.fork()
        if not pid:
            _live(task, writing)
        os.close(writing)
        if task.get("after") is not None:
            select.select([reading], [], [], task["after"])  # or until the child has ended
            os.kill(pid, signal.SIGKILL)
        with os.fdopen(reading) as answer:
            text = answer.read()
        _, status = os.waitpid(pid, 0)
        ended = json.loads(text) if text else {"killed": os.WTERMSIG(status) == signal.SIGKILL}
        print(json.dumps(ended), flush=True)


def _live(task: dict[str, Any], writing: int) -> NoReturn:
    """Run a child. It exits without the cleanup of its parent."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        answer = _explored(task)
    except BaseException as error:
        answer = {"error": f"{type(error).__name__}: {error}"}
    os.write(writing, json.dumps(answer).encode())
    os._exit(0)


def _explored(task: dict[str, Any]) -> dict[str, Any]:
    agents.TICK_SECONDS = 0.005  # so that a short exploration writes its journal before it is killed
    counter = _Counter(task.get("die_at", 0), task.get("during"))
    counter.start()
    explorer, systems = agent(task["places"], task["store"], task["rows"], task["migrates"])
    result = explorer.explore()
    found = summary(result)
    for system in systems.values():
        if hasattr(system, "close"):
            system.close()
    counter.stop()
    return {"summary": found, "resumed_transitions": result.resumed_transitions, "calls": counter.calls}


class _Counter:
    """Counts calls and kills the process at one of them."""

    def __init__(self, die_at: int, during: str | None) -> None:
        self.calls = 0
        self._die_at = die_at
        self._counting = during is None
        if during is not None:
            owner, name = DURING[during]
            operation = getattr(owner, name)

            def counted(*given: Any, **named: Any) -> Any:
                before, self._counting = self._counting, True
                try:
                    return operation(*given, **named)
                finally:
                    self._counting = before

            setattr(owner, name, counted)

    def start(self) -> None:
        sys.setprofile(self._count)

    def stop(self) -> None:
        sys.setprofile(None)

    def _count(self, frame: Any, event: str, argument: Any) -> None:
        if self._counting:
            self.calls += 1
            if self.calls == self._die_at:
                os.kill(os.getpid(), signal.SIGKILL)
                time.sleep(60)  # the signal arrives on return from the kernel
