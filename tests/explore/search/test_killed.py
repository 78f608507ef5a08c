"""Explorations of real databases, servers and directories that are killed at any instant, and go on."""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.explore.killing import INSIDE, Nursery
from tests.explore.systems.postgres_databases import Database
from tests.explore.systems.servers import RedisServer

KINDS = ["sqlite", "private", "postgres", "redis", "files"]
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
def nursery(tmp_path: Path) -> Iterator[Nursery]:
    folder = tmp_path / "temporary"
    folder.mkdir()
    with Nursery(folder) as made:
        yield made


@pytest.fixture
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], tuple[str, Callable[[], Any]]]:
    """Makes a place for a system of a kind, with something in it; and says what is there, by none of our code."""

    def make(kind: str) -> tuple[str, Callable[[], Any]]:
        place: Any
        if kind in ("sqlite", "private"):
            place = tmp_path / f"{kind}.sqlite"
            with sqlite3.connect(place) as connection:
                mode = "WAL" if kind == "sqlite" else "DELETE"
                connection.executescript(f"PRAGMA journal_mode = {mode}; {SQL}")
            connection.close()
            return str(place), lambda: _sqlite_truth(place)
        if kind in ("postgres", "cloned"):
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
    """Kills one exploration after the other, and compares what comes out in the end."""

    def __init__(
        self,
        nursery: Nursery,
        kinds: list[str],
        made: Any,
        tmp_path: Path,
        rows: int = 1,
        migrates: bool = False,
    ) -> None:
        self.nursery, self._folder = nursery, tmp_path
        self._model = {"rows": rows, "migrates": migrates}
        places = {kind: made(kind) for kind in kinds}
        self.places = {kind: place for kind, (place, _) in places.items()}
        self._truths = [truth for _, truth in places.values()]
        self.before = self.truth()
        self.stores = 0
        self.unbroken = self.child(self.new_store())
        assert "summary" in self.unbroken, self.unbroken
        assert len(self.unbroken["summary"]["violations"]) == 2

    def truth(self) -> list[Any]:
        return [truth() for truth in self._truths]

    def new_store(self) -> str:
        self.stores += 1
        return str(self._folder / f"explore {self.stores}.db")

    def child(self, store: str, **task: Any) -> dict[str, Any]:
        return self.nursery.child(places=self.places, store=store, **self._model, **task)

    def killed(self, store: str, **task: Any) -> bool:
        """Whether it was killed before it had ended."""
        answer = self.child(store, **task)
        assert answer.get("killed") or "summary" in answer, answer
        return "killed" in answer

    def kill(self, times: int, draw: random.Random, **task: Any) -> None:
        """So many times; whenever one lives to its end, it is compared, and the next one begins from nothing."""
        store, kills = self.new_store(), 0
        while kills < times:
            if self.killed(store, die_at=draw.randrange(1, self.unbroken["calls"]), **task):
                kills += 1
            else:
                self.check(store)
                store = self.new_store()
        self.check(store)

    def check(self, store: str) -> dict[str, Any]:
        """It goes on to the same final graph, and leaves everything as it was."""
        answer = self.child(store)
        assert "summary" in answer, answer
        assert answer["summary"] == self.unbroken["summary"]
        assert self.truth() == self.before
        return answer


@pytest.mark.parametrize("kinds", [[kind] for kind in KINDS] + [[*KINDS, "memory"]], ids="+".join)
def test_killed_at_any_instant_it_goes_on_to_the_same_final_graph(
    kinds: list[str], nursery: Nursery, made: Any, tmp_path: Path
) -> None:
    campaign = Campaign(nursery, kinds, made, tmp_path)
    campaign.kill(4 if len(kinds) > 1 else 8, random.Random(0))


@pytest.mark.parametrize("kind", KINDS)
def test_killed_inside_of_each_kind_of_work_it_goes_on(
    kind: str, nursery: Nursery, made: Any, tmp_path: Path
) -> None:
    """Also while it puts the systems back after a kill, and again."""
    campaign = Campaign(nursery, [kind], made, tmp_path)
    draw = random.Random(1)
    store = campaign.new_store()
    assert campaign.killed(store, die_at=campaign.unbroken["calls"] // 2)
    for inside in [*INSIDE, "putting back", "putting back", "putting back", "ending"]:
        campaign.killed(store, die_at=draw.randrange(1, 400), inside=inside)
    campaign.check(store)


def test_what_was_written_before_the_kill_is_not_done_again(
    nursery: Nursery, made: Any, tmp_path: Path
) -> None:
    campaign = Campaign(nursery, ["sqlite"], made, tmp_path)
    store = campaign.new_store()
    assert campaign.killed(store, die_at=campaign.unbroken["calls"] * 3 // 4)
    assert campaign.check(store)["recalled"] > 0


def test_the_store_may_be_postgresql(nursery: Nursery, made: Any, tmp_path: Path, database: Database) -> None:
    campaign = Campaign(nursery, ["sqlite"], made, tmp_path)
    host, user, name = (part.split("=")[1] for part in database.dsn.split())
    store = f"postgresql://{user}@/{name}?host={host}"
    for part in (3, 2, 4):
        assert campaign.killed(store, die_at=campaign.unbroken["calls"] // part)
    campaign.check(store)


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("cloned", marks=pytest.mark.slow)])
def test_killed_while_the_schema_is_changed_and_brought_back(
    kind: str, nursery: Nursery, made: Any, tmp_path: Path
) -> None:
    campaign = Campaign(nursery, [kind], made, tmp_path, migrates=True)
    campaign.kill(3, random.Random(3))
    store, draw = campaign.new_store(), random.Random(4)
    for _ in range(2):
        campaign.killed(store, die_at=campaign.unbroken["calls"] * 3 // 4)
        campaign.killed(store, die_at=draw.randrange(1, 1500), inside="putting back")
    campaign.check(store)


@pytest.mark.slow
@pytest.mark.parametrize("kinds", [[kind] for kind in KINDS] + [[*KINDS, "memory"]], ids="+".join)
def test_killed_a_hundred_times(kinds: list[str], nursery: Nursery, made: Any, tmp_path: Path) -> None:
    campaign = Campaign(nursery, kinds, made, tmp_path, rows=2)
    draw = random.Random(2)
    campaign.kill(60, draw)
    began = time.monotonic()
    campaign.check(campaign.new_store())
    lasts = time.monotonic() - began
    for _ in range(10):  # by the clock: also inside of what servers and the kernel do
        store = campaign.new_store()
        for _ in range(4):
            campaign.killed(store, after=draw.uniform(0, lasts))
        campaign.check(store)
