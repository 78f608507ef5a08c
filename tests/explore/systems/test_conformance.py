"""One small model on every system: explored in any order, by checkpoints or by replay, it has the same states.

Three records, each absent or holding one of two values, with create, change and delete as actions: 27 states, and
in each of them what can be done with each record.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import httpx
import pytest
import redis

from clew.explore import BFS, DFS, Action, Agent, Invariant, RandomWalk, World
from clew.explore.model.system import System
from clew.explore.systems import (
    FileSystem,
    HTTPFake,
    MemoryStorage,
    RedisSystem,
    ResettableSystem,
    SQLiteSystem,
)
from tests.explore.systems.servers import RedisServer

RECORDS, VALUES = "abc", 2
STATES = (VALUES + 1) ** len(RECORDS)
# an absent record can be created; one that is there can be changed or deleted
TRANSITIONS = sum(
    1 if value == 0 else 2 for state in range(STATES) for value in (state % 3, state // 3 % 3, state // 9 % 3)
)


class Records(Protocol):
    """How an application works with records in a system."""

    def get(self, key: str) -> int | None: ...
    def put(self, key: str, value: int) -> None: ...
    def delete(self, key: str) -> None: ...


class InMemory:
    def __init__(self, storage: Any) -> None:
        self.storage = storage

    def get(self, key: str) -> int | None:
        found: int | None = self.storage.get(key)
        return found

    def put(self, key: str, value: int) -> None:
        self.storage.put(key, value)

    def delete(self, key: str) -> None:
        self.storage.delete(key)


class InSQLite:
    def __init__(self, connection: Any) -> None:
        self.connection = connection
        connection.execute("CREATE TABLE r(k TEXT PRIMARY KEY, v INT)")

    def get(self, key: str) -> int | None:
        found = self.connection.execute("SELECT v FROM r WHERE k = ?", (key,)).fetchone()
        return found[0] if found else None

    def put(self, key: str, value: int) -> None:
        self.connection.execute("REPLACE INTO r VALUES (?, ?)", (key, value))

    def delete(self, key: str) -> None:
        self.connection.execute("DELETE FROM r WHERE k = ?", (key,))


class InRedis:
    def __init__(self, client: Any) -> None:
        self.client = client

    def get(self, key: str) -> int | None:
        found = self.client.get(key)
        return None if found is None else int(found)

    def put(self, key: str, value: int) -> None:
        self.client.set(key, value)

    def delete(self, key: str) -> None:
        self.client.delete(key)


class InFiles:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def get(self, key: str) -> int | None:
        file = self.folder / key
        return int(file.read_text()) if file.exists() else None

    def put(self, key: str, value: int) -> None:
        (self.folder / key).write_text(str(value))

    def delete(self, key: str) -> None:
        (self.folder / key).unlink()


class OverHTTP:
    def __init__(self, client: httpx.Client) -> None:
        self.client = client

    def get(self, key: str) -> int | None:
        answer = self.client.get(f"/{key}")
        return None if answer.status_code == 404 else int(answer.json())

    def put(self, key: str, value: int) -> None:
        self.client.put(f"/{key}", json=value).raise_for_status()

    def delete(self, key: str) -> None:
        self.client.delete(f"/{key}").raise_for_status()


Place = tuple[System, Records]


@pytest.fixture
def memory() -> Place:
    storage = MemoryStorage()
    return storage, InMemory(storage)


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Place]:
    application = sqlite3.connect(tmp_path / "app.db", isolation_level=None)
    application.execute("PRAGMA journal_mode = WAL")
    application.execute("PRAGMA synchronous = OFF")
    records = InSQLite(application)
    with SQLiteSystem(tmp_path / "app.db") as system:
        yield system, records
    application.close()


@pytest.fixture
def sqlite_in_memory() -> Iterator[Place]:
    with SQLiteSystem(":memory:") as system:
        yield system, InSQLite(system.connection)


@pytest.fixture
def on_redis() -> Iterator[Place]:
    server = RedisServer()
    try:
        server.start()
        with redis.Redis.from_url(server.url) as client, RedisSystem(client) as system:
            yield system, InRedis(client)
    finally:
        server.remove()


@pytest.fixture
def files(tmp_path: Path) -> Iterator[Place]:
    folder = tmp_path / "data"
    folder.mkdir()
    with FileSystem(folder) as system:
        yield system, InFiles(folder)


@pytest.fixture
def http() -> Iterator[Place]:
    with HTTPFake() as fake:

        @fake.route("GET", "/{key}")
        def show(request: Any, state: dict[str, Any]) -> Any:
            key = request.params["key"]
            return state[key] if key in state else (404,)

        @fake.route("PUT", "/{key}")
        def put(request: Any, state: dict[str, Any]) -> None:
            state[request.params["key"]] = json.loads(request.body)

        @fake.route("DELETE", "/{key}")
        def delete(request: Any, state: dict[str, Any]) -> None:
            del state[request.params["key"]]

        with httpx.Client(base_url=fake.url, trust_env=False) as client:
            yield fake, OverHTTP(client)


@pytest.fixture
def replayed() -> Place:
    storage = MemoryStorage()
    return ResettableSystem(lambda: storage.observe().data, storage.clear), InMemory(storage)


@pytest.fixture(params=["memory", "sqlite", "sqlite_in_memory", "on_redis", "files", "http", "replayed"])
def place(request: pytest.FixtureRequest) -> Place:
    found: Place = request.getfixturevalue(request.param)
    return found


def actions(records: Records) -> list[Action]:
    def there(key: str) -> Callable[[World], bool]:
        return lambda world: records.get(key) is not None

    def absent(key: str) -> Callable[[World], bool]:
        return lambda world: records.get(key) is None

    def change(key: str) -> Callable[[World], None]:
        return lambda world: records.put(key, 1 - (records.get(key) or 0))

    made = []
    for key in RECORDS:
        made += [
            Action(f"create {key}", lambda world, key=key: records.put(key, 0), precondition=absent(key)),
            Action(f"change {key}", change(key), precondition=there(key)),
            Action(f"delete {key}", lambda world, key=key: records.delete(key), precondition=there(key)),
        ]
    return made


@pytest.mark.parametrize(
    "strategy", [BFS(), DFS(), RandomWalk(7)], ids=lambda strategy: type(strategy).__name__
)
def test_every_system_shows_the_same_states(strategy: Any, place: Place) -> None:
    system, records = place
    all_values = Invariant("values", lambda world: all(records.get(key) in (None, 0, 1) for key in RECORDS))
    result = Agent(
        World(systems={"records": system}), actions(records), [all_values], strategy=strategy, progress=False
    ).explore()
    assert list(result.violations) == []
    assert len(result.states) == STATES == 27
    assert len(result.transitions) == TRANSITIONS == 135
    assert [records.get(key) for key in RECORDS] == [None] * 3
