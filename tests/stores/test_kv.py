"""Shelves: one suite over memory, SQLite and PostgreSQL; then what is each one's own."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest

from clew.errors import (
    StoreConflictError,
    StoreCorruptError,
    StoreError,
    StoreUnavailableError,
    StoreVersionError,
)
from clew.stores import MemoryStore, PostgresStore, SQLiteStore
from clew.stores.factory import open_table
from clew.stores.kv import KeyValueTable, behind
from clew.stores.postgres.kv import PostgresKeyValueTable
from clew.stores.sqlite.kv import SQLiteKeyValueTable
from tests.stores.servers import PostgresServer

Opener = Callable[..., KeyValueTable]


@pytest.fixture(params=["memory", "memory store", "sqlite", "sqlite store", "postgres store"])
def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opener]:
    """Opens shelves of one place; all are closed at the end."""
    place: Any
    if request.param == "memory":
        place = MemoryStore()  # one without a store cannot be opened twice
    elif request.param == "memory store":
        place = MemoryStore()
    elif request.param == "sqlite":
        place = tmp_path / "shelf.db"
    elif request.param == "sqlite store":
        place = SQLiteStore(tmp_path / "store.db")
    else:
        server = request.getfixturevalue("server")
        place = PostgresStore(server.dsn, schema=f"t_{token_hex(6)}")
    opened: list[KeyValueTable] = []

    def open_one(name: str = "one") -> KeyValueTable:
        opened.append(open_table(place, name))
        return opened[-1]

    yield open_one
    for shelf in opened:
        shelf.close()
    if hasattr(place, "close"):
        place.close()


@pytest.fixture
def shelf(opener: Opener) -> KeyValueTable:
    return opener()


class TestTheSuite:
    def test_what_was_written_is_read(self, shelf: KeyValueTable) -> None:
        shelf.write([("a", b"1"), ("b", b""), ("c", b"\0\xff" * 5_000)])
        assert shelf.read("a") == b"1"
        assert shelf.read("b") == b""
        assert shelf.read("c") == b"\0\xff" * 5_000
        assert shelf.read("d") is None

    def test_a_key_is_overwritten_and_taken_away(self, shelf: KeyValueTable) -> None:
        shelf.write([("a", b"1"), ("b", b"2")])
        shelf.write([("a", b"3"), ("b", None), ("never there", None)])
        assert dict(shelf.scan()) == {"a": b"3"}

    def test_a_key_that_is_named_twice_has_its_last_value(self, shelf: KeyValueTable) -> None:
        shelf.write([("a", b"1"), ("b", b"1"), ("a", b"2"), ("b", None)])
        assert list(shelf.scan()) == [("a", b"2")]

    def test_many_at_once(self, shelf: KeyValueTable) -> None:
        shelf.write((f"{n:04}", str(n).encode()) for n in range(1_500))
        wanted = [f"{n:04}" for n in range(0, 3_000, 2)]
        assert shelf.read_many(wanted) == {f"{n:04}": str(n).encode() for n in range(0, 1_500, 2)}
        assert shelf.read_many([]) == {}

    KEYS = ("", "a", "a\n", "a b", "aa", "b", "z", "ä", "\ud7ff", "\ue000", "\uffff", "😀", "\U0010ffff")

    def test_keys_come_in_the_order_of_their_code_points(self, shelf: KeyValueTable) -> None:
        shelf.write([(key, key.encode()) for key in reversed(self.KEYS)])
        assert [key for key, _ in shelf.scan()] == list(self.KEYS) == sorted(self.KEYS)
        assert all(value == key.encode() for key, value in shelf.scan())

    @pytest.mark.parametrize("prefix", ["", "a", "a\n", "\ud7ff", "\U0010ffff", "nothing", "b\U0010ffff"])
    def test_a_prefix_an_after_and_a_limit(self, shelf: KeyValueTable, prefix: str) -> None:
        keys = [*self.KEYS, "b\U0010ffff\U0010ffff", "b\U0010ffffx"]
        shelf.write([(key, b"") for key in keys])
        fitting = sorted(key for key in keys if key.startswith(prefix))
        assert [key for key, _ in shelf.scan(prefix)] == fitting
        assert shelf.count(prefix) == len(fitting)
        for after in ("", "a", "aa", "b", "ä", "zz", "\U0010ffff"):
            rest = [key for key in fitting if key > after]
            assert [key for key, _ in shelf.scan(prefix, after=after)] == rest
            assert [key for key, _ in shelf.scan(prefix, after=after, limit=2)] == rest[:2]
        assert list(shelf.scan(prefix, limit=0)) == []

    def test_a_scan_over_several_pages(self, shelf: KeyValueTable) -> None:
        keys = [f"k{n:05}" for n in range(1_200)]
        shelf.write([(key, b"v") for key in keys])
        assert [key for key, _ in shelf.scan("k")] == keys
        assert [key for key, _ in shelf.scan("k", limit=700)] == keys[:700]
        assert shelf.count() == 1_200

    def test_long_keys_are_kept_and_sorted(self, shelf: KeyValueTable) -> None:
        stem = "ä" * 249
        keys = sorted([stem, stem + "a", stem + "ab", *(stem + "ab" + c * 3_000 for c in "az😀"), "ö"])
        shelf.write([(key, str(n).encode()) for n, key in enumerate(keys)])
        assert [key for key, _ in shelf.scan()] == keys
        assert [key for key, _ in shelf.scan(stem + "ab")] == keys[2:-1]
        assert [key for key, _ in shelf.scan(after=keys[3])] == keys[4:]
        assert shelf.count(stem + "abz") == 1
        assert shelf.read(keys[4]) == b"4"
        shelf.write([(keys[4], None)])
        assert shelf.read_many(keys) == {key: str(n).encode() for n, key in enumerate(keys) if n != 4}

    def test_shelves_do_not_see_each_other(self, opener: Opener) -> None:
        one, two = opener("one"), opener("two")
        one.write([("a", b"1")])
        before = one.stamp()
        two.write([("a", b"2"), ("b", b"2")])
        assert (one.read("a"), two.read("a")) == (b"1", b"2")
        assert [key for key, _ in one.scan()] == ["a"]
        assert one.count() == 1
        assert one.stamp() == before

    def test_the_same_name_is_the_same_shelf(self, opener: Opener) -> None:
        one, again = opener(), opener()
        one.write([("a", b"1")])
        assert again.read("a") == b"1"

    def test_the_stamp_changes_with_every_write(self, opener: Opener) -> None:
        one, again = opener(), opener()
        stamps = [one.stamp()]
        for shelf in (one, again, again, one):
            stamps.append(shelf.write([("a", b"1")]))
            assert one.stamp() == again.stamp() == stamps[-1]
        assert len(set(stamps)) == 5

    def test_a_write_that_expects_another_stamp_is_refused_whole(self, opener: Opener) -> None:
        one, again = opener(), opener()
        seen = one.stamp()
        now = again.write([("a", b"theirs")], expect=seen)
        with pytest.raises(StoreConflictError, match="'one' was changed by another writer"):
            one.write([("a", b"mine"), ("b", b"mine")], expect=seen)
        assert dict(one.scan()) == {"a": b"theirs"}
        one.write([("a", None), ("b", b"mine")], expect=now)
        assert dict(again.scan()) == {"b": b"mine"}

    @pytest.mark.parametrize("key", ["a\0b", "half \ud800", 5])
    def test_a_key_that_cannot_be_kept_is_refused(self, shelf: KeyValueTable, key: Any) -> None:
        with pytest.raises(StoreError, match="key of a key-value table"):
            shelf.write([("a", b"1"), (key, b"2")])
        assert list(shelf.scan()) == []

    def test_threads(self, opener: Opener) -> None:
        shelf = opener()

        def work(number: int) -> None:
            for n in range(20):
                shelf.write([(f"{number}/{n}", b"x")])
                assert shelf.read(f"{number}/{n}") == b"x"

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert shelf.count() == 80

    def test_closing_twice_is_no_error(self, opener: Opener) -> None:
        shelf = opener()
        shelf.close()
        shelf.close()

    def test_it_says_what_it_is(self, shelf: KeyValueTable) -> None:
        assert "'one'" in repr(shelf)
        assert shelf.name == "one"


class TestOpening:
    def test_without_a_store_each_is_new(self) -> None:
        one, other = open_table(None, "s"), open_table(None, "s")
        one.write([("a", b"1")])
        assert other.read("a") is None

    @pytest.mark.parametrize("name", ["", 5, "a\0"])
    def test_a_name_is_text(self, name: Any) -> None:
        with pytest.raises(StoreError):
            open_table(None, name)

    def test_something_else_is_no_place(self) -> None:
        with pytest.raises(StoreError, match=r"expected None, a path.*got 3"):
            open_table(3, "s")

    @pytest.mark.parametrize("path", ["", ":memory:"])
    def test_memory_is_no_file(self, path: str) -> None:
        with pytest.raises(StoreError, match="is no file"):
            open_table(path, "s")

    def test_by_an_address(self, server: PostgresServer) -> None:
        name = token_hex(6)
        address = f"postgresql:///postgres?host={server.folder}&user=postgres"
        one = open_table(address, name)
        one.write([("a", b"1")])
        one.close()
        with pytest.raises(StoreError, match="closed"):
            one.read("a")
        again = open_table(address, name)
        assert again.read("a") == b"1"
        again.close()

    def test_behind_everything_is_nothing(self) -> None:
        assert behind("") is behind("\U0010ffff") is None
        assert behind("a\U0010ffff") == "b"


class TestSQLite:
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        return tmp_path / "shelf.db"

    def test_it_is_there_after_the_process(self, path: Path) -> None:
        shelf = open_table(path, "s")
        shelf.write([("a", b"1")])
        shelf.close()
        with pytest.raises(StoreError, match="is closed"):
            shelf.read("a")
        again = open_table(path, "s")
        assert again.read("a") == b"1"
        again.close()

    def test_a_store_without_shelves_has_no_tables_for_them(self, path: Path) -> None:
        SQLiteStore(path).close()
        with sqlite3.connect(path) as db:
            tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
        db.close()
        assert not {name for name in tables if name.startswith("shel")}

    def test_a_newer_format_is_refused(self, path: Path) -> None:
        open_table(path, "s").close()
        with sqlite3.connect(path) as db:
            db.execute("UPDATE shelves SET format = 7")
        db.close()
        with pytest.raises(StoreVersionError, match=r"newer Clew \(format 7"):
            open_table(path, "s")
        open_table(path, "other").close()

    def test_a_folder_that_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(StoreUnavailableError, match="is its folder there"):
            open_table(tmp_path / "nowhere" / "x.db", "s")

    def test_a_file_that_is_no_database(self, path: Path) -> None:
        path.write_text("Dear diary, " * 500)
        with pytest.raises(StoreCorruptError, match="not a database"):
            open_table(path, "s")

    def test_a_full_disk_loses_nothing(self, path: Path) -> None:
        shelf = SQLiteKeyValueTable(path, "s")
        shelf.write([("a", b"1")])
        pages = shelf._db.execute("PRAGMA page_count").fetchone()[0]
        shelf._db.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(StoreUnavailableError, match=r"shelf 's'.*full.*nothing is lost"):
            shelf.write([("b", b"x" * 100_000), ("c", b"1")])
        assert dict(shelf.scan()) == {"a": b"1"}
        shelf._db.execute("PRAGMA max_page_count = 1000000")
        shelf.write([("b", b"x" * 100_000)], expect=shelf.stamp())
        shelf.close()

    def test_a_file_that_may_only_be_read(self, path: Path) -> None:
        shelf = SQLiteKeyValueTable(path, "s")
        shelf._db.execute("PRAGMA query_only = on")
        with pytest.raises(StoreUnavailableError, match="right to write"):
            shelf.write([("a", b"1")])
        assert shelf.read("a") is None
        shelf.close()

    def test_a_writer_that_does_not_end(self, path: Path) -> None:
        shelf = SQLiteKeyValueTable(path, "s", timeout=0.0)
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailableError, match="locked"):
            shelf.write([("a", b"1")])
        other.execute("ROLLBACK")
        shelf.write([("a", b"1")])
        other.close()
        shelf.close()

    def test_a_flipped_bit_is_found_and_named(self, path: Path) -> None:
        shelf = open_table(path, "s")
        shelf.write([("sound", b"all is well"), ("hurt", b"something is wrong here")])
        shelf.close()
        data = bytearray(path.read_bytes())
        data[data.index(b"something is wrong")] ^= 1
        path.write_bytes(data)
        shelf = open_table(path, "s")
        for read in (
            lambda: shelf.read("hurt"),
            lambda: shelf.read_many(["hurt"]),
            lambda: list(shelf.scan()),
        ):
            with pytest.raises(StoreCorruptError, match="'hurt' is damaged"):
                read()
        assert shelf.read("sound") == b"all is well"
        assert [key for key, _ in shelf.scan(check=False)] == ["hurt", "sound"]
        shelf.close()

    @pytest.mark.parametrize("address", ["mysql://host/db", "sqlite:///some.db"])
    def test_an_address_is_no_file(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str
    ) -> None:
        monkeypatch.chdir(tmp_path)
        with pytest.raises(StoreError, match="expected None, a path"):
            open_table(address, "s")
        assert list(tmp_path.iterdir()) == []

    def test_a_shelf_that_was_taken_out(self, path: Path) -> None:
        shelf = SQLiteKeyValueTable(path, "s")
        shelf._db.execute("DELETE FROM shelves")
        with pytest.raises(StoreCorruptError, match="taken out"):
            shelf.stamp()
        shelf.close()

    def test_a_damaged_directory_of_shelves(self, path: Path) -> None:
        open_table(path, "s").close()
        with sqlite3.connect(path) as db:
            db.execute("ALTER TABLE shelves RENAME COLUMN format TO fromat")
        db.close()
        with pytest.raises(StoreUnavailableError, match="no such column"):
            open_table(path, "s")

    def test_a_forked_process_has_a_connection_of_its_own(self, path: Path) -> None:
        shelf = open_table(path, "s")
        shelf.write([("parent", b"1")])
        pid = os.fork()
        if pid == 0:
            try:
                sound = shelf.read("parent") == b"1"
                shelf.write([("child", b"2")])
                shelf.close()
            finally:
                os._exit(0 if sound else 1)
        assert os.waitpid(pid, 0)[1] == 0
        assert shelf.read("child") == b"2"
        shelf.close()

    def test_a_forked_process_that_only_closes_leaves_the_parents_alone(self, path: Path) -> None:
        shelf = open_table(path, "s")
        pid = os.fork()
        if pid == 0:
            shelf.close()
            os._exit(0)
        os.waitpid(pid, 0)
        shelf.write([("a", b"1")])
        shelf.close()

    def test_a_killed_writer_leaves_whole_writes(self, path: Path) -> None:
        """Each write has three keys with one number; whatever the kill cuts, they never differ."""
        program = (
            "import sys\nfrom clew.stores.factory import open_table\n"
            f"shelf = open_table({str(path)!r}, 's')\n"
            "n = 0\n"
            "while True:\n"
            "    n += 1\n"
            "    shelf.write([(k, str(n).encode() * 500) for k in 'abc'])\n"
            "    print(n, flush=True)\n"
        )
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        process = subprocess.Popen(
            [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env=env
        )
        assert process.stdout is not None
        for line in process.stdout:
            told = int(line)
            if told == 50:
                process.kill()
        process.stdout.close()
        process.wait()
        shelf = open_table(path, "s")
        values = set(shelf.read_many("abc").values())
        assert len(values) == 1
        (value,) = values
        assert value in (str(told).encode() * 500, str(told + 1).encode() * 500)
        shelf.close()


class TestPostgres:
    @pytest.fixture
    def store(self, server: PostgresServer) -> Iterator[PostgresStore]:
        store = PostgresStore(server.dsn, schema=f"t_{token_hex(6)}")
        yield store
        store.close()

    def test_closing_a_shelf_leaves_the_store_open(self, store: PostgresStore) -> None:
        shelf = open_table(store, "s")
        shelf.close()
        assert store.rows() == []

    def test_a_newer_format_is_refused(self, store: PostgresStore) -> None:
        open_table(store, "s")
        store._link.change("", "UPDATE shelves SET format = %s", (7,))
        with pytest.raises(StoreVersionError, match=r"newer Clew \(format 7"):
            open_table(store, "s")

    def test_a_shelf_that_was_taken_out(self, store: PostgresStore) -> None:
        shelf = open_table(store, "s")
        store._link.change("", "DELETE FROM shelves", ())
        with pytest.raises(StoreCorruptError, match="taken out"):
            shelf.stamp()

    def test_a_write_whose_answer_was_lost_is_made_once(self, store: PostgresStore) -> None:
        """The connection breaks after the server has done the write: the repetition takes it for its own."""
        shelf = open_table(store, "s")
        assert isinstance(shelf, PostgresKeyValueTable)
        link, run = store._link, store._link.run
        lost: list[int] = []

        def losing(what: str, work: Any) -> Any:
            def twice(cursor: Any, again: bool) -> Any:
                answer = work(cursor, again)
                if not lost:
                    lost.append(1)
                    return work(cursor, True)
                return answer

            return run(what, twice)

        before = shelf.stamp()
        link.run = losing  # type: ignore[method-assign]
        stamp = shelf.write([("a", b"1")], expect=before)
        link.run = run  # type: ignore[method-assign]
        assert lost
        assert stamp == before + 1 == shelf.stamp()

    def test_tables_that_two_make_at_once(self, server: PostgresServer) -> None:
        schema = f"t_{token_hex(6)}"
        stores = [PostgresStore(server.dsn, schema=schema) for _ in range(4)]
        shelves: list[KeyValueTable] = []
        threads = [
            threading.Thread(target=lambda store=store: shelves.append(open_table(store, "s")))
            for store in stores
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(shelves) == 4
        shelves[0].write([("a", b"1")])
        assert shelves[3].read("a") == b"1"
        for store in stores:
            store.close()
