"""A killed exploration leaves a mark, which the next one announces unless it restores the systems."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from clew.errors import ExplorationWarning
from clew.explore import Action, Agent, World
from clew.explore.systems import FileSystem, PostgresSystem, RedisSystem, SQLiteSystem
from tests.explore.systems.postgres_databases import Database
from tests.explore.systems.servers import RedisServer

KILLED = """
import os, signal, sys
from clew.explore import Action, Agent, World
from tests.explore.search.test_midway import add, opened
kind, place, store = sys.argv[1:]
die = Action("die", lambda world: os.kill(os.getpid(), signal.SIGKILL))
world = World(systems={"db": opened(kind, place)}, api=(kind, place))
Agent(world, [Action("add", add), die], store=store or None).explore()
"""


def opened(kind: str, place: str) -> Any:
    if kind == "postgres":
        return PostgresSystem(place)
    return {"sqlite": SQLiteSystem, "redis": RedisSystem, "folder": FileSystem}[kind](place)


def run(kind: str, place: str, sql: str) -> list[Any]:
    if kind == "sqlite":
        connection: Any = sqlite3.connect(place)
    else:
        import psycopg

        connection = psycopg.connect(place)
    try:
        cursor = connection.execute(sql)
        found = cursor.fetchall() if cursor.description else []
        connection.commit()
        return list(found)
    finally:
        connection.close()


def count(kind: str, place: str) -> int:
    """Return the number of rows, keys or files."""
    if kind == "folder":
        return len(list(Path(place).iterdir()))
    if kind == "redis":
        with redis.Redis.from_url(place) as client:
            return int(client.dbsize())
    return int(run(kind, place, "SELECT count(*) FROM t")[0][0])


def add(world: World) -> None:
    kind, place = world.api
    there = count(kind, place)
    if there >= 3:
        return
    if kind == "folder":
        (Path(place) / str(there)).touch()
    elif kind == "redis":
        with redis.Redis.from_url(place) as client:
            client.set(str(there), "1")
    else:
        run(kind, place, "INSERT INTO t VALUES (1)")


def killed(kind: str, place: str, store: str) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, kind, place, store], check=False)
    assert done.returncode == -9


def explore(kind: str, place: str, store: str | None = None) -> list[str]:
    """Explore, and return the warnings."""
    with opened(kind, place) as system, warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", ExplorationWarning)
        actions = [Action("add", add), Action("die", lambda world: None)]
        Agent(
            World(systems={"db": system}, api=(kind, place)), actions, store=store, progress=False
        ).explore()
    return [str(each.message) for each in found if "killed" in str(each.message)]


@pytest.fixture
def redis_url() -> Iterator[str]:
    server = RedisServer("redis")
    server.start()
    yield server.url
    server.remove()


@pytest.fixture(params=["sqlite", "postgres", "redis", "folder"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    kind: str = request.param
    if kind == "folder":
        where = str(tmp_path / "folder")
        Path(where).mkdir()
    elif kind == "redis":
        where = request.getfixturevalue("redis_url")
    else:
        where = str(tmp_path / "t.db")
        if kind == "postgres":
            database: Database = request.getfixturevalue("database")
            where = database.dsn
        run(kind, where, "CREATE TABLE t (v INTEGER)")
    return kind, where


@pytest.mark.posix
def test_a_killed_exploration_without_its_store_is_announced(place: tuple[str, str], tmp_path: Path) -> None:
    assert explore(*place) == []
    assert explore(*place) == []  # the first one ended in its initial state
    killed(*place, str(tmp_path / "gone.db"))
    (message,) = explore(*place)
    assert "'db'" in message
    assert explore(*place) == []  # it was said once; that state is the initial one now


@pytest.mark.posix
def test_a_killed_exploration_that_is_resumed_is_not_announced(
    place: tuple[str, str], tmp_path: Path
) -> None:
    store = str(tmp_path / "explore.db")
    killed(*place, store)
    assert explore(*place, store) == []
    assert count(*place) == 0
