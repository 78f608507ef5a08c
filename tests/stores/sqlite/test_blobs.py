"""Large values of a SQLite store: files next to the database, complete whenever a row refers to them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from clew import Engine, Graph, SQLiteStore, node
from clew.errors import StoreCorruptError, StoreUnavailableError
from clew.stores.sqlite.blobs import LARGEST

BIG = bytes(range(256)) * 8192  # 2 MiB
MEDIUM = bytes(range(256)) * 4096  # exactly as much as fits in the database


@node(output="big")
def make(seed: int) -> bytes:
    return BIG + b"%d" % seed


@node(output="medium")
def shrink(big: bytes) -> bytes:
    return big[:LARGEST]


GRAPH = Graph([make, shrink])


def name(content: bytes) -> str:
    return sha256(content).hexdigest()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SQLiteStore]:
    store = SQLiteStore(tmp_path / "runs.db")
    yield store
    store.close()


def files(store: SQLiteStore) -> set[str]:
    folder = Path(f"{store.path}-blobs")
    return set(os.listdir(folder)) if folder.exists() else set()


def test_only_blobs_of_more_than_a_mebibyte_are_files(store: SQLiteStore) -> None:
    Engine(GRAPH, store=store).run({"seed": 1}, run_id="r")
    assert files(store) == {name(BIG + b"1")}
    assert (Path(f"{store.path}-blobs") / name(BIG + b"1")).read_bytes() == BIG + b"1"
    assert store.blob(name(BIG + b"1")) == BIG + b"1"
    assert store.blob(name(MEDIUM)) == MEDIUM
    assert store.path.stat().st_size + Path(f"{store.path}-wal").stat().st_size < 2 * len(BIG)
    assert list(store.check()) == []


def test_no_folder_without_a_large_value(store: SQLiteStore) -> None:
    Engine(Graph([shrink]), store=store).run({"big": b"1"})
    assert not Path(f"{store.path}-blobs").exists()


def test_a_file_lives_as_long_as_a_run_uses_it(store: SQLiteStore) -> None:
    engine = Engine(GRAPH, store=store)
    for run_id, seed in ("r", 1), ("s", 1), ("t", 2):
        engine.run({"seed": seed}, run_id=run_id)
    engine.delete("r")
    assert files(store) == {name(BIG + b"1"), name(BIG + b"2")}
    assert engine.state("s").values["big"] == BIG + b"1"
    engine.delete("s")
    assert files(store) == {name(BIG + b"2")}
    engine.prune(keep=0)
    assert files(store) == set()
    engine.run({"seed": 1}, run_id="r")
    assert engine.state("r").values["big"] == BIG + b"1"


def test_a_missing_or_damaged_file_is_found(store: SQLiteStore) -> None:
    engine = Engine(GRAPH, store=store)
    engine.run({"seed": 1}, run_id="r")
    file = Path(f"{store.path}-blobs") / name(BIG + b"1")
    file.write_bytes(BIG + b"2")
    with pytest.raises(StoreCorruptError):
        engine.state("r")
    assert len(list(store.check())) == 1
    file.unlink()
    with pytest.raises(StoreCorruptError, match="missing"):
        engine.state("r")
    assert len(list(store.check())) == 1
    engine.run({"seed": 1}, run_id="s")  # writes it again
    assert engine.state("r").values["big"] == BIG + b"1"
    assert list(store.check()) == []


def test_a_digest_that_is_a_path_is_not_read(store: SQLiteStore, tmp_path: Path) -> None:
    Engine(GRAPH, store=store).run({"seed": 1}, run_id="r")
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    store._db.execute("INSERT INTO blobs (digest, run, body) VALUES ('../secret', 0, NULL)")
    assert store._folder.read("../secret") is None
    assert store._folder.read(name(BIG + b"1")) is not None


def test_a_symbolic_link_to_the_database_finds_the_files(store: SQLiteStore, tmp_path: Path) -> None:
    Engine(GRAPH, store=store).run({"seed": 1}, run_id="r")
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "elsewhere" / "link.db"
    link.symlink_to(store.path)
    other = SQLiteStore(link)
    assert Engine(GRAPH, store=other).state("r").values["big"] == BIG + b"1"
    other.close()


def test_permissions_are_those_of_the_database(store: SQLiteStore) -> None:
    store.path.chmod(0o600)
    Engine(GRAPH, store=store).run({"seed": 1})
    folder = Path(f"{store.path}-blobs")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in folder.iterdir()} == {0o600}


def test_a_full_disk_stops_the_run_and_loses_nothing(
    store: SQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: Any) -> None:
        raise OSError(28, "No space left on device")

    engine = Engine(GRAPH, store=store)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(StoreUnavailableError, match="free disk space"):
            engine.run({"seed": 1}, run_id="r")
    assert list(store.check()) == []
    assert engine.resume("r")["big"] == BIG + b"1"
    assert files(store) == {name(BIG + b"1")}


def test_a_file_is_removed_only_after_the_deletion_is_on_the_disk(
    store: SQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With synchronous="normal", a power failure may undo a commit. The file must exist then."""
    engine = Engine(GRAPH, store=store)
    engine.run({"seed": 1}, run_id="r")
    synced: list[tuple[str, int]] = []
    real = os.fsync
    monkeypatch.setattr(
        os,
        "fsync",
        lambda fd: (
            synced.append((os.path.basename(os.readlink(f"/proc/self/fd/{fd}")), len(files(store)))),
            real(fd),
        ),
    )
    engine.delete("r")
    assert synced == [("runs.db-wal", 1)]
    assert files(store) == set()


def test_a_deletion_inside_another_transaction_keeps_the_file(store: SQLiteStore) -> None:
    engine = Engine(GRAPH, store=store)
    engine.run({"seed": 1}, run_id="r")

    def delete_as_a_finalizer_would() -> None:
        with store._lock, store._writing("test"):
            store.delete("r")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        delete_as_a_finalizer_would()
    assert engine.state("r").values["big"] == BIG + b"1"


# -- kills -----------------------------------------------------------------------------------------------------------

PROGRAM = """
import os, sqlite3, sys
from pathlib import Path
from clew import Engine, SQLiteStore
from tests.stores.sqlite import test_blobs
import clew.stores.sqlite.blobs as blobs

path, point = sys.argv[1:]
store = SQLiteStore(path)
engine = Engine(test_blobs.GRAPH, store=store)
engine.run({"seed": 1}, run_id="before")

def kill(*args, **kwargs):
    os.kill(os.getpid(), 9)

def after(function):
    def call(*args, **kwargs):
        function(*args, **kwargs)
        kill()
    return call

if point == "while writing":
    os.fsync = lambda descriptor: (os.ftruncate(descriptor, 1000), kill())
elif point == "before syncing":
    os.fsync = kill
elif point == "after syncing":
    os.fsync = after(os.fsync)
elif point == "before the commit":
    put = blobs.put_blobs
    import clew.stores.sqlite.store as module
    def put_and_die(db, folder, number, found):
        put(db, folder, number, found)
        if any(len(content) > blobs.LARGEST for content in found.values()):
            kill()
    module.put_blobs = put_and_die
elif point == "before removing":
    blobs.BlobFolder.sweep = kill
elif point == "while removing":
    Path.unlink = after(Path.unlink)
if "removing" in point:
    engine.delete("before")
else:
    engine.run({"seed": 2}, run_id="r")
"""

POINTS = [
    "while writing",
    "before syncing",
    "after syncing",
    "before the commit",
    "before removing",
    "while removing",
]


@pytest.mark.parametrize("point", POINTS)
def test_a_kill_leaves_everything_readable(tmp_path: Path, point: str) -> None:
    path = tmp_path / "runs.db"
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(path), point], timeout=300, check=False)
    assert done.returncode == -signal.SIGKILL
    store = SQLiteStore(path)
    assert list(store.check()) == []
    engine = Engine(GRAPH, store=store)
    if "removing" in point:
        assert store.rows() == []
    else:
        assert engine.state("before").values["big"] == BIG + b"1"
        assert engine.resume("r")["big"] == BIG + b"2"
    engine.run({"seed": 3}, run_id="last")
    assert engine.state("last").values["big"] == BIG + b"3"
    engine.prune(keep=0)
    assert files(store) == set()
    store.close()


WRITER = """
import sys
from clew import Engine, SQLiteStore
from tests.stores.sqlite import test_blobs
engine = Engine(test_blobs.GRAPH, store=SQLiteStore(sys.argv[1]))
for number in range(1000):
    engine.run({"seed": number % 7}, run_id=f"{sys.argv[2]}-{number}")
    if number % 3 == 2:
        engine.delete(f"{sys.argv[2]}-{number - 1}")
    print(number, flush=True)
"""


@pytest.mark.parametrize("lines", [1, 4, 7])
def test_two_writers_that_are_killed_at_any_time(tmp_path: Path, lines: int) -> None:
    path = tmp_path / "runs.db"
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(path), name], stdout=subprocess.PIPE)
        for name in ("a", "b")
    ]
    for writer in writers:
        assert writer.stdout is not None
        for _ in range(lines):
            assert writer.stdout.readline()
    for writer in writers:
        writer.kill()
        writer.communicate()
    store = SQLiteStore(path)
    assert list(store.check()) == []
    engine = Engine(GRAPH, store=store)
    completed = [row.run_id for row in store.rows("completed")]
    assert len(completed) >= lines
    for run_id in completed:
        state = engine.state(run_id)
        assert state.values["big"] == BIG + b"%d" % state.values["seed"]
    for row in store.rows():
        if row.status != "completed":
            assert engine.resume(row.run_id).status == "completed"
    engine.prune(keep=0)
    assert files(store) == set()
    store.close()
