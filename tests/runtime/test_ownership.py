"""One owner at a time, also among the threads, the engines and the forked children of one program."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest

from clew import Context, Engine, Graph, MemoryStore, SQLiteStore, node
from clew.errors import OwnerDeadError, RunOwnedError, RunStateError, StoreError, UnknownRunError
from clew.runtime.drivers.lease_renewal import LeaseRenewer
from clew.runtime.drivers.session import Session
from clew.stores import Store
from tests.stores.processes import opened


class Slow:
    """A graph with one node that stands still in its first call, until it is let go on."""

    def __init__(self) -> None:
        self.entered, self.go = threading.Event(), threading.Event()
        slow = self

        @node(output="y")
        def wait(x: int) -> int:
            slow.entered.set()
            assert slow.go.wait(300)
            return x

        self.graph = Graph([wait])

    def start(self, engine: Engine, run_id: str = "r") -> tuple[threading.Thread, list[Any]]:
        """Run on a thread; it has been entered when this returns."""
        found: list[Any] = []

        def run() -> None:
            try:
                found.append(engine.run({"x": 1}, run_id=run_id).status)
            except Exception as error:
                found.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        assert self.entered.wait(300)
        return thread, found


@pytest.fixture
def slow() -> Iterator[Slow]:
    slow = Slow()
    yield slow
    slow.go.set()


def test_a_forked_child_does_not_get_the_run_of_its_parent(tmp_path: Path) -> None:
    told = tmp_path / "told"
    here = os.getpid()

    @node(output="y")
    def fork(x: int) -> int:
        if os.getpid() != here:
            return 0
        if (child := os.fork()) == 0:
            try:
                engine._live.clear()  # as in a child that was forked before the run began
                engine.resume("r")
                told.write_text("it has it")
            except BaseException as error:
                told.write_text(type(error).__name__)
            os._exit(0)
        os.waitpid(child, 0)
        return x

    engine = Engine(Graph([fork]), store=SQLiteStore(tmp_path / "runs.db"))
    assert (engine.run({"x": 1}, run_id="r").status, told.read_text()) == ("completed", "RunOwnedError")


def both_resume(engine: Engine, run_id: str) -> list[str]:
    """What two threads get that resume one run at once."""
    together, found = threading.Barrier(2), []

    def resume() -> None:
        together.wait()
        try:
            found.append(engine.resume(run_id).status)
        except (RunOwnedError, RunStateError):
            pass

    threads = [threading.Thread(target=resume) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


@pytest.mark.parametrize("durable", [False, True])
def test_of_two_threads_that_resume_one_run_one_wins(tmp_path: Path, durable: bool) -> None:
    calls: list[int] = []
    fails = True

    @node(output="y")
    def act(x: int, ctx: Context) -> list[int]:
        if fails:
            raise ValueError("the first time")
        return [ctx.record("call", lambda i=i: calls.append(i) or i) for i in range(3)]

    store: Store = SQLiteStore(tmp_path / "runs.db") if durable else MemoryStore()
    engine = Engine(Graph([act]), store=store)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for number in range(20):
            fails = True
            calls.clear()
            run_id = f"r{number}"
            engine.run({"x": 1}, run_id=run_id, check=False)
            fails = False
            found = both_resume(engine, run_id)
            assert set(found) == {"completed"}
            assert calls == [0, 1, 2]
    finally:
        sys.setswitchinterval(interval)


def test_of_two_engines_on_one_store_one_has_the_run(tmp_path: Path, slow: Slow) -> None:
    store = SQLiteStore(tmp_path / "runs.db")
    thread, found = slow.start(Engine(slow.graph, store=store))
    with pytest.raises(RunOwnedError):
        Engine(slow.graph, store=store).resume("r")
    slow.go.set()
    thread.join()
    assert found == ["completed"]


def test_a_run_that_could_not_be_released_is_still_this_engines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SQLiteStore(tmp_path / "runs.db")

    def refuse(*args: Any, **more: Any) -> None:
        raise StoreError("the disk is full")

    @node(output="y")
    def act(x: int) -> int:
        return x

    engine = Engine(Graph([act]), store=store)
    with monkeypatch.context() as patch:
        patch.setattr(store, "append", refuse)
        patch.setattr(store, "release", refuse)
        with pytest.raises(StoreError):
            engine.run({"x": 1}, run_id="r")
    with pytest.raises(RunOwnedError):
        Engine(engine.graph, store=store).resume("r")
    assert engine.resume("r").status == "completed"


# -- leases ------------------------------------------------------------------------------------------------------


class Beats(LeaseRenewer):
    """A heartbeat that beats when it is told to."""

    def beat(self) -> None:
        self._beat()


def beating(engine: Engine) -> Beats:
    beats = Beats(engine.store, 1e6, engine._opener.repository.owner, engine._opener.release_left)
    assert engine._execution.lease_renewer is not None
    beats._sessions = engine._execution.lease_renewer._sessions
    return beats


def test_a_beat_renews_the_lease(tmp_path: Path, slow: Slow) -> None:
    store = SQLiteStore(tmp_path / "runs.db")
    engine = Engine(slow.graph, store=store, lease=1e3)
    thread, _ = slow.start(engine)
    before = store.owner("r")
    beating(engine).beat()
    after = store.owner("r")
    slow.go.set()
    thread.join()
    assert before is not None
    assert after is not None
    assert after.expires_in > before.expires_in + 1e5


def taken_over(store: SQLiteStore, run_id: str) -> None:
    """Somebody else has the run: as if its lease had run out."""
    with closing(sqlite3.connect(store.path)) as db:
        db.execute("UPDATE workers SET until = 0.0")
        db.commit()
    store.claim(run_id, "somebody else", lease=1e6)


def test_a_beat_stops_a_session_that_was_taken_over(tmp_path: Path, slow: Slow) -> None:
    store = SQLiteStore(tmp_path / "runs.db")
    engine = Engine(slow.graph, store=store, lease=1e6)  # it renews its lease when the test says so
    thread, found = slow.start(engine)
    session: Session = engine._live["r"]
    taken_over(store, "r")
    beating(engine).beat()
    assert session.cancelled
    with pytest.raises(RunOwnedError):
        session.before_call()  # so no call is made any more
    slow.go.set()
    thread.join()
    assert isinstance(found[0], RunOwnedError)


def test_runs_of_an_engine_share_one_lease(tmp_path: Path, slow: Slow) -> None:
    store = SQLiteStore(tmp_path / "runs.db")
    engine = Engine(slow.graph, store=store)
    first, found = slow.start(engine, "first")
    slow.entered.clear()
    second, others = slow.start(engine, "second")
    owners = [store.owner(run_id) for run_id in ("first", "second")]
    assert [worker.owner for worker in store.workers()] == [owners[0] and owners[0].name]
    assert owners[1] is not None
    assert owners[0] is not None
    assert (owners[0].name, owners[0].token != owners[1].token) == (owners[1].name, True)
    slow.go.set()
    first.join()
    second.join()
    assert found == others == ["completed"]


def test_an_engine_that_was_declared_dead_drops_its_runs_and_goes_on(tmp_path: Path, slow: Slow) -> None:
    store = SQLiteStore(tmp_path / "runs.db")
    engine = Engine(slow.graph, store=store, lease=1e6)
    thread, found = slow.start(engine)
    (before,) = [worker.owner for worker in store.workers()]
    with closing(sqlite3.connect(store.path)) as db:
        db.execute("UPDATE workers SET until = 0.0")
        db.commit()
    assert store.expire() == 1
    session: Session = engine._live["r"]
    slow.entered.clear()
    second, others = slow.start(engine, "second")  # under a new name
    assert isinstance(session.lost, OwnerDeadError)
    slow.go.set()
    thread.join()
    second.join()
    assert others == ["completed"]
    assert isinstance(found[0], OwnerDeadError)
    (alive,) = [worker.owner for worker in store.workers() if worker.is_alive]
    assert alive != before
    assert engine.resume("r").status == "completed"


def test_a_session_that_was_claimed_before_the_death_is_dropped(tmp_path: Path, slow: Slow) -> None:
    """The claim and the start of the session are two moments."""
    store = SQLiteStore(tmp_path / "runs.db")
    engine = Engine(slow.graph, store=store)
    thread, found = slow.start(engine)
    session, renewer = engine._live["r"], engine._execution.lease_renewer
    assert renewer is not None
    renewer.remove(session)
    name = engine._opener.repository.owner.name
    engine._opener.repository.owner.died(name, OwnerDeadError("declared dead"))
    assert session.lost is None
    renewer.add(session)
    assert isinstance(session.lost, RunOwnedError)
    slow.go.set()
    thread.join()
    assert isinstance(found[0], RunOwnedError)


def test_a_run_that_could_not_be_released_is_released_with_the_next_renewal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slow: Slow
) -> None:
    store = SQLiteStore(tmp_path / "runs.db")
    engine = Engine(slow.graph, store=store)
    thread, found = slow.start(engine)

    def refuse(*args: Any, **more: Any) -> None:
        raise StoreError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(store, "append", refuse)
        patch.setattr(store, "release", refuse)
        slow.go.set()
        thread.join()
    assert isinstance(found[0], StoreError)
    assert store.owner("r") is not None
    slow.go.clear()
    slow.entered.clear()
    thread, found = slow.start(engine, "second")
    beating(engine).beat()
    assert store.owner("r") is None
    slow.go.set()
    thread.join()
    assert found == ["completed"]
    assert Engine(slow.graph, store=store).resume("r").status == "completed"


def test_a_beat_goes_on_for_the_others_when_a_run_is_gone(tmp_path: Path, slow: Slow) -> None:
    store = SQLiteStore(tmp_path / "runs.db")
    engine = Engine(slow.graph, store=store, lease=1e3)
    first, found = slow.start(engine, "first")
    slow.entered.clear()
    second, others = slow.start(engine, "second")
    before = store.owner("second")
    store.delete("first")
    beating(engine).beat()
    after = store.owner("second")
    slow.go.set()
    first.join()
    second.join()
    assert before is not None
    assert after is not None
    assert after.expires_in > before.expires_in + 1e5
    assert isinstance(found[0], UnknownRunError)
    assert others == ["completed"]


def test_a_beat_survives_whatever_one_session_raises(tmp_path: Path, slow: Slow) -> None:
    engine = Engine(slow.graph, store=SQLiteStore(tmp_path / "runs.db"))
    thread, found = slow.start(engine)
    beats = beating(engine)
    renewed: list[str] = []

    def renew() -> None:
        renewed.append("tried")
        raise OSError("the host is out of memory")

    beats._renew = renew
    beats.beat()
    slow.go.set()
    thread.join()
    assert (renewed, found) == (["tried"], ["completed"])


SHIFTED = """
import sys, time
now = time.time
time.time = lambda: now() + float(sys.argv[2])  # before anything has taken hold of it
from clew import Engine, Graph, node
from clew.errors import RunOwnedError
from tests.stores.processes import opened

@node(output="y")
def wait(x: int) -> int:
    return x

engine = Engine(Graph([wait]), store=opened(sys.argv[1]))
try:
    print(engine.resume("r").status)
except RunOwnedError:
    print("owned")
"""


@pytest.mark.parametrize("shift", [3600.0, -3600.0])
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_program_with_a_wrong_clock_does_not_take_over(
    tmp_path: Path, request: pytest.FixtureRequest, slow: Slow, kind: str, shift: float
) -> None:
    address = str(tmp_path / "runs.db")
    if kind == "postgres":
        address = f"{request.getfixturevalue('server').dsn}|t_{token_hex(6)}"
    store = opened(address)
    thread, found = slow.start(Engine(slow.graph, store=store, lease=600.0))
    done = subprocess.run(
        [sys.executable, "-c", SHIFTED, address, str(shift)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    slow.go.set()
    thread.join()
    assert (done.stdout, found) == ("owned\n", ["completed"]), done.stderr
    store.close()


# -- deleting ----------------------------------------------------------------------------------------------------


def test_a_run_with_a_living_owner_is_not_deleted(tmp_path: Path, slow: Slow) -> None:
    store = SQLiteStore(tmp_path / "runs.db")
    thread, found = slow.start(Engine(slow.graph, store=store))
    other = Engine(slow.graph, store=store)
    with pytest.raises(RunOwnedError):
        other.delete("r")
    assert other.prune(status="running") == []
    slow.go.set()
    thread.join()
    assert found == ["completed"]
    other.delete("r")
    assert other.runs() == []


def test_a_run_that_could_not_be_deleted_is_free_again(tmp_path: Path) -> None:
    @node(output="y")
    def act(x: int) -> int:
        return x

    engine = Engine(Graph([act]), store=SQLiteStore(tmp_path / "runs.db"))
    engine.run({"x": 1}, run_id="r")
    engine.fork("r", step=0, run_id="f")
    with pytest.raises(StoreError, match="has a fork"):
        engine.delete("r")
    assert engine.store.owner("r") is None
