"""FileSystem on real directories."""

from __future__ import annotations

import os
import socket
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from clew.errors import RollbackError, SystemSetupError, UnknownCheckpointError
from clew.explore.model.system import System
from clew.explore.systems import FileSystem
from clew.explore.systems.files.scan import DirectoryScan

Step = Callable[[Path], object]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


@pytest.fixture
def system(root: Path) -> Iterator[FileSystem]:
    with FileSystem(root) as made:
        yield made


def contents(root: Path) -> dict[bytes, Any]:
    found: dict[bytes, Any] = {}
    for folder, folders, files in os.walk(os.fsencode(root)):
        for name in folders + files:
            path = os.path.join(folder, name)
            status = os.lstat(path)
            if stat.S_ISLNK(status.st_mode):
                content: bytes | None = os.readlink(path)
            else:
                content = Path(os.fsdecode(path)).read_bytes() if stat.S_ISREG(status.st_mode) else None
            times = status.st_mtime_ns if stat.S_ISREG(status.st_mode) else None
            found[path] = (status.st_mode, content, times)
    return found


CASES: dict[str, tuple[Step, ...]] = {
    "files": (
        lambda root: (root / "a").write_text("1"),
        lambda root: (root / "a").write_text("2"),
        lambda root: (root / "b").write_bytes(b"\0" * 3_000_000),
        lambda root: (root / "a").unlink(),
    ),
    "edits within one tick of the clock, of the same size": tuple(
        (lambda root, n=n: (root / "a").write_text(f"{n}")) for n in range(8)
    ),
    "an edit whose time is set back": (
        lambda root: ((root / "a").write_text("1"), os.utime(root / "a", ns=(1, 1))),
        lambda root: ((root / "a").write_text("2"), os.utime(root / "a", ns=(1, 1))),
    ),
    "directories, empty ones too": (
        lambda root: (root / "x/y/z").mkdir(parents=True),
        lambda root: (root / "x/y/f").write_text("f"),
        lambda root: os.rename(root / "x/y", root / "moved"),
        lambda root: ((root / "moved/f").unlink(), (root / "moved/z").rmdir(), (root / "moved").rmdir()),
    ),
    "links": (
        lambda root: (root / "link").symlink_to("nowhere"),
        lambda root: ((root / "link").unlink(), (root / "link").symlink_to("elsewhere")),
        lambda root: ((root / "link").unlink(), (root / "link").mkdir(), (root / "link/f").write_text("x")),
        lambda root: (
            (root / "link/f").unlink(),
            (root / "link").rmdir(),
            (root / "link").write_text("file"),
        ),
    ),
    "permissions": (
        lambda root: ((root / "d").mkdir(), (root / "d/f").write_text("x")),
        lambda root: (root / "d/f").chmod(0o400),
        lambda root: (root / "d").chmod(0o500),
        lambda root: ((root / "d").chmod(0o700), (root / "d/f").chmod(0o755), (root / "d/g").write_text("y")),
    ),
    "names that are not UTF-8, or odd": (
        lambda root: open(os.path.join(os.fsencode(root), b"\xff\xfe"), "wb").close(),
        lambda root: os.mkdir(os.path.join(os.fsencode(root), b"d\xff")),
        lambda root: (root / "a\nb '\" 🧵 .part").write_text("x"),
        lambda root: os.rename(
            os.path.join(os.fsencode(root), b"\xff\xfe"), os.path.join(os.fsencode(root), b"d\xff/\x80")
        ),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_any_state_is_restored_from_any_other(case: str, root: Path, system: FileSystem) -> None:
    (root / "there from the beginning").write_text("x")
    found = [(system.checkpoint("initial"), contents(root), system.observe())]
    for step in CASES[case]:
        step(root)
        found.append((system.checkpoint("step"), contents(root), system.observe()))
    assert len({observation.digest for _, _, observation in found}) == len(found)
    for start, _, _ in found:
        for token, files, observation in found:
            system.rollback(start)
            system.rollback(token)
            assert contents(root) == files
            assert system.observe() == observation


def test_only_what_differs_is_touched(root: Path, system: FileSystem) -> None:
    for n in range(20):
        (root / f"{n}").write_text("x")
    token = system.checkpoint("start")
    before = {path.name: path.stat() for path in root.iterdir()}
    (root / "7").write_text("changed")
    system.rollback(token)
    after = {path.name: path.stat() for path in root.iterdir()}
    touched = {name for name in before if before[name].st_ctime_ns != after[name].st_ctime_ns}
    assert touched == {"7"}


def test_whoever_has_a_file_open_goes_on_with_what_was_restored(root: Path, system: FileSystem) -> None:
    log = (root / "log").open("a")
    log.write("one\n")
    log.flush()
    token = system.checkpoint("start")
    log.write("two\n")
    log.flush()
    system.rollback(token)
    log.write("three\n")
    log.close()
    assert (root / "log").read_text() == "one\nthree\n"


def test_nothing_outside_is_read_or_written(tmp_path: Path, root: Path, system: FileSystem) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "f").write_text("mine")
    (root / "d").mkdir()
    (root / "d/f").write_text("x")
    token = system.checkpoint("start")
    (root / "d/f").unlink()
    (root / "d").rmdir()
    (root / "d").symlink_to(outside)
    assert "d/f" not in system.observe().data
    system.rollback(token)
    assert (root / "d/f").read_text() == "x"
    assert (outside / "f").read_text() == "mine"


def test_a_file_with_another_name_outside_is_not_written_through(
    tmp_path: Path, root: Path, system: FileSystem
) -> None:
    (root / "f").write_text("x")
    token = system.checkpoint("start")
    (tmp_path / "outside").write_text("mine")
    (root / "f").unlink()
    os.link(tmp_path / "outside", root / "f")
    system.rollback(token)
    assert (root / "f").read_text() == "x"
    assert (tmp_path / "outside").read_text() == "mine"


def test_times_do_not_count_and_are_restored(root: Path, system: FileSystem) -> None:
    (root / "f").write_text("x")
    token, start = system.checkpoint("start"), system.observe()
    was = (root / "f").stat().st_mtime_ns
    os.utime(root / "f", ns=(5, 5))
    assert system.observe() == start
    system.rollback(token)
    assert (root / "f").stat().st_mtime_ns == was


def test_sockets_and_pipes_are_left_alone(root: Path, system: FileSystem) -> None:
    token, start = system.checkpoint("start"), system.observe()
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        here = os.getcwd()
        os.chdir(root)  # a socket's name must be short
        try:
            server.bind("socket")
        finally:
            os.chdir(here)
        assert system.observe() == start
        system.rollback(token)
        assert sorted(path.name for path in root.iterdir()) == ["pipe", "socket"]


def test_what_an_observation_shows(root: Path, system: FileSystem) -> None:
    (root / "d").mkdir(mode=0o755)
    (root / "d").chmod(0o755)
    (root / "f").write_text("x")
    (root / "f").chmod(0o640)
    (root / "l").symlink_to("f")
    data = system.observe().data
    assert data["d"] == {"directory": "755"}
    assert (data["f"]["file"], data["f"]["size"]) == ("640", 1)
    assert data["l"] == {"link": "f"}
    for n in range(100):
        (root / f"{n}").touch()
    assert system.observe().data["entries"] == 103


def test_tokens(root: Path, system: FileSystem) -> None:
    assert isinstance(system, System)
    token = system.checkpoint("a")
    (root / "f").write_text("x")
    with pytest.raises(UnknownCheckpointError, match="Checkpoint not found: 99"):
        system.rollback(99)
    system.release(token)
    system.release(token)
    assert not system.is_valid(token)
    with pytest.raises(KeyError):
        system.rollback(token)
    assert (root / "f").exists()


def test_a_directory_that_is_gone_is_an_error(root: Path, system: FileSystem) -> None:
    token = system.checkpoint("a")
    root.rmdir()
    with pytest.raises(RollbackError, match="data"):
        system.rollback(token)


def test_what_is_no_directory(tmp_path: Path) -> None:
    with pytest.raises(SystemSetupError, match="not a directory"):
        FileSystem(tmp_path / "no")
    with pytest.raises(SystemSetupError, match="temporary files"):
        FileSystem("/")


@pytest.mark.parametrize(
    "meanwhile", [lambda file: os.utime(file, (1, 1)), lambda file: file.chmod(0o640), lambda file: None]
)
def test_a_content_that_was_read_before_the_checkpoint_is_kept_by_it(
    root: Path, system: FileSystem, meanwhile: Step
) -> None:
    """Looking reads a file; what then changes is its time or its mode, and not what has to be kept."""
    file = root / "file"
    file.write_text("before")
    system.observe()
    meanwhile(file)
    before = system.observe()
    token = system.checkpoint("here")
    file.write_text("after")
    system.rollback(token)
    assert file.read_text() == "before"
    assert system.observe() == before


def test_a_directory_is_a_path(tmp_path: Path) -> None:
    with pytest.raises(SystemSetupError, match=r"directory: .* got None"):
        FileSystem(None)


def test_two_writes_within_one_tick_of_the_clock_are_two_states(root: Path, system: FileSystem) -> None:
    """They have one size and one time; nothing but the content tells them apart."""
    file = root / "file"
    for _ in range(50):
        file.write_text("one")
        one = system.observe()
        file.write_text("two")
        assert system.observe() != one


@pytest.mark.parametrize("age, is_trusted", [(10, True), (0, False)])
def test_a_status_is_trusted_once_it_is_older_than_a_tick_of_the_clock(
    root: Path, age: int, is_trusted: bool
) -> None:
    """A second write within the tick leaves the status as it is; only a status from before it tells of a change."""
    file = root / "file"
    file.write_text("one")
    now = time.time_ns() - age * 10**9 + 3600 * 10**9 * (age == 0) + 1  # of a fresh one: still to come
    times = {"st_atime_ns": now, "st_mtime_ns": now, "st_ctime_ns": now}
    status = os.stat_result((0o100644, 1, 1, 1, 0, 0, 3, 0, 0, 0), times)
    scan = DirectoryScan(os.fsencode(root))
    scan._last[b"file"] = scan._entry(b"file", os.fsencode(file), status)
    file.write_text("two")
    again = scan._entry(b"file", os.fsencode(file), status)
    assert (again == scan._last[b"file"]) is is_trusted
