"""Large values of key-value tables: files next to a SQLite file, in parts everywhere."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from clew import Engine, Graph, node
from clew.errors import StoreConflictError, StoreCorruptError, StoreUnavailableError
from clew.stores import SQLiteStore, Store
from clew.stores.factory import open_table
from clew.stores.kv import KeyValueTable
from clew.stores.sqlite.blobs import LARGEST, BlobFolder
from tests.store_fixtures import every_store

store = every_store

LARGE = os.urandom(LARGEST + 1)
LARGER = os.urandom(LARGEST + 2)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tables.db"


def files(path: Path) -> list[str]:
    folder = Path(f"{path}-blobs")
    return sorted(file.name for file in folder.iterdir()) if folder.exists() else []


def test_large_values_and_parts_are_bytes_in_every_store(store: Store) -> None:
    table = open_table(store, "t")
    table.write([("a", [b"1", b"", b"23"]), ("b", [LARGE[:10], LARGE[10:]]), ("c", LARGER), ("d", b"small")])
    expected = {"a": b"123", "b": LARGE, "c": LARGER, "d": b"small"}
    assert dict(table.scan()) == expected
    assert {key: table.read(key) for key in expected} == expected
    assert table.read_many(["b", "c", "none"]) == {"b": LARGE, "c": LARGER}
    assert [key for key, _ in table.scan(check=False)] == list(expected)
    table.close()


def test_only_large_values_are_files_and_go_with_their_rows(path: Path) -> None:
    table = open_table(path, "t")
    table.write([("small", LARGE[:LARGEST])])
    assert files(path) == []
    table.write([("a", LARGE), ("b", LARGE)])
    first = files(path)
    assert len(first) == 2
    assert path.stat().st_size < 2 * LARGEST
    table.write([("a", LARGER)])
    assert len(files(path)) == 2
    assert files(path) != first
    table.write([("a", b"small again"), ("b", None)])
    assert files(path) == []
    assert dict(table.scan()) == {"a": b"small again", "small": LARGE[:LARGEST]}
    table.close()


def test_a_conflict_writes_no_file(path: Path) -> None:
    table = open_table(path, "t")
    version = table.write([("a", LARGE)])
    known = files(path)
    with pytest.raises(StoreConflictError):
        table.write([("a", LARGER), ("b", LARGER)], expect=version - 1)
    assert files(path) == known
    assert table.read("a") == LARGE
    table.close()


def test_a_full_disk_leaves_no_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = open_table(path, "t")
    table.write([("a", LARGE)])
    known = files(path)
    write = BlobFolder.write

    def full(self: BlobFolder, name: str, *parts: bytes) -> None:
        write(self, name, *parts)
        raise StoreUnavailableError("full")

    monkeypatch.setattr(BlobFolder, "write", full)
    with pytest.raises(StoreUnavailableError):
        table.write([("a", LARGER)])
    assert files(path) == known
    assert table.read("a") == LARGE
    table.close()


KILLED = """
import os, signal, sys
from clew.stores.factory import open_table
from clew.stores.sqlite.blobs import BlobFolder
table = open_table(sys.argv[1], "t")
write = BlobFolder.write
def die(self, name, *parts):
    write(self, name, *parts)
    os.kill(os.getpid(), signal.SIGKILL)
BlobFolder.write = die
table.write([("a", b"x" * 2_000_000)])
"""


def test_a_killed_writer_leaves_a_file_that_the_next_one_removes(path: Path) -> None:
    table = open_table(path, "t")
    table.write([("a", LARGE)])
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False, timeout=120)
    assert done.returncode < 0
    assert len(files(path)) == 2
    assert table.read("a") == LARGE
    table.close()
    again = open_table(path, "other")
    again.write([("b", LARGER)])
    assert len(files(path)) == 2
    table = open_table(path, "t")
    assert (table.read("a"), again.read("b")) == (LARGE, LARGER)
    table.close()
    again.close()


def test_a_damaged_or_missing_file_is_named(path: Path) -> None:
    table = open_table(path, "t")
    table.write([("hurt", LARGE), ("sound", b"1")])
    (name,) = files(path)
    file = Path(f"{path}-blobs") / name
    file.write_bytes(LARGE[:-1])
    for read in (lambda: table.read("hurt"), lambda: table.read_many(["hurt"]), lambda: list(table.scan())):
        with pytest.raises(StoreCorruptError, match="hurt"):
            read()
    file.unlink()
    with pytest.raises(StoreCorruptError, match="hurt"):
        table.read("hurt")
    assert [key for key, _ in table.scan(check=False)] == ["hurt", "sound"]
    table.write([("hurt", LARGER)])
    assert table.read("hurt") == LARGER
    table.close()


def test_a_reader_whose_file_was_replaced_reads_the_new_one(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, other = open_table(path, "t"), open_table(path, "t")
    table.write([("a", LARGE)])
    read = BlobFolder.read

    def late(self: BlobFolder, name: str) -> bytes | None:
        monkeypatch.setattr(BlobFolder, "read", read)
        other.write([("a", LARGER)])
        return read(self, name)

    monkeypatch.setattr(BlobFolder, "read", late)
    assert table.read("a") == LARGER
    rows = table.scan()
    other.write([("a", None)])
    assert list(rows) == []
    table.close()
    other.close()


def test_runs_and_tables_share_the_folder(path: Path) -> None:
    @node(output="big")
    def make(x: int) -> bytes:
        return LARGE

    store = SQLiteStore(path)
    table: KeyValueTable = open_table(store, "t")
    engine = Engine(Graph([make]), store=store)
    engine.run({"x": 1}, run_id="r")
    table.write([("a", LARGER)])
    assert len(files(path)) == 2
    assert engine.result("r")["big"] == LARGE
    engine.delete("r")
    assert len(files(path)) == 1
    assert table.read("a") == LARGER
    table.close()
    engine.close()


def test_a_row_that_names_a_file_elsewhere_removes_nothing(path: Path) -> None:
    table = open_table(path, "t")
    table.write([("a", LARGE)])
    other = path.with_name("other.txt")
    other.write_text("mine")
    with sqlite3.connect(path) as db:
        db.execute("UPDATE kv_rows SET value = '../other.txt'")
    db.close()
    with pytest.raises(StoreCorruptError):
        table.read("a")
    table.write([("a", b"replaced")])
    table.close()
    assert other.read_text() == "mine"
