"""Explorations of real systems that are killed at any moment, and resumed."""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.explore.killing import DURING, ForkServer
from tests.explore.systems.postgres_databases import Database
from tests.explore.systems.servers import RedisServer

KINDS = ["sqlite", "postgres", "redis", "files"]
SQL = """
CREATE TABLE rows (id INTEGER PRIMARY KEY AUTOINCREMENT, value INTEGER NOT NULL, flag INTEGER NOT NULL);
CREATE TABLE log (id INTEGER PRIMARY KEY AUTOINCREMENT, what TEXT);
CREATE TABLE kept (name TEXT PRIMARY KEY, price REAL) WITHOUT ROWID;
INSERT INTO kept VALUES ('tea', 1.5), ('coffee', 2);
"""


@pytest.fixture(scope="module")
def redis_server() -> Iterator[RedisServer]:
    server = RedisServer()
    server.start()
    yield server
    server.remove()


@pytest.fixture
def fork_server(tmp_path: Path) -> Iterator[ForkServer]:
    folder = tmp_path / "temporary"
    folder.mkdir()
    with ForkServer(folder) as made:
        yield made


@pytest.fixture
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], tuple[str, Callable[[], Any]]]:
    """Return a function that creates data for a kind of system, and a function that reads it without Clew."""

    def make(kind: str) -> tuple[str, Callable[[], Any]]:
        place: Any
        if kind == "sqlite":
            place = tmp_path / "sqlite.sqlite"
            with sqlite3.connect(place) as connection:
                connection.executescript(f"PRAGMA journal_mode = WAL; {SQL}")
            connection.close()
            return str(place), lambda: _sqlite_truth(place)
        if kind == "postgres":
            database = request.getfixturevalue("database")
            database.run(
                "CREATE TABLE rows (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, value int, flag int, "
                "touched timestamptz DEFAULT clock_timestamp())",
                "CREATE TABLE log (id serial, what text)",
                "CREATE TABLE kept (name text PRIMARY KEY, price numeric, "
                "twice numeric GENERATED ALWAYS AS (price * 2) STORED)",
                "INSERT INTO kept VALUES ('tea', 1.50), ('coffee', NULL)",
            )
            return database.dsn, database.truth
        if kind == "redis":
            return _redis_place(request.getfixturevalue("redis_server"))
        if kind == "memory":
            return str(tmp_path / "sqlite.sqlite"), lambda: None
        place = tmp_path / "directory"
        (place / "empty").mkdir(parents=True)
        (place / "counter").write_text("0")
        (place / "kept").write_bytes(bytes(range(256)))
        (place / "link").symlink_to("kept")
        (place / "kept").chmod(0o640)
        return str(place), lambda: _tree(place)

    return make


def _sqlite_truth(place: Path) -> Any:
    with sqlite3.connect(place) as connection:
        names = [
            name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        found = {name: connection.execute(f"SELECT * FROM {name} ORDER BY 1").fetchall() for name in names}
    connection.close()
    return found


def _redis_place(server: RedisServer) -> tuple[str, Callable[[], Any]]:
    import redis

    with redis.Redis.from_url(server.url) as client:
        client.flushall()
        client.mset({"kept": b"\x00\xff", "counter": 0})
        client.set("expires", "1", ex=1000)

    def truth() -> Any:
        with redis.Redis.from_url(server.url) as client:
            return {key: (client.dump(key), client.ttl(key) > 0) for key in sorted(client.keys())}

    return f"{server.url}?db=0", truth


def _tree(place: Path) -> Any:
    found = {}
    for path in sorted(place.rglob("*")):
        status = path.lstat()
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else None
        found[str(path.relative_to(place))] = (status.st_mode, content, status.st_mtime_ns if content else 0)
    return found


class Campaign:
    """Kills explorations repeatedly, and compares the final results."""

    def __init__(
        self,
        fork_server: ForkServer,
        kinds: list[str],
        made: Any,
        tmp_path: Path,
        rows: int = 1,
        migrates: bool = False,
    ) -> None:
        self.fork_server, self._folder = fork_server, tmp_path
        self._model = {"rows": rows, "migrates": migrates}
        places = {kind: made(kind) for kind in kinds}
        self.places = {kind: place for kind, (place, _) in places.items()}
        self._truths = [truth for _, truth in places.values()]
        self.before = self.truth()
        self.stores = 0
        self.uninterrupted = self.child(self.new_store())
        assert "summary" in self.uninterrupted, self.uninterrupted
        assert len(self.uninterrupted["summary"]["violations"]) == 2

    def truth(self) -> list[Any]:
        return [truth() for truth in self._truths]

    def new_store(self) -> str:
        self.stores += 1
        return str(self._folder / f"explore {self.stores}.db")

    def child(self, store: str, **task: Any) -> dict[str, Any]:
        return self.fork_server.child(places=self.places, store=store, **self._model, **task)

    def killed(self, store: str, **task: Any) -> bool:
        """Return whether the child was killed before it ended."""
        answer = self.child(store, **task)
        assert answer.get("killed") or "summary" in answer, answer
        return "killed" in answer

    def kill(self, times: int, draw: random.Random, **task: Any) -> None:
        """Kill a number of times. A child that ends before its kill is compared, and the next one gets a new store."""
        store, kills = self.new_store(), 0
        while kills < times:
            if self.killed(store, die_at=draw.randrange(1, self.uninterrupted["calls"]), **task):
                kills += 1
            else:
                self.check(store)
                store = self.new_store()
        self.check(store)

    def check(self, store: str) -> dict[str, Any]:
        """Resume, and check that the graph is the same and the systems are in their initial state."""
        answer = self.child(store)
        assert "summary" in answer, answer
        assert answer["summary"] == self.uninterrupted["summary"]
        assert self.truth() == self.before
        return answer


@pytest.mark.parametrize("kinds", [[kind] for kind in KINDS] + [[*KINDS, "memory"]], ids="+".join)
def test_killed_at_any_moment_it_resumes_to_the_same_graph(
    kinds: list[str], fork_server: ForkServer, made: Any, tmp_path: Path
) -> None:
    campaign = Campaign(fork_server, kinds, made, tmp_path)
    campaign.kill(3 if len(kinds) > 1 else 5, random.Random(0))


@pytest.mark.parametrize("kind", KINDS)
def test_killed_during_each_operation_it_resumes(
    kind: str, fork_server: ForkServer, made: Any, tmp_path: Path
) -> None:
    """This includes repeated kills while the baseline is restored."""
    campaign = Campaign(fork_server, [kind], made, tmp_path)
    draw = random.Random(1)
    store = campaign.new_store()
    assert campaign.killed(store, die_at=campaign.uninterrupted["calls"] // 2)
    for during in [*DURING, *["restoring the baseline"] * 3, "deleting the baseline"]:
        campaign.killed(store, die_at=draw.randrange(1, 400), during=during)
    campaign.check(store)


def test_recorded_transitions_are_not_repeated(fork_server: ForkServer, made: Any, tmp_path: Path) -> None:
    campaign = Campaign(fork_server, ["sqlite"], made, tmp_path)
    store = campaign.new_store()
    assert campaign.killed(store, die_at=campaign.uninterrupted["calls"] * 3 // 4)
    assert campaign.check(store)["resumed_transitions"] > 0


def test_the_store_may_be_postgresql(
    fork_server: ForkServer, made: Any, tmp_path: Path, database: Database
) -> None:
    campaign = Campaign(fork_server, ["sqlite"], made, tmp_path)
    host, user, name = (part.split("=")[1] for part in database.dsn.split())
    store = f"postgresql://{user}@/{name}?host={host}"
    for part in (3, 2, 4):
        assert campaign.killed(store, die_at=campaign.uninterrupted["calls"] // part)
    campaign.check(store)


def test_killed_while_the_schema_is_changed_and_restored(
    fork_server: ForkServer, made: Any, tmp_path: Path
) -> None:
    campaign = Campaign(fork_server, ["sqlite"], made, tmp_path, migrates=True)
    campaign.kill(3, random.Random(3))
    store, draw = campaign.new_store(), random.Random(4)
    for _ in range(2):
        campaign.killed(store, die_at=campaign.uninterrupted["calls"] * 3 // 4)
        campaign.killed(store, die_at=draw.randrange(1, 1500), during="restoring the baseline")
    campaign.check(store)


@pytest.mark.slow
@pytest.mark.parametrize("kinds", [[kind] for kind in KINDS] + [[*KINDS, "memory"]], ids="+".join)
def test_killed_a_hundred_times(kinds: list[str], fork_server: ForkServer, made: Any, tmp_path: Path) -> None:
    campaign = Campaign(fork_server, kinds, made, tmp_path, rows=2)
    draw = random.Random(2)
    campaign.kill(60, draw)
    began = time.monotonic()
    campaign.check(campaign.new_store())
    lasts = time.monotonic() - began
    for _ in range(10):  # by time, so that kills also hit the work of servers and the kernel
        store = campaign.new_store()
        for _ in range(4):
            campaign.killed(store, after=draw.uniform(0, lasts))
        campaign.check(store)
