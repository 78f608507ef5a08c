"""What a system keeps for another process: all of it comes back, whatever happened meanwhile.

Here a killed process is one that never closes its system; `tests/explore/search/test_killed.py` kills real ones.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
import redis

from clew.errors import CheckpointError, RollbackError, SystemSetupError
from clew.explore.systems import FileSystem, PostgresSystem, RedisSystem, SQLiteSystem
from tests.explore.systems.postgres_databases import Database
from tests.explore.systems.servers import RedisServer


def kept(system: Any) -> list[bytes]:
    """What a system that is not closed properly has kept."""
    system.observe()
    return list(system.save_baseline(system.checkpoint("initial")))


# -- PostgreSQL -------------------------------------------------------------------------------------------------------


def killed(system: PostgresSystem) -> None:
    engine: Any = system
    engine._is_uninstalled = True  # so that close() removes nothing, like a kill
    system.close()


ODD = [
    "CREATE TABLE plain (v text)",  # no key, equal rows
    "INSERT INTO plain VALUES ('a'), ('a'), (NULL), (''), (E'tab\\tand\\nline\\\\')",
    "CREATE TABLE values (id serial PRIMARY KEY, j json, b jsonb, f float8, a int[], d timestamptz, x bytea)",
    """INSERT INTO values (j, b, f, a, d, x) VALUES ('{"a":  1}', 'null', '-0', '[0:1]={1,2}', 'infinity', '\\x00ff'),
       (NULL, NULL, 'NaN', '{}', now(), '')""",
    "CREATE TABLE parted (k int, v text, PRIMARY KEY (k)) PARTITION BY RANGE (k)",
    "CREATE TABLE parted_low PARTITION OF parted FOR VALUES FROM (0) TO (10)",
    "CREATE TABLE parted_high PARTITION OF parted FOR VALUES FROM (10) TO (20)",
    "INSERT INTO parted VALUES (1, 'low'), (11, 'high')",
    'CREATE TABLE "odd "" name" ("select" int UNIQUE, twice int GENERATED ALWAYS AS ("select" * 2) STORED)',
    'INSERT INTO "odd "" name" VALUES (1), (2)',
    "CREATE TABLE child (id int REFERENCES values ON DELETE CASCADE)",
    "INSERT INTO child VALUES (1)",
    "CREATE SEQUENCE lonely START 7",
]
CHANGES = [
    "DELETE FROM values WHERE id = 1",
    "INSERT INTO values (f) VALUES (0), (1)",
    "UPDATE values SET j = '{\"a\": 1}' WHERE id = 2",
    "DELETE FROM plain WHERE ctid = (SELECT min(ctid) FROM plain)",
    "INSERT INTO plain VALUES ('a'), ('b')",
    "UPDATE parted SET k = 12 WHERE k = 1",
    'UPDATE "odd "" name" SET "select" = 3 - "select" WHERE "select" = 2',
    "SELECT nextval('lonely')",
    "TRUNCATE child",
]


def test_all_that_postgresql_can_hold_comes_back(database: Database) -> None:
    database.run(*ODD)
    database.run('ALTER TABLE "odd "" name" DROP CONSTRAINT "odd "" name_select_key"')
    before = database.truth()
    first = database.system()
    pieces, seen = kept(first), first.observe().digest
    database.run(*CHANGES)
    killed(first)
    assert database.truth() != before
    second = database.system()
    second.restore_baseline(pieces)
    assert database.truth() == before
    assert second.observe().digest == seen
    token = second.checkpoint("initial")  # and it is a system like any other
    database.run(*CHANGES)
    second.rollback(token)
    assert database.truth() == before
    assert database.run("SELECT FROM pg_tables WHERE tablename ~ '^saved_'") == []


def test_a_system_in_use_can_be_put_back_too(database: Database) -> None:
    database.run("CREATE TABLE t (id serial, v int)", "INSERT INTO t (v) VALUES (1)")
    system = database.system()
    pieces, before = kept(system), database.truth()
    database.run("UPDATE t SET v = 2")
    later, then = system.checkpoint("later"), database.truth()
    database.run("INSERT INTO t (v) VALUES (3)")
    system.restore_baseline(pieces)
    assert database.truth() == before
    assert system.observe().data["t"] == [{"id": 1, "v": 1}]
    system.rollback(later)
    assert database.truth() == then


def test_tables_that_are_not_watched_stay_as_they_are(database: Database) -> None:
    database.run("CREATE TABLE t (v int)", "CREATE TABLE mine (v int)", "INSERT INTO mine VALUES (1)")
    first = database.system(tables=["t"])
    pieces = kept(first)
    database.run("INSERT INTO t VALUES (1)", "INSERT INTO mine VALUES (2)")
    killed(first)
    database.system(tables=["t"]).restore_baseline(pieces)
    assert database.run("SELECT v FROM mine ORDER BY v") == [(1,), (2,)]
    assert database.run("SELECT v FROM t") == []


def test_what_is_of_another_database_is_left_alone(database: Database) -> None:
    database.run("CREATE TABLE t (v int)", "INSERT INTO t VALUES (1)")
    first = database.system()
    pieces = kept(first)
    killed(first)
    database.run("INSERT INTO t VALUES (2)")
    second = database.system()
    head = msgspec.json.decode(pieces[0])
    head["place"] = head["place"].replace(database.name, "another")
    assert second.restore_baseline([msgspec.json.encode(head), *pieces[1:]]) is False
    assert database.run("SELECT count(*) FROM t") == [(2,)]
    assert second.restore_baseline(pieces) is True
    assert database.run("SELECT count(*) FROM t") == [(1,)]


def test_other_tables_than_were_kept_are_refused(database: Database) -> None:
    database.run("CREATE TABLE t (v int)", "CREATE TABLE u (v int)")
    first = database.system(tables=["t"])
    pieces = kept(first)
    killed(first)
    with pytest.raises(RollbackError, match=r'differ from the saved ones: "public"."u"'):
        database.system().restore_baseline(pieces)


def test_a_row_that_comes_while_it_is_kept_is_told(database: Database) -> None:
    database.run("CREATE TABLE t (v int)")
    system = database.system()
    token = system.checkpoint("initial")
    database.run("INSERT INTO t VALUES (1)")
    with pytest.raises(CheckpointError, match="changed since the checkpoint"):
        system.save_baseline(token)
    assert system.observe().data["t"] == [{"v": 1}]
    system.rollback(token)
    assert database.run("SELECT FROM t") == []


def test_additions_to_the_schema_are_dropped(database: Database) -> None:
    database.run("CREATE TABLE t (v int)", "INSERT INTO t VALUES (1)")
    before, first = database.truth(), database.system()
    pieces = kept(first)
    database.run("ALTER TABLE t ADD w int", "INSERT INTO t VALUES (2, 2)", "CREATE TABLE later (v int)")
    killed(first)
    second = database.system()
    assert second.restore_baseline(pieces)
    assert database.truth() == before
    token = second.checkpoint("initial")
    database.run("DELETE FROM t")
    second.rollback(token)
    assert database.truth() == before


def test_an_altered_schema_is_refused(database: Database) -> None:
    database.run("CREATE TABLE t (v int)")
    first = database.system()
    pieces = kept(first)
    database.run("ALTER TABLE t ALTER v TYPE text")
    killed(first)
    with pytest.raises(RollbackError, match="altered or removed something"):
        database.system().restore_baseline(pieces)


def test_definitions_that_were_made_again_as_they_were_are_the_same(database: Database) -> None:
    """A restore takes a check that was never validated away for a moment; that is no change."""
    database.run(
        "CREATE TABLE t (v int PRIMARY KEY)",
        "INSERT INTO t VALUES (-1)",
        "ALTER TABLE t ADD CONSTRAINT above CHECK (v > 0) NOT VALID",
    )
    first = database.system()
    first.observe()
    token = first.checkpoint("initial")
    pieces = list(first.save_baseline(token))
    database.run("DELETE FROM t")
    first.rollback(token)
    database.run("DELETE FROM t")
    killed(first)
    database.system().restore_baseline(pieces)
    assert database.run("SELECT v FROM t") == [(-1,)]


# -- SQLite -----------------------------------------------------------------------------------------------------------

SQL = """
CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, v);
INSERT INTO t (v) VALUES (1), (1.0), ('1'), (x'31'), (NULL), (-0.0), (CAST(x'ff' AS TEXT));
CREATE TABLE keyed (a TEXT COLLATE NOCASE, b, PRIMARY KEY (a)) WITHOUT ROWID;
INSERT INTO keyed VALUES ('Tea', 1), ('milk', 2);
CREATE TABLE mine (v);
CREATE VIRTUAL TABLE words USING fts5(body);
INSERT INTO words VALUES ('all that is kept');
CREATE TABLE noted (v);
CREATE TRIGGER note AFTER INSERT ON t BEGIN INSERT INTO noted VALUES (NEW.v); END;
"""
SQL_CHANGES = """
DELETE FROM t WHERE id IN (2, 7);
UPDATE t SET v = 1 WHERE id = 3;
INSERT INTO t (v) VALUES ('new'), ('newer');
UPDATE keyed SET a = 'tea' WHERE a = 'Tea';
INSERT OR REPLACE INTO keyed VALUES ('MILK', 3);
INSERT INTO words VALUES ('and more');
INSERT INTO mine VALUES (1);
"""


def dumped(path: Path, *, without: str = "") -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        connection.text_factory = lambda raw: raw.decode(errors="surrogateescape")
        names = [
            name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        found = [
            f"{name}: {connection.execute(f'SELECT * FROM {name}').fetchall()}"
            for name in sorted(names)
            if not name.startswith("_clew") and name != without
        ]
        found += [
            sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master") if "_clew" not in str(sql)
        ]
    return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "data.sqlite"
    with closing(sqlite3.connect(made)) as connection:
        connection.executescript(f"PRAGMA journal_mode = WAL; {SQL}")
    return made


@pytest.mark.parametrize("changes", [SQL_CHANGES, SQL_CHANGES + "ALTER TABLE t ADD w; DROP TABLE keyed;"])
def test_all_that_sqlite_can_hold_comes_back(path: Path, changes: str) -> None:
    watched = ["t", "keyed", "words", "noted"]
    before = dumped(path, without="mine")
    first = SQLiteSystem(path, tables=watched)
    pieces, seen = kept(first), first.observe().digest
    with closing(sqlite3.connect(path)) as app:
        app.executescript(changes)
    assert dumped(path, without="mine") != before
    with SQLiteSystem(path, tables=watched) as second:
        second.restore_baseline(pieces)
        assert dumped(path, without="mine") == before
        assert second.observe().digest == seen
        token = second.checkpoint("initial")
        with closing(sqlite3.connect(path)) as app:
            app.executescript(SQL_CHANGES)
        second.rollback(token)
        assert dumped(path, without="mine") == before
    assert not any("_clew" in line for line in dumped(path))
    rows = 1 if changes is SQL_CHANGES else 0  # a changed schema is undone by the whole file
    with closing(sqlite3.connect(path)) as app:
        assert len(app.execute("SELECT v FROM mine").fetchall()) == rows + 1
    first.close()


def test_a_database_in_memory_comes_back_in_a_new_process() -> None:
    with SQLiteSystem(":memory:") as first:
        first.connection.executescript("CREATE TABLE t (v); INSERT INTO t VALUES (1), ('1')")
        pieces, seen = kept(first), first.observe().digest
    with SQLiteSystem(":memory:") as second:
        assert second.restore_baseline(pieces)
        assert second.observe().digest == seen
        assert second.connection.execute("SELECT v FROM t").fetchall() == [(1,), ("1",)]


def test_a_checkpoint_further_on_can_be_kept_and_one_that_was_left_cannot(path: Path) -> None:
    with SQLiteSystem(path) as system, closing(sqlite3.connect(path, isolation_level=None)) as app:
        early = system.checkpoint("early")
        app.execute("INSERT INTO mine VALUES (5)")
        late, then = system.checkpoint("late"), dumped(path)
        pieces = list(system.save_baseline(late))
        with pytest.raises(CheckpointError, match="changed since the checkpoint"):
            system.save_baseline(early)
        app.execute("DELETE FROM mine")
        with pytest.raises(CheckpointError, match="changed since the checkpoint"):
            system.save_baseline(late)
        system.restore_baseline(pieces)
        assert dumped(path) == then
        system.rollback(early)
        assert app.execute("SELECT * FROM mine").fetchall() == []


WATCHES = """
import sys, time
from clew.explore.systems import FileSystem, RedisSystem, SQLiteSystem
system = {"sqlite": SQLiteSystem, "files": FileSystem, "redis": RedisSystem}[sys.argv[1]](sys.argv[2])
list(system.save_baseline(system.checkpoint("initial")))
print("ready", flush=True)
time.sleep(600)
"""


@pytest.fixture
def watching() -> Iterator[Any]:
    """Another process that explores a place."""
    started: list[subprocess.Popen[str]] = []

    def watch(kind: str, place: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", WATCHES, kind, place]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        assert started[-1].stdout is not None
        assert started[-1].stdout.readline() == "ready\n"
        return started[-1]

    yield watch
    for process in started:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def test_a_file_that_a_living_process_explores_is_left_alone(path: Path, watching: Any) -> None:
    process = watching("sqlite", str(path))
    with SQLiteSystem(path) as system:
        with pytest.raises(SystemSetupError, match=f"process {process.pid} is exploring this file"):
            system.observe()
        with closing(sqlite3.connect(path)) as app:
            assert app.execute("SELECT count(*) FROM _clew_owner").fetchone() == (1,)
        process.send_signal(signal.SIGKILL)
        process.wait()
        system.observe()


def test_what_is_of_another_file_is_left_alone(path: Path) -> None:
    other = path.with_name("other.sqlite")
    for each in (path.with_name("one.sqlite"), other):
        with closing(sqlite3.connect(each)) as app:
            app.executescript(f"CREATE TABLE t (v); INSERT INTO t VALUES ('{each.name}')")
    with SQLiteSystem(path.with_name("one.sqlite")) as one:
        pieces = kept(one)
    with SQLiteSystem(other) as system:
        assert system.restore_baseline(pieces) is False
    with closing(sqlite3.connect(other)) as app:
        assert app.execute("SELECT v FROM t").fetchall() == [("other.sqlite",)]


@pytest.mark.parametrize("kind", ["sqlite", "files"])
def test_what_a_killed_process_left_on_disk_is_taken_away_by_the_next(
    kind: str, path: Path, watching: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, scratch = path.parent / "place", path.parent / "scratch"
    scratch.mkdir()
    place.mkdir()
    (place / "file").write_text("content")
    monkeypatch.setenv("TMPDIR", str(scratch))
    monkeypatch.setattr("tempfile.tempdir", None)
    process = watching(kind, str(path if kind == "sqlite" else place))
    (left,) = scratch.glob(f"clew-{kind}-*")
    FileSystem(place).close()
    SQLiteSystem(path).close()
    assert left.exists()  # its process lives
    process.send_signal(signal.SIGKILL)
    process.wait()
    FileSystem(place).close()
    SQLiteSystem(path).close()
    assert list(scratch.iterdir()) == []


# -- directories ------------------------------------------------------------------------------------------------------


def tree(place: Path) -> dict[bytes, Any]:
    found = {}
    for folder, folders, files in os.walk(os.fsencode(place)):
        for name in folders + files:
            path = os.path.join(folder, name)
            status = os.lstat(path)
            content: Any = os.readlink(path) if os.path.islink(path) else None
            if content is None and os.path.isfile(path):
                content = Path(os.fsdecode(path)).read_bytes()
            found[path] = (oct(status.st_mode), status.st_mtime_ns, content)
    return found


def test_a_whole_directory_comes_back(tmp_path: Path) -> None:
    place = tmp_path / "place"
    (place / "a" / "b").mkdir(parents=True)
    (place / "a" / "b" / "large").write_bytes(os.urandom(3 << 20))
    (place / "a" / "empty").touch()
    (place / "a" / "same").write_text("twice")
    (place / "a" / "again").write_text("twice")
    (place / "link").symlink_to("nowhere")
    Path(os.fsdecode(os.fsencode(place) + b"/\\xff\\xfe")).write_text("a name that is no text")
    (place / "a" / "same").chmod(0o400)
    before = tree(place)
    first = FileSystem(place)
    pieces, seen = kept(first), first.observe().digest
    first.release_baseline()
    (place / "a" / "b" / "large").write_bytes(b"")
    (place / "a" / "empty").unlink()
    (place / "a" / "empty").mkdir()
    (place / "a" / "again").unlink()
    (place / "link").unlink()
    (place / "new").mkdir(mode=0o500)
    with FileSystem(place) as second:
        second.restore_baseline(pieces)
        assert tree(place) == before
        assert second.observe().digest == seen
        second.restore_baseline(pieces)
        assert tree(place) == before
    first.close()


def test_a_directory_that_a_living_process_explores_is_left_alone(tmp_path: Path, watching: Any) -> None:
    process = watching("files", str(tmp_path))
    with FileSystem(tmp_path) as system:
        with pytest.raises(SystemSetupError, match="another FileSystem"):
            system.restore_baseline([msgspec.msgpack.encode((os.fsencode(tmp_path),))])
        token = system.checkpoint("initial")
        with pytest.raises(SystemSetupError, match="another FileSystem"):
            system.save_baseline(token)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert list(system.save_baseline(token))


def test_what_is_of_another_directory_is_left_alone(tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    with FileSystem(tmp_path / "one") as one, FileSystem(tmp_path / "other") as other:
        pieces = kept(one)
        assert other.restore_baseline(pieces) is False
        assert one.restore_baseline(pieces) is True
    assert (tmp_path / "other" / "file").read_text() == "other"


# -- Redis ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def client(redis_server: RedisServer) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(redis_server.url) as made:
        made.flushall()
        yield made


def keys(client: redis.Redis) -> dict[bytes, Any]:
    return {key: (client.dump(key), client.ttl(key) > 900) for key in client.scan_iter()}


def test_all_that_redis_can_hold_comes_back(redis_server: RedisServer, client: redis.Redis) -> None:
    client.mset({b"\\x00\\xff": b"binary", "changed": "1", "deleted": "1", "large": os.urandom(2 << 20)})
    client.set("expires", "1", ex=1000)
    client.set("will expire", "1")
    client.rpush("list", *range(1000))
    client.xadd("stream", {"a": "1"})
    before = keys(client)
    first = RedisSystem(redis_server.url)
    pieces, seen = kept(first), first.observe().digest
    assert len(pieces) > 1
    first.close()
    client.delete("deleted", "list")
    client.set("changed", "2")
    client.set("came", "1")
    client.persist("expires")
    client.expire("will expire", 1000)
    client.xadd("stream", {"a": "2"})
    with RedisSystem(redis_server.url) as second:
        second.restore_baseline(pieces)
        assert keys(client) == before
        assert second.observe().digest == seen
        token = second.checkpoint("initial")
        client.flushdb()
        second.rollback(token)
        assert keys(client) == before
        client.flushdb()
        second.restore_baseline(pieces)
        assert second.observe().digest == seen
    with RedisSystem(f"{redis_server.url}?db=1") as other:
        assert other.restore_baseline(pieces) is False
        assert other.observe().data == {}


def test_the_servers_setting_is_left_as_the_killed_process_had_found_it(
    redis_server: RedisServer, client: redis.Redis
) -> None:
    def setting() -> str:
        return client.config_get("notify-keyspace-events")["notify-keyspace-events"]

    before = setting()
    first = RedisSystem(redis_server.url)
    pieces = kept(first)
    first._connection.flags = None  # so that closing leaves it, as a kill would
    first.close()
    assert setting() != before
    with RedisSystem(redis_server.url) as second:
        second.restore_baseline(pieces)
        assert setting() != before
    assert setting() == before


def test_a_database_that_a_living_process_explores_is_left_alone(
    redis_server: RedisServer, client: redis.Redis, watching: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.set("a", "1")
    process = watching("redis", redis_server.url)
    with RedisSystem(redis_server.url) as system, RedisSystem(f"{redis_server.url}?db=1") as other:
        assert list(
            other.save_baseline(other.checkpoint("initial"))
        )  # another database is another's business
        with monkeypatch.context() as patch:
            patch.setattr("clew.explore.systems.redis.connection._CLAIM_TIMEOUT", 0.0)
            with pytest.raises(SystemSetupError, match="another RedisSystem"):
                system.restore_baseline([msgspec.msgpack.encode((system._connection.identity, None))])
        assert client.get("a") == b"1"
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert list(system.save_baseline(system.checkpoint("initial")))
