"""The locks of a SQLite file's owners, and the clock of their leases."""

from __future__ import annotations

import os
import shutil
import sqlite3
import warnings
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from clew import Engine, Graph, node
from clew.errors import RunOwnedError, StoreError, UnknownRunError
from clew.stores import RunRow, SQLiteStore, lease_clock
from clew.stores.sqlite import owner_lock
from clew.stores.sqlite.owner_lock import OwnerLock, is_alive
from clew.testing import VirtualClock
from tests.stores.processes import Process, step


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


def owned(path: Path, lease: float = 3600.0) -> tuple[SQLiteStore, int]:
    store = SQLiteStore(path)
    store.create(RunRow("r"))
    return store, store.claim("r", "me", lease=lease)


def lock_files(path: Path) -> list[Path]:
    return sorted(path.parent.glob(f"{path.name}-owner-*"))


def refused_elsewhere(path: Path) -> bool:
    """Whether another process is refused the run."""
    with Process(str(path)) as other:
        return bool(other.do("claim", "r", "other") == "RunOwnedError")


def in_a_child(question: Callable[[], bool]) -> bool:
    """What a forked process answers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # other threads do not touch what it does
        child = os.fork()
    if child == 0:
        code = 2
        try:
            code = 0 if question() else 1
        finally:
            os._exit(code)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, 1)
    return status == 0


def open_files(folder: Path) -> list[str]:
    """The files in a folder that this process has open."""
    names = []
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            names.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        except OSError:
            continue
    return sorted(name for name in names if name.startswith(str(folder)))


class TestLock:
    def test_it_is_held_until_it_is_closed(self, path: Path) -> None:
        lock = OwnerLock(path)
        assert is_alive(path, lock.slot)
        assert in_a_child(lambda: is_alive(path, lock.slot))
        lock.close()
        lock.close()
        assert not is_alive(path, lock.slot)

    def test_two_names_of_a_file_are_one_file(self, tmp_path: Path, path: Path) -> None:
        (tmp_path / "link").symlink_to(tmp_path)
        lock = OwnerLock(path)
        assert is_alive(tmp_path / "link" / "runs.db", lock.slot)
        lock.close()

    def test_one_that_closes_leaves_the_others_their_locks(self, path: Path) -> None:
        one, two = OwnerLock(path), OwnerLock(path)
        one.close()
        assert not is_alive(path, one.slot)
        assert in_a_child(lambda: is_alive(path, two.slot))
        two.close()
        assert not is_alive(path, two.slot)

    def test_a_forked_child_does_not_release_its_parents_lock(self, path: Path) -> None:
        lock = OwnerLock(path)

        def close() -> bool:
            own = OwnerLock(path)  # may get the number of the parent's descriptor
            lock.close()
            return is_alive(path, lock.slot) and is_alive(path, own.slot)

        assert in_a_child(close)
        assert is_alive(path, lock.slot)
        lock.close()

    def test_what_killed_owners_left_is_removed(self, path: Path) -> None:
        store, _ = owned(path)
        slots = []
        for _ in range(3):
            with Process(str(path)) as owner:
                owner.do("create", f"r{len(slots)}")
                owner.do("claim", f"r{len(slots)}", "killed")
                slots.append(owner)
                owner.kill()
        assert len(lock_files(path)) == 2  # this store's, and the last one's
        other = SQLiteStore(path)
        for number in range(3):
            other.claim(f"r{number}", "other", lease=30.0)
        assert len(lock_files(path)) == 2
        store.close()
        other.close()
        assert lock_files(path) == []

    def test_two_that_look_at_once_do_not_take_each_other_for_the_owner(self, path: Path) -> None:
        lock = OwnerLock(path)
        slot = lock.slot
        (file,) = lock_files(path)
        lock.close()
        file.touch()
        descriptor = os.open(file, os.O_RDONLY)
        owner_lock.fcntl.flock(descriptor, owner_lock.fcntl.LOCK_SH)  # somebody else looks
        assert not is_alive(path, slot)
        os.close(descriptor)

    def test_without_locks_the_lease_decides(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(descriptor: int, how: int) -> None:
            raise OSError(38, "no locks on this file system")

        monkeypatch.setattr(owner_lock.fcntl, "flock", refuse)
        lock = OwnerLock(tmp_path / "runs.db")
        assert (lock.slot, lock.is_visible()) == (0, True)
        assert is_alive(tmp_path / "runs.db", 0)
        lock.close()
        store, _ = owned(tmp_path / "runs.db")
        other = SQLiteStore(tmp_path / "runs.db")
        with pytest.raises(RunOwnedError):
            other.claim("r", "other", lease=30.0)
        store.renew("me", lease=0.0)
        other.claim("r", "other", lease=30.0)
        store.close()
        other.close()

    def test_a_platform_without_locks_reads_and_does_not_run(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(owner_lock, "fcntl", None)
        store = SQLiteStore(path)
        store.create(RunRow("r"))
        assert store.row("r").run_id == "r"
        with pytest.raises(StoreError, match="PostgresStore"):
            store.claim("r", "me", lease=30.0)
        store.close()


class TestOtherDescriptors:
    def test_a_backup_of_the_folder_leaves_the_lock(self, tmp_path: Path, path: Path) -> None:
        store, fence = owned(path)
        shutil.copytree(tmp_path, tmp_path.with_name("backup"))
        for file in lock_files(path):
            shutil.copy(file, tmp_path / "copy")
            file.read_bytes()
        assert refused_elsewhere(path)
        store.append("r", [step(1)], fence)
        store.close()

    def test_in_a_copy_the_run_is_free(self, tmp_path: Path, path: Path) -> None:
        store, _ = owned(path)
        copy = tmp_path.with_name("copy")
        shutil.copytree(tmp_path, copy)
        elsewhere = SQLiteStore(copy / "runs.db")
        elsewhere.claim("r", "other", lease=30.0)
        elsewhere.close()
        store.close()

    @pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="the system does not list descriptors")
    def test_nothing_is_open_after_close(self, tmp_path: Path, path: Path) -> None:
        stores = [owned(path)[0], SQLiteStore(path)]
        with pytest.raises(RunOwnedError):
            stores[1].claim("r", "other", lease=30.0)
        stores[1].create(RunRow("s"))
        stores[1].claim("s", "other", lease=30.0)
        assert open_files(tmp_path)
        for store in stores:
            store.close()
        assert open_files(tmp_path) == []

    @pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="the system does not list descriptors")
    def test_a_child_has_no_descriptor_of_its_parents_locks(self, tmp_path: Path, path: Path) -> None:
        store, _ = owned(path)
        assert any("-owner-" in name for name in open_files(tmp_path))
        assert in_a_child(lambda: not any("-owner-" in name for name in open_files(tmp_path)))
        store.close()


class TestReplacedFiles:
    def remove(self, path: Path) -> None:
        for file in path.parent.glob("runs.db*"):
            file.unlink()

    def test_owners_of_a_store_under_the_same_path_are_seen(self, path: Path) -> None:
        first, _ = owned(path)
        self.remove(path)
        second, fence = owned(path)
        assert refused_elsewhere(path)
        first.close()
        assert refused_elsewhere(path)
        second.append("r", [step(1)], fence)
        second.close()

    @pytest.mark.parametrize("is_there", [False, True])
    def test_a_store_whose_file_is_gone_says_so(self, path: Path, is_there: bool) -> None:
        store, fence = owned(path)
        self.remove(path)
        if is_there:
            owned(path)[0].close()
        for use in (
            lambda: store.renew("me", lease=30.0),
            lambda: store.claim("r", "me", lease=30.0),
            lambda: store.create(RunRow("s")),
            lambda: store.update("r", status="completed", updated=0.0, error=None, fence=fence),
        ):
            with pytest.raises(UnknownRunError):
                use()
        store.close()

    def test_a_run_whose_file_is_gone_does_not_end_as_if_it_were_there(self, path: Path) -> None:
        @node(output="y")
        def act(x: int) -> int:
            self.remove(path)
            return x

        with pytest.raises(UnknownRunError):
            Engine(Graph([act]), store=SQLiteStore(path)).run({"x": 1}, run_id="r")

    def test_a_lock_whose_file_was_removed_is_taken_again(self, path: Path) -> None:
        store, fence = owned(path)
        for file in lock_files(path):
            file.unlink()
        store.renew("me", lease=3600.0)
        assert refused_elsewhere(path)
        store.append("r", [step(1)], fence)
        store.close()


class Boot(VirtualClock):
    """The clock of a machine that was booted at another time."""

    def __init__(self, boot: str, now: float) -> None:
        super().__init__()
        self.boot = boot
        self.advance(now)


class TestClock:
    def test_an_owner_from_another_boot_is_dead(self, path: Path) -> None:
        """However long its lease would last by the clock that started over."""
        before = SQLiteStore(path, clock=Boot("first", 1e6))
        before.create(RunRow("r"))
        fence = before.claim("r", "before", lease=3600.0)
        after = SQLiteStore(path, clock=Boot("second", 1.0))
        found = after.owner("r")
        assert found is not None
        assert (found.name, found.is_alive, found.holds) == ("before", False, False)
        assert after.claim("r", "after", lease=3600.0) > fence
        before.close()
        after.close()

    def test_a_lease_runs_out_by_the_clock_since_boot(self, path: Path) -> None:
        clock = Boot("first", 100.0)
        store, other = SQLiteStore(path, clock=clock), SQLiteStore(path, clock=clock)
        store.create(RunRow("r"))
        store.claim("r", "me", lease=30.0)
        clock.advance(129.9)
        with pytest.raises(RunOwnedError):
            other.claim("r", "other", lease=30.0)
        clock.advance(130.0)
        other.claim("r", "other", lease=30.0)
        store.close()
        other.close()

    def test_a_row_has_the_boot_of_this_machine(self, path: Path) -> None:
        store, _ = owned(path)
        with closing(sqlite3.connect(path)) as db:
            (boot,) = db.execute("SELECT boot FROM workers").fetchone()
        assert boot == lease_clock.BOOT_CLOCK.boot
        store.close()

    def test_a_time_namespace_does_not_move_the_clock(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        offsets = tmp_path / "offsets"
        offsets.write_text("monotonic       86400 500000000\nboottime        86400         0\n")
        monkeypatch.setattr(lease_clock, "_OFFSETS", offsets)
        lease_clock._offset.cache_clear()
        try:
            assert lease_clock._offset() == 86400.5
        finally:
            lease_clock._offset.cache_clear()
