"""What is SQLite's own: the file, its format, room on the disk, damage. The rest is in test_conformance."""

from __future__ import annotations

import gc
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import pytest

from clew.errors import (
    RunExistsError,
    RunOwnedError,
    StoreCorruptError,
    StoreError,
    StoreUnavailableError,
    StoreVersionError,
)
from clew.stores import LogEntry, RunRow, SQLiteStore
from clew.stores.sqlite import file as sqlite_file
from tests.stores.processes import Process, step


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


@pytest.fixture
def store(path: Path) -> Iterator[SQLiteStore]:
    store = SQLiteStore(path)
    yield store
    store.close()


def _owned(store: SQLiteStore, run_id: str = "r") -> int:
    store.create(RunRow(run_id))
    return store.claim(run_id, "me", lease=30.0)


class TestOpening:
    @pytest.mark.parametrize("synchronous, level", [("off", 0), ("normal", 1), ("full", 2)])
    def test_it_writes_ahead_and_syncs_as_told(self, path: Path, synchronous: str, level: int) -> None:
        store = SQLiteStore(path, synchronous=synchronous)
        assert store._db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert store._db.execute("PRAGMA synchronous").fetchone() == (level,)
        store.close()

    def test_normal_is_the_default(self, store: SQLiteStore) -> None:
        assert store._db.execute("PRAGMA synchronous").fetchone() == (1,)

    def test_other_words_are_refused(self, path: Path) -> None:
        with pytest.raises(StoreError, match="synchronous"):
            SQLiteStore(path, synchronous="extra")
        assert not path.exists()

    @pytest.mark.parametrize("name", [":memory:", ""])
    def test_memory_is_no_file(self, name: str) -> None:
        with pytest.raises(StoreError, match="MemoryStore"):
            SQLiteStore(name)

    def test_a_folder_that_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(StoreUnavailableError, match="its folder"):
            SQLiteStore(tmp_path / "nowhere" / "runs.db")

    def test_an_empty_file_becomes_a_store(self, path: Path) -> None:
        path.touch()
        SQLiteStore(path).close()

    def test_a_file_of_another_program_is_refused_and_left_alone(self, path: Path) -> None:
        db = sqlite3.connect(path)
        db.execute("CREATE TABLE theirs (x)")
        db.commit()
        db.close()
        before = path.read_bytes()
        with pytest.raises(StoreError, match="another program"):
            SQLiteStore(path)
        assert path.read_bytes() == before

    def test_a_view_in_place_of_a_table_is_refused(self, path: Path) -> None:
        SQLiteStore(path).close()
        db = sqlite3.connect(path)
        db.execute("CREATE VIEW own AS SELECT run_id FROM runs")  # a view of the user is not in the way
        db.commit()
        SQLiteStore(path).close()
        db.execute("DROP TABLE threads")
        db.execute(
            "CREATE VIEW threads AS WITH RECURSIVE t(name, head) AS "
            "(SELECT 'a', 'b' UNION ALL SELECT name || 'x', head FROM t LIMIT 100000000) SELECT * FROM t"
        )
        db.commit()
        db.close()
        with pytest.raises(StoreCorruptError):
            SQLiteStore(path)

    def test_a_file_that_is_no_database_is_refused_and_left_alone(self, path: Path) -> None:
        path.write_text("Dear diary, " * 1000)
        with pytest.raises(StoreCorruptError, match="not a database"):
            SQLiteStore(path)
        assert path.read_text().startswith("Dear diary")

    def test_a_newer_format_is_refused(self, path: Path) -> None:
        SQLiteStore(path).close()
        db = sqlite3.connect(path)
        db.execute("PRAGMA user_version = 99")
        db.close()
        with pytest.raises(StoreVersionError, match="format 99"):
            SQLiteStore(path)

    def test_an_older_format_is_brought_up_to_date(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        old = SQLiteStore(path)
        fence = _owned(old)
        old.append("r", [step(1)], fence)
        old.close()
        later = (*sqlite_file.MIGRATIONS, "CREATE TABLE extra (x); CREATE INDEX extra_x ON extra (x)")
        monkeypatch.setattr(sqlite_file, "MIGRATIONS", later)
        new = SQLiteStore(path)
        newest = sqlite_file.OLDEST + len(later) - 1
        assert new._db.execute("PRAGMA user_version").fetchone() == (newest,)
        assert new._db.execute("SELECT count(*) FROM extra").fetchone() == (0,)
        assert list(new.entries("r")) == [step(1)]
        new.close()
        monkeypatch.undo()
        with pytest.raises(StoreVersionError):
            SQLiteStore(path)

    @pytest.mark.parametrize("version", range(1, sqlite_file.OLDEST))
    def test_an_older_format_is_refused_by_its_number_and_left_as_it_is(
        self, path: Path, version: int
    ) -> None:
        with closing(sqlite3.connect(path)) as db:
            db.execute("CREATE TABLE runs (run_id TEXT)")
            db.execute(f"PRAGMA application_id = {sqlite_file.APPLICATION_ID}")
            db.execute(f"PRAGMA user_version = {version}")
            db.commit()
        before = path.read_bytes()
        with pytest.raises(StoreVersionError, match=f"format {version}"):
            SQLiteStore(path)
        assert path.read_bytes() == before

    def test_a_migration_that_fails_changes_nothing(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        SQLiteStore(path).close()
        monkeypatch.setattr(
            sqlite_file, "MIGRATIONS", (*sqlite_file.MIGRATIONS, "CREATE TABLE a (x); CREATE nonsense")
        )
        with pytest.raises(StoreUnavailableError):
            SQLiteStore(path)
        monkeypatch.undo()
        store = SQLiteStore(path)
        assert store._db.execute("SELECT name FROM sqlite_master WHERE name = 'a'").fetchone() is None
        store.close()

    def test_a_store_that_nobody_closed_lets_go(self, path: Path) -> None:
        _owned(SQLiteStore(path))
        gc.collect()
        store = SQLiteStore(path)
        store.claim("r", "other", lease=30.0)
        store.close()

    def test_it_says_what_it_is(self, store: SQLiteStore, path: Path) -> None:
        assert repr(store) == f"SQLiteStore('{path}')"


class TestNoRoom:
    def test_a_full_disk_loses_nothing(self, path: Path) -> None:
        """A process may write no more to its files, as if the disk were full; then it may again."""
        with Process(str(path)) as owner:
            owner.do("create", "r")
            fence = owner.do("claim", "r", "me")
            assert owner.do("append", "r", 1, fence) is None
            owner.do("limit", 100_000)
            answers = []
            while "StoreUnavailableError" not in answers:
                answers.append(owner.do("append", "r", len(answers) + 2, fence, 5_000))
                assert len(answers) < 100
            reached = len(answers)
            assert answers[:-1] == [None] * (reached - 1)
            assert owner.do("append two", "r", reached + 1, fence, 5_000) == "StoreUnavailableError"
            assert owner.do("steps", "r") == list(range(1, reached + 1))
            owner.do("limit", None)
            assert owner.do("append", "r", reached + 1, fence, 5_000) is None
            assert owner.do("append two", "r", reached + 2, fence) is None
        store = SQLiteStore(path)
        assert [entry.n for entry in store.entries("r")] == list(range(1, reached + 4))
        assert list(store.check()) == []
        store.close()

    def test_a_file_that_may_grow_no_more(self, store: SQLiteStore, path: Path) -> None:
        fence = _owned(store)
        pages = store._db.execute("PRAGMA page_count").fetchone()[0]
        store._db.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(StoreUnavailableError, match=r"run 'r'.*full.*nothing is lost"):
            store.append("r", [step(1, b"x" * 100_000)], fence)
        with pytest.raises(StoreUnavailableError, match="full"):
            store.append("r", [step(1, b"x" * 100_000), step(2)], fence)
        assert list(store.entries("r")) == []
        store._db.execute("PRAGMA max_page_count = 1000000")
        store.append("r", [step(1, b"x" * 100_000)], fence)
        assert len(store.entries("r")) == 1

    def test_a_file_that_may_only_be_read(self, store: SQLiteStore) -> None:
        fence = _owned(store)
        store._db.execute("PRAGMA query_only = on")
        with pytest.raises(StoreUnavailableError, match="writable"):
            store.append("r", [step(1)], fence)
        with pytest.raises(StoreUnavailableError):
            store.append("r", [step(1), step(2)], fence)
        assert store.row("r").status == "running"
        store._db.execute("PRAGMA query_only = off")
        store.append("r", [step(1)], fence)

    def test_a_folder_that_may_only_be_read(self, path: Path) -> None:
        folder = Path(tempfile.mkdtemp())  # pytest's own folders may not even be entered by others
        SQLiteStore(folder / "runs.db").close()
        for file in (*folder.iterdir(), folder):
            file.chmod(0o555)
        with Process(str(path)) as other:
            other.do("become nobody")
            assert other.do("open", str(folder / "runs.db")) == "StoreUnavailableError"
        folder.chmod(0o755)
        shutil.rmtree(folder)

    def test_a_folder_that_may_not_be_written_is_named(self) -> None:
        folder = Path(tempfile.mkdtemp())
        SQLiteStore(folder / "runs.db").close()
        (folder / "runs.db").chmod(0o666)
        folder.chmod(0o555)
        program = (
            "import os, sys, urllib.parse\n"  # the standard library may be unreadable for another user
            "from clew import SQLiteStore\n"
            "from clew.errors import StoreUnavailableError\n"
            "from clew.stores import RunRow\n"
            "if os.geteuid() == 0:\n"
            "    os.setgid(65534), os.setuid(65534)\n"
            "for name in ('new.db', 'runs.db'):\n"
            "    try:\n"
            "        SQLiteStore(os.path.join(sys.argv[1], name)).create(RunRow('r'))\n"
            "    except StoreUnavailableError as error:\n"
            "        print(f'the folder {sys.argv[1]} is not writable' in str(error))\n"
        )
        command = [sys.executable, "-c", program, str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        folder.chmod(0o755)
        shutil.rmtree(folder)
        assert (done.stdout.split(), done.stderr) == (["True", "True"], "")

    def test_a_writer_that_does_not_end(self, path: Path) -> None:
        store = SQLiteStore(path, timeout=0.0)
        fence = _owned(store)
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailableError, match="locked"):
            store.append("r", [step(1)], fence)
        with pytest.raises(StoreUnavailableError, match="locked"):
            store.append("r", [step(1), step(2)], fence)
        assert list(store.entries("r")) == []
        other.execute("ROLLBACK")
        store.append("r", [step(1)], fence)
        other.close()
        store.close()


class TestDamage:
    @pytest.fixture
    def runs(self, path: Path) -> dict[str, list[LogEntry]]:
        """Two runs whose logs fill some pages each."""
        store = SQLiteStore(path)
        logs = {}
        for run_id in ("sound", "hurt"):
            fence = _owned(store, run_id)
            steps = [step(n, f"{run_id} step {n} ".encode() * 20) for n in range(1, 101)]
            calls = [
                LogEntry("call", f"p{n}", 0, f"{run_id} call {n} ".encode() * 20, b"d") for n in range(10)
            ]
            store.append(run_id, [*calls, *steps], fence)
            logs[run_id] = list(store.entries(run_id))
        store.close()
        return logs

    @pytest.mark.parametrize("where, named", [("step 57 ", "step 57"), ("call 3 ", "call p3 0")])
    def test_a_flipped_bit_is_found_and_named(
        self, path: Path, runs: dict[str, list[LogEntry]], where: str, named: str
    ) -> None:
        data = bytearray(path.read_bytes())
        data[data.index(f"hurt {where}".encode()) + 9] ^= 1
        path.write_bytes(data)
        store = SQLiteStore(path)
        with pytest.raises(StoreCorruptError, match=f"run 'hurt': {named} is damaged"):
            store.entries("hurt")
        assert list(store.entries("sound")) == runs["sound"]
        assert [row.run_id for row in store.rows()] == ["sound", "hurt"]
        assert store.entries("hurt", after=60) if named.startswith("step") else store.find("hurt", "step", "")
        assert [line for line in store.check() if "hurt" in line and named in line]
        store.close()

    def test_a_page_of_rubbish_is_found_and_named(self, path: Path, runs: dict[str, list[LogEntry]]) -> None:
        data = bytearray(path.read_bytes())
        at = data.index(b"hurt step 57 ") // 4096 * 4096
        data[at : at + 4096] = b"\xaa" * 4096
        path.write_bytes(data)
        store = SQLiteStore(path)
        with pytest.raises(StoreCorruptError, match=r"run 'hurt'.*damaged"):
            store.entries("hurt")
        assert list(store.entries("sound")) == runs["sound"]
        assert list(store.check())
        store.close()

    @pytest.mark.parametrize(
        "damage",
        [
            "UPDATE workers SET info = ''",
            "UPDATE workers SET info = '[]'",
            "UPDATE workers SET info = x'ff'",
            "UPDATE workers SET label = x'ff'",
            "UPDATE workers SET started = 'x'",
            "UPDATE queue SET queue = x'00'",
            "UPDATE queue SET due = 'x'",
            "UPDATE queue SET priority = 'x'",
        ],
    )
    def test_a_damaged_row_of_a_worker_or_the_queue_is_reported(self, path: Path, damage: str) -> None:
        store = SQLiteStore(path)
        store.enqueue("r", _owned(store), status="queued")
        with closing(sqlite3.connect(path)) as db, db:
            assert db.execute(damage).rowcount == 1
        assert len(list(store.check())) == 1
        with pytest.raises(StoreCorruptError):
            store.workers() if "workers" in damage else store.queues()
        if "queue" in damage:
            with pytest.raises(StoreCorruptError):
                store.entry("r")
            assert not store.take("other", structures=[""], queues=["default"], limit=9, lease=30.0)
        store.close()

    def test_a_damaged_content_is_found_and_named(self, path: Path) -> None:
        content = b"large content " * 10_000
        digest = sha256(content).hexdigest()
        store = SQLiteStore(path)
        store.create(RunRow("r"), {digest: content})
        store.close()
        data = bytearray(path.read_bytes())
        data[data.index(b"large content large") + 3] ^= 1
        path.write_bytes(data)
        store = SQLiteStore(path)
        with pytest.raises(StoreCorruptError, match=f"{digest[:12]}… is damaged"):
            store.blob(digest)
        assert [line for line in store.check() if digest[:12] in line]
        store.close()

    def test_a_file_cut_short(self, path: Path, runs: dict[str, list[LogEntry]]) -> None:
        with path.open("r+b") as file:
            file.truncate(path.stat().st_size // 4096 // 2 * 4096)
        with pytest.raises(StoreCorruptError, match="is damaged"):
            SQLiteStore(path)


def test_a_step_costs_little_beyond_its_body(path: Path) -> None:
    store = SQLiteStore(path)
    fence = _owned(store)
    store.close()
    before = path.stat().st_size
    store = SQLiteStore(path)
    for n in range(1, 2_001):
        store.append("r", [LogEntry("step", "", n, os.urandom(150), os.urandom(32))], fence)
    store.close()
    assert (path.stat().st_size - before) / 2_000 - 150 < 70


def test_a_lease_is_renewed_without_writing_the_start_again(path: Path) -> None:
    store = SQLiteStore(path)
    store.create(RunRow("r", start=b"s" * 1_000_000))
    store.claim("r", "me", lease=30.0)
    store._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    store.renew("me", lease=30.0)
    assert Path(f"{path}-wal").stat().st_size < 20_000
    store.close()


WRITES = """
import os, sys
from clew.stores import LogEntry, RunRow, SQLiteStore

def done(what):
    os.write(2, f"did {what};".encode())

store = SQLiteStore(sys.argv[1], synchronous=sys.argv[2])
store.create(RunRow("first"))  # a log that begins is waited for, whoever writes it
done("open")
more = {"owner": "me", "lease": 30.0}
fence = store.create(RunRow("r"), wait=False, **more)
done("create, not waited for")
store.sync()
done("sync")
store.append("r", [LogEntry("step", "", 1, b"{}")], fence, wait=False)
done("append, not waited for")
store.append("r", [LogEntry("step", "", 2, b"{}")], fence)
done("append")
store.create(RunRow("s"))
done("create")
store.append("r", [LogEntry("step", "", 3, b"{}"), LogEntry("step", "", 4, b"{}")], fence, wait=False)
store.update("r", status="completed", updated=1.0, error=None, fence=fence, release=True)
done("end")
"""


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace to see what reaches the disk")
@pytest.mark.parametrize("synchronous, waits", [("full", 1), ("normal", 0)])
def test_how_often_a_write_waits_for_the_disk(path: Path, synchronous: str, waits: int) -> None:
    SQLiteStore(path).close()
    trace = path.parent / "trace"
    command = [
        "strace",
        "-f",
        "-e",
        "trace=fsync,fdatasync,write",
        "-o",
        str(trace),
        sys.executable,
        "-c",
        WRITES,
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    subprocess.run([*command, str(path), synchronous], check=True, env=environment, stderr=subprocess.DEVNULL)
    found, syncs = {}, 0
    for line in trace.read_text().splitlines():
        syncs += "sync(" in line
        if '"did ' in line:
            found[line.split('"did ')[1].split(";")[0]] = syncs
            syncs = 0
    del found["open"]
    assert found == {
        "create, not waited for": 0,
        "sync": waits,
        "append, not waited for": 0,
        "append": waits,
        "create": waits,
        "end": waits,
    }


def test_a_file_that_waits_for_the_disk_goes_on_doing_so(path: Path) -> None:
    """Also after a write that did not, and was refused."""
    store = SQLiteStore(path, synchronous="full")
    store.create(RunRow("r"), wait=False)
    with pytest.raises(RunExistsError):
        store.create(RunRow("r"), wait=False)
    assert store._db.execute("PRAGMA synchronous").fetchone() == (2,)
    store.close()


def test_a_refused_append_of_another_owner_names_the_run(store: SQLiteStore) -> None:
    fence = _owned(store, "nightly")
    store.release("nightly", fence)
    store.claim("nightly", "me", lease=30.0)
    with pytest.raises(RunOwnedError, match="run 'nightly' now belongs to another owner"):
        store.append("nightly", [step(1)], fence)


class Abandoned:
    """An object of a reference cycle that uses the store when it is collected, as an abandoned stream does."""

    def __init__(self, store: SQLiteStore, fence: int) -> None:
        self.me, self.store, self.fence = self, store, fence

    def __del__(self) -> None:
        self.store.append("other", [step(1)], self.fence)
        self.store.append("other", [step(2), step(3)], self.fence)
        self.store.release("other", self.fence)


@pytest.mark.parametrize("is_write", [False, True])
def test_a_collection_inside_a_transaction_may_use_the_store(store: SQLiteStore, is_write: bool) -> None:
    fence = _owned(store, "other")
    Abandoned(store, fence)
    with store._lock, store._writing("outer") if is_write else store._reading("outer") as db:
        assert db.execute("SELECT count(*) FROM runs").fetchone() == (1,)
        gc.collect()
        assert db.in_transaction
    assert not store._db.in_transaction
    assert [entry.n for entry in store.entries("other")] == [1, 2, 3]
    assert store.owner("other") is None
