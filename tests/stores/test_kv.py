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
    """Opens tables of one place; all are closed at the end."""
    place: Any
    if request.param == "memory":
        place = MemoryStore()  # one without a store cannot be opened twice
    elif request.param == "memory store":
        place = MemoryStore()
    elif request.param == "sqlite":
        place = tmp_path / "table.db"
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
    for table in opened:
        table.close()
    if hasattr(place, "close"):
        place.close()


@pytest.fixture
def table(opener: Opener) -> KeyValueTable:
    return opener()


class TestTheSuite:
    def test_what_was_written_is_read(self, table: KeyValueTable) -> None:
        table.write([("a", b"1"), ("b", b""), ("c", b"\0\xff" * 5_000)])
        assert table.read("a") == b"1"
        assert table.read("b") == b""
        assert table.read("c") == b"\0\xff" * 5_000
        assert table.read("d") is None

    def test_a_key_is_overwritten_and_taken_away(self, table: KeyValueTable) -> None:
        table.write([("a", b"1"), ("b", b"2")])
        table.write([("a", b"3"), ("b", None), ("never there", None)])
        assert dict(table.scan()) == {"a": b"3"}

    def test_a_key_that_is_named_twice_has_its_last_value(self, table: KeyValueTable) -> None:
        table.write([("a", b"1"), ("b", b"1"), ("a", b"2"), ("b", None)])
        assert list(table.scan()) == [("a", b"2")]

    def test_many_at_once(self, table: KeyValueTable) -> None:
        table.write((f"{n:04}", str(n).encode()) for n in range(1_500))
        wanted = [f"{n:04}" for n in range(0, 3_000, 2)]
        assert table.read_many(wanted) == {f"{n:04}": str(n).encode() for n in range(0, 1_500, 2)}
        assert table.read_many([]) == {}

    KEYS = ("", "a", "a\n", "a b", "aa", "b", "z", "ä", "\ud7ff", "\ue000", "\uffff", "😀", "\U0010ffff")

    def test_keys_come_in_the_order_of_their_code_points(self, table: KeyValueTable) -> None:
        table.write([(key, key.encode()) for key in reversed(self.KEYS)])
        assert [key for key, _ in table.scan()] == list(self.KEYS) == sorted(self.KEYS)
        assert all(value == key.encode() for key, value in table.scan())

    @pytest.mark.parametrize("prefix", ["", "a", "a\n", "\ud7ff", "\U0010ffff", "nothing", "b\U0010ffff"])
    def test_a_prefix_an_after_and_a_limit(self, table: KeyValueTable, prefix: str) -> None:
        keys = [*self.KEYS, "b\U0010ffff\U0010ffff", "b\U0010ffffx"]
        table.write([(key, b"") for key in keys])
        fitting = sorted(key for key in keys if key.startswith(prefix))
        assert [key for key, _ in table.scan(prefix)] == fitting
        assert table.count(prefix) == len(fitting)
        for after in ("", "a", "aa", "b", "ä", "zz", "\U0010ffff"):
            rest = [key for key in fitting if key > after]
            assert [key for key, _ in table.scan(prefix, after=after)] == rest
            assert [key for key, _ in table.scan(prefix, after=after, limit=2)] == rest[:2]
        assert list(table.scan(prefix, limit=0)) == []

    def test_a_scan_over_several_pages(self, table: KeyValueTable) -> None:
        keys = [f"k{n:05}" for n in range(1_200)]
        table.write([(key, b"v") for key in keys])
        assert [key for key, _ in table.scan("k")] == keys
        assert [key for key, _ in table.scan("k", limit=700)] == keys[:700]
        assert table.count() == 1_200

    def test_long_keys_are_kept_and_sorted(self, table: KeyValueTable) -> None:
        stem = "ä" * 249
        keys = sorted([stem, stem + "a", stem + "ab", *(stem + "ab" + c * 3_000 for c in "az😀"), "ö"])
        table.write([(key, str(n).encode()) for n, key in enumerate(keys)])
        assert [key for key, _ in table.scan()] == keys
        assert [key for key, _ in table.scan(stem + "ab")] == keys[2:-1]
        assert [key for key, _ in table.scan(after=keys[3])] == keys[4:]
        assert table.count(stem + "abz") == 1
        assert table.read(keys[4]) == b"4"
        table.write([(keys[4], None)])
        assert table.read_many(keys) == {key: str(n).encode() for n, key in enumerate(keys) if n != 4}

    def test_tables_do_not_see_each_other(self, opener: Opener) -> None:
        one, two = opener("one"), opener("two")
        one.write([("a", b"1")])
        before = one.version()
        two.write([("a", b"2"), ("b", b"2")])
        assert (one.read("a"), two.read("a")) == (b"1", b"2")
        assert [key for key, _ in one.scan()] == ["a"]
        assert one.count() == 1
        assert one.version() == before

    def test_the_same_name_is_the_same_table(self, opener: Opener) -> None:
        one, again = opener(), opener()
        one.write([("a", b"1")])
        assert again.read("a") == b"1"

    def test_the_version_changes_with_every_write(self, opener: Opener) -> None:
        one, again = opener(), opener()
        versions = [one.version()]
        for table in (one, again, again, one):
            versions.append(table.write([("a", b"1")]))
            assert one.version() == again.version() == versions[-1]
        assert len(set(versions)) == 5

    def test_a_write_that_expects_another_version_is_refused_whole(self, opener: Opener) -> None:
        one, again = opener(), opener()
        seen = one.version()
        now = again.write([("a", b"theirs")], expect=seen)
        with pytest.raises(StoreConflictError, match="'one' was changed by another writer"):
            one.write([("a", b"mine"), ("b", b"mine")], expect=seen)
        assert dict(one.scan()) == {"a": b"theirs"}
        one.write([("a", None), ("b", b"mine")], expect=now)
        assert dict(again.scan()) == {"b": b"mine"}

    @pytest.mark.parametrize("key", ["a\0b", "half \ud800", 5])
    def test_a_key_that_cannot_be_kept_is_refused(self, table: KeyValueTable, key: Any) -> None:
        with pytest.raises(StoreError, match="key of a key-value table"):
            table.write([("a", b"1"), (key, b"2")])
        assert list(table.scan()) == []

    def test_threads(self, opener: Opener) -> None:
        table = opener()

        def work(number: int) -> None:
            for n in range(20):
                table.write([(f"{number}/{n}", b"x")])
                assert table.read(f"{number}/{n}") == b"x"

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert table.count() == 80

    def test_closing_twice_is_no_error(self, opener: Opener) -> None:
        table = opener()
        table.close()
        table.close()

    def test_it_says_what_it_is(self, table: KeyValueTable) -> None:
        assert "'one'" in repr(table)
        assert table.name == "one"


class TestOpening:
    def test_without_a_store_each_is_new(self) -> None:
        one, other = open_table(None, "s"), open_table(None, "s")
        one.write([("a", b"1")])
        assert other.read("a") is None

    @pytest.mark.parametrize("name", ["", 5, "a\0"])
    def test_a_name_is_text(self, name: Any) -> None:
        with pytest.raises(StoreError):
            open_table(None, name)

    def test_other_objects_cannot_hold_a_table(self) -> None:
        with pytest.raises(StoreError, match=r"expected None, a path.*got 3"):
            open_table(3, "s")

    @pytest.mark.parametrize("path", ["", ":memory:"])
    def test_memory_is_not_a_file(self, path: str) -> None:
        with pytest.raises(StoreError, match="is not a file"):
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

    def test_some_prefixes_have_no_behind(self) -> None:
        assert behind("") is behind("\U0010ffff") is None
        assert behind("a\U0010ffff") == "b"


class TestSQLite:
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        return tmp_path / "table.db"

    def test_it_is_there_after_the_process(self, path: Path) -> None:
        table = open_table(path, "s")
        table.write([("a", b"1")])
        table.close()
        with pytest.raises(StoreError, match="is closed"):
            table.read("a")
        again = open_table(path, "s")
        assert again.read("a") == b"1"
        again.close()

    def test_a_store_without_key_value_tables_has_no_sql_tables_for_them(self, path: Path) -> None:
        SQLiteStore(path).close()
        with sqlite3.connect(path) as db:
            tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
        db.close()
        assert not {name for name in tables if name.startswith("kv_")}

    @pytest.mark.parametrize("version", [2, 7])
    def test_another_format_is_refused(self, path: Path, version: int) -> None:
        open_table(path, "s").close()
        with sqlite3.connect(path) as db:
            db.execute("UPDATE kv_tables SET format = ?", (version,))
        db.close()
        with pytest.raises(StoreVersionError, match=f"format {version}"):
            open_table(path, "s")
        open_table(path, "other").close()

    def test_a_folder_that_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(StoreUnavailableError, match="its folder"):
            open_table(tmp_path / "nowhere" / "x.db", "s")

    def test_a_file_that_is_no_database(self, path: Path) -> None:
        path.write_text("Dear diary, " * 500)
        with pytest.raises(StoreCorruptError, match="not a database"):
            open_table(path, "s")

    def test_a_full_disk_loses_nothing(self, path: Path) -> None:
        table = SQLiteKeyValueTable(path, "s")
        table.write([("a", b"1")])
        pages = table._db.execute("PRAGMA page_count").fetchone()[0]
        table._db.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(StoreUnavailableError, match=r"table 's'.*full.*nothing is lost"):
            table.write([("b", b"x" * 100_000), ("c", b"1")])
        assert dict(table.scan()) == {"a": b"1"}
        table._db.execute("PRAGMA max_page_count = 1000000")
        table.write([("b", b"x" * 100_000)], expect=table.version())
        table.close()

    def test_a_file_that_may_only_be_read(self, path: Path) -> None:
        table = SQLiteKeyValueTable(path, "s")
        table._db.execute("PRAGMA query_only = on")
        with pytest.raises(StoreUnavailableError, match="writable"):
            table.write([("a", b"1")])
        assert table.read("a") is None
        table.close()

    def test_a_writer_that_does_not_end(self, path: Path) -> None:
        table = SQLiteKeyValueTable(path, "s", timeout=0.0)
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailableError, match="locked"):
            table.write([("a", b"1")])
        other.execute("ROLLBACK")
        table.write([("a", b"1")])
        other.close()
        table.close()

    def test_a_flipped_bit_is_found_and_named(self, path: Path) -> None:
        table = open_table(path, "s")
        table.write([("sound", b"all is well"), ("hurt", b"something is wrong here")])
        table.close()
        data = bytearray(path.read_bytes())
        data[data.index(b"something is wrong")] ^= 1
        path.write_bytes(data)
        table = open_table(path, "s")
        for read in (
            lambda: table.read("hurt"),
            lambda: table.read_many(["hurt"]),
            lambda: list(table.scan()),
        ):
            with pytest.raises(StoreCorruptError, match="'hurt' is damaged"):
                read()
        assert table.read("sound") == b"all is well"
        assert [key for key, _ in table.scan(check=False)] == ["hurt", "sound"]
        table.close()

    @pytest.mark.parametrize("address", ["mysql://host/db", "sqlite:///some.db"])
    def test_an_address_is_no_file(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str
    ) -> None:
        monkeypatch.chdir(tmp_path)
        with pytest.raises(StoreError, match="expected None, a path"):
            open_table(address, "s")
        assert list(tmp_path.iterdir()) == []

    def test_a_table_that_was_deleted(self, path: Path) -> None:
        table = SQLiteKeyValueTable(path, "s")
        table._db.execute("DELETE FROM kv_tables")
        with pytest.raises(StoreCorruptError, match="deleted"):
            table.version()
        table.close()

    def test_damaged_sql_tables(self, path: Path) -> None:
        open_table(path, "s").close()
        with sqlite3.connect(path) as db:
            db.execute("ALTER TABLE kv_tables RENAME COLUMN format TO fromat")
        db.close()
        with pytest.raises(StoreUnavailableError, match="no such column"):
            open_table(path, "s")

    def test_a_forked_process_has_a_connection_of_its_own(self, path: Path) -> None:
        table = open_table(path, "s")
        table.write([("parent", b"1")])
        pid = os.fork()
        if pid == 0:
            try:
                sound = table.read("parent") == b"1"
                table.write([("child", b"2")])
                table.close()
            finally:
                os._exit(0 if sound else 1)
        assert os.waitpid(pid, 0)[1] == 0
        assert table.read("child") == b"2"
        table.close()

    def test_a_forked_process_that_only_closes_leaves_the_parents_alone(self, path: Path) -> None:
        table = open_table(path, "s")
        pid = os.fork()
        if pid == 0:
            table.close()
            os._exit(0)
        os.waitpid(pid, 0)
        table.write([("a", b"1")])
        table.close()

    def test_a_killed_writer_leaves_whole_writes(self, path: Path) -> None:
        """Each write has three keys with one number; whatever the kill cuts, they never differ."""
        program = (
            "import sys\nfrom clew.stores.factory import open_table\n"
            f"table = open_table({str(path)!r}, 's')\n"
            "n = 0\n"
            "while True:\n"
            "    n += 1\n"
            "    table.write([(k, str(n).encode() * 500) for k in 'abc'])\n"
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
        table = open_table(path, "s")
        values = set(table.read_many("abc").values())
        assert len(values) == 1
        (value,) = values
        assert value in (str(told).encode() * 500, str(told + 1).encode() * 500)
        table.close()


class TestPostgres:
    @pytest.fixture
    def store(self, server: PostgresServer) -> Iterator[PostgresStore]:
        store = PostgresStore(server.dsn, schema=f"t_{token_hex(6)}")
        yield store
        store.close()

    def test_closing_a_table_leaves_the_store_open(self, store: PostgresStore) -> None:
        table = open_table(store, "s")
        table.close()
        assert store.rows() == []

    @pytest.mark.parametrize("version", [2, 7])
    def test_another_format_is_refused(self, store: PostgresStore, version: int) -> None:
        open_table(store, "s")
        store._link.change("", "UPDATE @.kv_tables SET format = %s", (version,))
        with pytest.raises(StoreVersionError, match=f"format {version}"):
            open_table(store, "s")

    def test_a_table_that_was_deleted(self, store: PostgresStore) -> None:
        table = open_table(store, "s")
        store._link.change("", "DELETE FROM @.kv_tables", ())
        with pytest.raises(StoreCorruptError, match="deleted"):
            table.version()

    def test_a_write_whose_answer_was_lost_is_made_once(self, store: PostgresStore) -> None:
        """The connection breaks after the server has done the write: the repetition takes it for its own."""
        table = open_table(store, "s")
        assert isinstance(table, PostgresKeyValueTable)
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

        before = table.version()
        link.run = losing
        version = table.write([("a", b"1")], expect=before)
        link.run = run
        assert lost
        assert version == before + 1 == table.version()

    def test_tables_that_two_make_at_once(self, server: PostgresServer) -> None:
        schema = f"t_{token_hex(6)}"
        stores = [PostgresStore(server.dsn, schema=schema) for _ in range(4)]
        tables: list[KeyValueTable] = []
        threads = [
            threading.Thread(target=lambda store=store: tables.append(open_table(store, "s")))
            for store in stores
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(tables) == 4
        tables[0].write([("a", b"1")])
        assert tables[3].read("a") == b"1"
        for store in stores:
            store.close()
