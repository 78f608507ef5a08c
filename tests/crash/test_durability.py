"""What each durability mode loses: the table of ``docs/how-to/durability.md``, cell by cell.

A process crash is a SIGKILL. A power cut is simulated: it keeps what was handed to the disk with fsync and may lose any
part of what was written since. So the log is cut and torn at many places; and the system calls of a child are traced,
to see after which commits there is an fsync. What ``async`` with ``full`` has on the disk at each moment of a run is in
``tests/runtime/log/test_background_writer.py``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from clew import Engine, Graph, SQLiteStore, node
from tests.crash.conftest import Trials
from tests.crash.nursery import RUN, opened


def steps(store: str) -> int:
    """How many steps of the run are there, whoever made them."""
    there = opened(store)
    try:
        return sum(entry.kind == "step" and not entry.path for entry in there.entries(RUN))
    finally:
        there.close()


# -- a process crash


def test_sync_loses_nothing_that_was_done(trials: Trials) -> None:
    """Killed when the third call has been journaled: the nine steps before it are there."""
    trial = trials.new(durability="sync")
    assert trial.go(crash="after-journal:3")["killed"]
    assert steps(trial.store) == 8
    assert len(trial.lines()) == 3
    trials.check(trial)
    assert set(trial.lines().values()) == {1}


def test_async_loses_the_last_steps_and_never_what_a_call_was_built_on(trials: Trials) -> None:
    """Before each call the ledger is up to date; what comes after the last call may be lost and is done again."""
    for count in range(1, 12):
        trial = trials.new(durability="async")
        assert trial.go(crash=f"after-call:{count}")["killed"]
        unjournaled = set(trial.lines()) - set(trial._journaled())
        assert len(unjournaled) <= 1  # the call in flight
        trials.check(trial)
        assert sum(trial.lines().values()) <= sum(trials.unbroken()[1].values()) + 1


def test_async_before_a_call_everything_is_there(trials: Trials) -> None:
    trial = trials.new(durability="async")
    assert trial.go(crash="before-call:3")["killed"]
    assert steps(trial.store) == 8


def test_async_that_does_not_wait_for_the_disk_yet_survives_a_kill_like_any(trials: Trials) -> None:
    """A run is created, and its last steps are written, without waiting for the disk: others see them all the same."""
    for place, count in {"after-create:1": 0, "before-call:1": None, "before-update:1": 16}.items():
        trial = trials.new(durability="async", synchronous="full")
        assert trial.go(crash=place)["killed"], place
        store = opened(trial.store)
        assert [(row.run_id, row.status) for row in store.rows()] == [(RUN, "running")]
        store.close()
        assert count is None or steps(trial.store) == count
        trials.check(trial)
        assert sum(trial.lines().values()) <= sum(trials.unbroken()[1].values()) + 1


def test_exit_loses_the_whole_stretch(trials: Trials) -> None:
    trial = trials.new(durability="exit")
    assert trial.go(crash="before-update:1")["killed"]  # all was written by then
    assert steps(trial.store) == 16
    trial = trials.new(durability="exit")
    assert trial.go(crash="before-append:1")["killed"]  # the one write, at the end
    assert steps(trial.store) == 0
    trial.finish()
    assert trial.chain() == trials.unbroken()[0]
    assert set(trial.lines().values()) == {2}  # every call was made again, with its key


def test_exit_keeps_what_was_accepted(trials: Trials) -> None:
    trial = trials.new(durability="exit")
    assert trial.go(crash="before-call:1")["killed"]
    store = opened(trial.store)
    assert [(row.run_id, row.status) for row in store.rows()] == [(RUN, "running")]
    store.close()


# -- a power cut

CHILD = """
import sys
from clew import Engine, SQLiteStore
from clew.runtime.log import background_writer
from tests.crash.test_durability import CHAIN
background_writer.MOMENT = 600.0  # three steps may take long here
store = SQLiteStore(sys.argv[1], synchronous=sys.argv[2])
Engine(CHAIN, store=store, durability=sys.argv[3]).run({"a": 0}, run_id="r")
"""


@node(output="b")
def one(a: int) -> int:
    return a + 1


@node(output="c")
def two(b: int) -> int:
    return b + 1


@node(output="d")
def three(c: int) -> int:
    return c + 1


CHAIN = Graph([one, two, three])


def synced(path: Path, synchronous: str, durability: str = "sync") -> int:
    """How often a run of three steps, on a file that is there, waits for the disk."""
    SQLiteStore(path).close()
    trace = path.parent / "trace"
    subprocess.run(
        ["strace", "-f", "-e", "trace=fsync,fdatasync", "-o", str(trace)]
        + [sys.executable, "-c", CHILD, str(path), synchronous, durability],
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    return sum("sync(" in line for line in trace.read_text().splitlines())


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace to see what reaches the disk")
def test_full_waits_for_the_disk_at_each_step_and_normal_does_not(tmp_path: Path) -> None:
    counts = {}
    for synchronous in ("off", "normal", "full"):
        folder = tmp_path / synchronous
        folder.mkdir()
        counts[synchronous] = synced(folder / "runs.db", synchronous)
    assert counts["off"] == 0
    assert counts["full"] >= counts["normal"] + 3 + 1  # its three steps, and the run itself


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace to see what reaches the disk")
@pytest.mark.parametrize("durability, waits", [("async", 1), ("exit", 2)])
def test_with_full_the_other_modes_wait_for_the_disk_as_often_as_they_must(
    tmp_path: Path, durability: str, waits: int
) -> None:
    """The end of a run is on the disk when its result is there, and all that came before it. Its beginning is waited
    for with `exit`, which writes nothing else until then."""
    counts = {}
    for synchronous in ("normal", "full"):
        folder = tmp_path / synchronous
        folder.mkdir()
        counts[synchronous] = synced(folder / "runs.db", synchronous, durability)
    assert counts["full"] - counts["normal"] == waits


@pytest.mark.parametrize("durability", ["async", "exit"])
def test_with_full_a_commit_is_on_the_disk_when_it_returns(tmp_path: Path, durability: str) -> None:
    """What the modes hand to the store is a commit like any: the connection waits for the disk at each."""
    store = SQLiteStore(tmp_path / "runs.db", synchronous="full")
    Engine(CHAIN, store=store, durability=durability).run({"a": 0}, run_id="r")
    assert store._db.execute("PRAGMA synchronous").fetchone() == (2,)
    assert store._db.in_transaction is False


def lost_tail(path: Path, lose: int, to: Path) -> Path:
    """The file after a power cut that took the last `lose` bytes of its write-ahead log."""
    shutil.copy(path, to)
    log = Path(f"{path}-wal").read_bytes()
    Path(f"{to}-wal").write_bytes(log[: max(0, len(log) - lose)])
    return to


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_whatever_a_power_cut_takes_from_the_end_of_the_log_leaves_a_state_that_goes_on(
    tmp_path: Path, durability: str
) -> None:
    """`normal` does not wait for the log: any part of its end may be missing. The run is then further back."""
    path = tmp_path / "runs.db"
    SQLiteStore(path).close()
    store = SQLiteStore(path)
    engine = Engine(CHAIN, store=store, durability=durability)
    engine.run({"a": 0}, run_id="r")
    digests = {c.step_id: c.digest for c in engine.history("r")}
    size = Path(f"{path}-wal").stat().st_size
    found: set[Any] = set()
    for number, lose in enumerate(range(0, size, 1500)):
        copy = SQLiteStore(lost_tail(path, lose, tmp_path / f"cut-{number}.db"))
        cut = Engine(CHAIN, store=copy)
        assert list(copy.check()) == []
        rows = cut.runs()
        if not rows:
            found.add("no run")  # it was accepted, and is forgotten: what `full` is for
        else:
            step = cut.state("r").step
            found.add(step)
            assert cut.state("r").digest == digests[step]
            assert cut.resume("r")["d"] == 3
            assert {c.step_id: c.digest for c in cut.history("r")} == digests
        cut.close()
    if durability == "sync":
        assert found == {"no run", 0, 1, 2, 3}
    elif durability == "exit":
        assert found == {"no run", 0, 3}  # one write: all of it, or nothing
    else:
        assert {"no run", 0, 3} <= found <= {"no run", 0, 1, 2, 3}
    engine.close()


def test_a_log_with_a_torn_page_is_read_up_to_it(tmp_path: Path) -> None:
    """Blocks that were not waited for may reach the disk in any order: one in the middle is missing."""
    path = tmp_path / "runs.db"
    SQLiteStore(path).close()
    engine = Engine(CHAIN, store=SQLiteStore(path))
    engine.run({"a": 0}, run_id="r")
    log = bytearray(Path(f"{path}-wal").read_bytes())
    for number, at in enumerate(range(600, len(log), 2048)):
        copy = tmp_path / f"torn-{number}.db"
        shutil.copy(path, copy)
        Path(f"{copy}-wal").write_bytes(bytes(log[:at]) + bytes(512) + bytes(log[at + 512 :]))
        cut = Engine(CHAIN, store=SQLiteStore(copy))
        if cut.runs():
            assert cut.resume("r")["d"] == 3
        cut.close()
    engine.close()
