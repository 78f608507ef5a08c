"""With ``durability="async"`` on a store that waits for its disk: what is on it when a power cut comes.

`Disk` is a store that knows what a power cut would leave: the file as it was when somebody last waited for the disk.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from clew import Context, Engine, Graph, SideEffectPolicy, SQLiteStore, node
from clew.errors import RunExistsError, StoreUnavailableError
from clew.runtime.log import background_writer
from clew.stores import timer


class Disk(SQLiteStore):
    """A file that waits for the disk, and what is on it."""

    def __init__(self, file: Path) -> None:
        super().__init__(file, synchronous="full")
        self._copies = iter(range(1_000_000))
        self.calls: list[str] = []
        self.is_synced = threading.Event()
        self._is_broken = False
        self._waited("opened")

    def _waited(self, call: str, wait: bool = True) -> None:
        self.calls.append(call if wait else f"{call}, not waited for")
        if wait:
            self.image = self.path.with_name(f"{next(self._copies)}.image")
            with closing(sqlite3.connect(self.path)) as there, closing(sqlite3.connect(self.image)) as here:
                there.backup(here)

    def create(self, *args: Any, wait: bool = True, **more: Any) -> int:
        fence = super().create(*args, wait=wait, **more)
        self._waited("create", wait)
        return fence

    def append(self, run_id: str, entries: Sequence[Any], *args: Any, wait: bool = True, **more: Any) -> None:
        super().append(run_id, entries, *args, wait=wait, **more)
        self._waited(f"append {len(entries)}", wait)

    def update(self, *args: Any, **more: Any) -> None:
        super().update(*args, **more)
        self._waited("update")

    def sync(self) -> None:
        if self._is_broken:
            raise StoreUnavailableError("the disk is gone")
        super().sync()
        self._waited("sync")
        self.is_synced.set()

    def breaks(self) -> None:
        self._is_broken = True

    def after_a_power_cut(self) -> SQLiteStore:
        return SQLiteStore(self.image)


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    store = Disk(tmp_path / "runs.db")
    store.calls.clear()
    return store


@node(output="x1")
def one(x0: int) -> int:
    return x0 + 1


@node(output="x2")
def two(x1: int) -> int:
    return x1 + 1


@node(output="x3")
def three(x2: int) -> int:
    return x2 + 1


def engine_of(disk: Disk, *nodes: Any, **options: Any) -> Engine:
    return Engine(Graph(list(nodes)), store=disk, durability="async", **options)


@pytest.fixture
def no_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A moment that does not pass by itself."""
    monkeypatch.setattr(background_writer, "MOMENT", 3600.0)


@pytest.mark.usefixtures("no_hurry")
def test_a_short_run_waits_for_the_disk_once(disk: Disk) -> None:
    engine = engine_of(disk, one, two, three)
    assert engine.run({"x0": 0}, run_id="r")["x3"] == 3
    assert disk.calls == ["create, not waited for", "append 3, not waited for", "update"]
    left = Engine(engine.graph, store=disk.after_a_power_cut())
    assert (left.result("r").status, left.state("r").values["x3"]) == ("completed", 3)
    assert left.state("r").digest == engine.state("r").digest


@pytest.mark.usefixtures("no_hurry")
def test_a_call_is_made_when_the_run_is_on_the_disk(disk: Disk) -> None:
    """Also where nothing but the run itself was there to wait for."""
    found: list[list[str]] = []

    @node(output="y")
    def act(x0: int, ctx: Context) -> int:
        return ctx.record("call", lambda: found.append([row.run_id for row in left()]) or 7)

    def left() -> Any:
        return disk.after_a_power_cut().rows()

    assert engine_of(disk, act).run({"x0": 0}, run_id="r")["y"] == 7
    assert found == [["r"]]
    assert disk.calls[:2] == ["create, not waited for", "sync"]
    assert disk.calls.count("sync") == 1


@pytest.mark.usefixtures("no_hurry")
def test_a_node_with_effects_is_called_when_the_steps_before_it_are_on_the_disk(disk: Disk) -> None:
    found: list[int] = []

    @node(output="y", side_effects=SideEffectPolicy(recordable=True))
    def act(x2: int) -> int:
        found.append(len(disk.after_a_power_cut().find("r", "step", "")))
        return x2

    engine_of(disk, one, two, act).run({"x0": 0}, run_id="r")
    assert found == [2]
    assert disk.calls == [
        "create, not waited for",
        "append 2",
        *disk.calls[2:-1],  # the recording
        "update",
    ]
    assert "sync" not in disk.calls  # the steps were waited for, and the run with them


def test_a_run_that_takes_its_time_gets_to_the_disk_by_itself(disk: Disk) -> None:
    @node(output="y")
    def slow(x0: int) -> bool:
        return disk.is_synced.wait(300) and [row.run_id for row in disk.after_a_power_cut().rows()] == ["r"]

    assert engine_of(disk, slow).run({"x0": 0}, run_id="r")["y"] is True


@pytest.mark.usefixtures("no_hurry")
def test_listeners_hear_of_a_run_that_is_on_the_disk(disk: Disk) -> None:
    found: list[str] = []

    def listener(event: Any) -> None:
        if event.kind == "run_started":
            found.extend(row.run_id for row in disk.after_a_power_cut().rows())

    engine_of(disk, one, listeners=[listener]).run({"x0": 0}, run_id="r")
    next(iter(engine_of(disk, one).stream({"x0": 0}, run_id="s")))
    assert found == ["r"]
    assert disk.calls.count("create") == 2


@pytest.mark.usefixtures("no_hurry")
def test_a_session_is_handed_out_when_its_run_is_on_the_disk(disk: Disk) -> None:
    engine = engine_of(disk, one)
    session = engine._execution.open_session({"x0": 0}, "r")
    assert [row.run_id for row in disk.after_a_power_cut().rows()] == ["r"]
    engine._execution.close_session(session)


@pytest.mark.usefixtures("no_hurry")
def test_a_run_that_fails_or_is_broken_off_is_on_the_disk_as_far_as_it_came(disk: Disk) -> None:
    @node(output="y")
    def fail(x1: int) -> int:
        raise errors.pop()

    errors: list[BaseException] = [KeyboardInterrupt(), ValueError("no")]
    engine = engine_of(disk, one, fail)
    assert engine.run({"x0": 0}, run_id="failed", check=False).status == "failed"
    with pytest.raises(KeyboardInterrupt):
        engine.run({"x0": 0}, run_id="broken")
    left = disk.after_a_power_cut()
    assert [(row.run_id, row.status) for row in left.rows()] == [
        ("failed", "failed"),
        ("broken", "cancelled"),
    ]
    assert [len(left.find(run, "step", "")) for run in ("failed", "broken")] == [1, 1]


@pytest.mark.usefixtures("no_hurry")
def test_an_id_that_is_taken_is_refused_before_anything_is_called(disk: Disk) -> None:
    called: list[int] = []
    engine = engine_of(disk, node(output="y", name="act")(lambda x0: called.append(x0)))
    engine.run({"x0": 0}, run_id="r")
    with pytest.raises(RunExistsError):
        engine.run({"x0": 1}, run_id="r")
    assert called == [0]


@pytest.mark.usefixtures("no_hurry")
def test_no_call_is_made_where_the_disk_is_gone(disk: Disk) -> None:
    """And a body that catches everything does not go on as if it had been."""
    called: list[int] = []

    @node(output="y")
    def act(x0: int, ctx: Context) -> str:
        try:
            ctx.record("call", called.append, 1)
        except Exception:
            pass
        return "went on"

    disk.breaks()
    engine = engine_of(disk, act)
    with pytest.raises(StoreUnavailableError, match="the disk is gone"):
        engine.run({"x0": 0}, run_id="r")
    assert called == []
    assert disk.find("r", "step", "") == []


def test_a_store_that_does_not_defer_is_never_asked_to(tmp_path: Path) -> None:
    options: list[dict[str, Any]] = []

    class Plain(SQLiteStore):
        def create(self, *args: Any, **more: Any) -> int:
            options.append(more)
            return super().create(*args, **more)

        def append(self, *args: Any, **more: Any) -> None:
            options.append(more)
            super().append(*args, **more)

        def sync(self) -> None:
            raise AssertionError("there is nothing to wait for")

    store = Plain(tmp_path / "runs.db")
    assert store.defers is False
    Engine(Graph([one]), store=store, durability="async").run({"x0": 0})
    Engine(Graph([one]), store=store, durability="exit").run({"x0": 0})
    assert len(options) == 4
    assert all(more["wait"] for more in options)


# -- the writer's thread


def test_a_run_that_is_over_in_a_moment_has_no_thread(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background_writer, "MOMENT", 3600.0)
    monkeypatch.setattr(
        background_writer.BackgroundWriter, "hurry", lambda self: pytest.fail("somebody is in a hurry")
    )
    monkeypatch.setattr(timer, "_calls", {})
    engine_of(disk, one, two, three).run({"x0": 0}, run_id="r")
    assert timer._calls == {}


def test_the_timer_ends_when_nothing_is_scheduled(monkeypatch: pytest.MonkeyPatch) -> None:
    """And starts again when something is."""
    monkeypatch.setattr(timer, "_IDLE", 0)
    monkeypatch.setattr(timer, "_calls", {})
    for _ in range(2):
        settled = threading.Event()
        kept = background_writer.BackgroundWriter(lambda work: None, settled.set)
        assert settled.wait(300)
        thread = timer._thread
        if thread is not None:
            thread.join(300)
        assert (timer._thread, timer._calls) == (None, {})
        kept.close()


def test_a_background_writer_that_is_closed_ends_its_thread() -> None:
    settled = threading.Event()
    kept = background_writer.BackgroundWriter(lambda work: None, settled.set)
    assert settled.wait(300)
    thread = kept._thread
    assert thread is not None
    kept.close()
    thread.join(300)
    assert not thread.is_alive()


@pytest.mark.posix
@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning"
)  # of forking beside threads, which is what this is about
def test_a_forked_process_has_writers_of_its_own(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "runs.db", synchronous="full")
    Engine(Graph([one]), store=store, durability="async").run({"x0": 0})
    child = os.fork()
    if not child:
        code = 1
        try:
            disk = Disk(tmp_path / "child.db")
            slow = node(output="y", name="slow")(lambda x0: disk.is_synced.wait(300))
            code = 0 if engine_of(disk, slow).run({"x0": 0})["y"] else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
