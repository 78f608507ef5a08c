"""The baseline: the next process restores the world after a kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from clew.errors import (
    CheckpointError,
    DefinitionError,
    ExplorationAborted,
    ExplorationWarning,
    JournalMismatchError,
    StoreConflictError,
)
from clew.explore import Action, Agent, Observation, World
from clew.explore.search import baseline
from clew.explore.search.journal import Journal
from clew.explore.systems import FileSystem, MemoryStorage
from clew.stores import PostgresStore
from clew.stores.factory import open_table
from tests.explore.models import Box
from tests.explore.systems.postgres_databases import Database


class Persistent(Box):
    """A box that outlives its process, in a dict of the test, with a counter that is not observed."""

    def __init__(self, outside: dict[str, Any]) -> None:
        super().__init__(None)
        self.outside = outside
        self.restored_baselines = 0

    def observe(self) -> Observation:
        return Observation("kept", self.outside["value"])

    def checkpoint(self, name: str) -> Any:
        self.value = dict(self.outside)
        return super().checkpoint(name)

    def rollback(self, token: Any) -> None:
        super().rollback(token)
        self.outside.update(self.value)

    def save_baseline(self, token: Any) -> Iterable[bytes]:
        yield str(self.outside["value"]).encode()
        yield str(self.outside["hidden"]).encode()

    def restore_baseline(self, pieces: Iterable[bytes]) -> None:
        self.outside["value"], self.outside["hidden"] = map(int, pieces)
        self.restored_baselines += 1


class Died(BaseException):
    """Stands for a kill: nothing is restored after it."""


@pytest.fixture
def dying(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that explores until the process "dies"."""

    def explore(agent: Agent) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(Agent, "_restore_world", lambda *_: None)
            patch.setattr(Journal, "close", lambda journal: journal._table.close())
            with pytest.raises(Died):
                agent.explore()

    return explore


def up(system: Persistent, at: int | None = None) -> Action:
    def run(world: World) -> None:
        system.outside["value"] += 1
        system.outside["hidden"] += 1
        if system.outside["hidden"] == at:
            raise Died

    return Action("up", run, lambda world: system.outside["value"] < 3)


def agent(outside: dict[str, Any], store: Path, die_at: int | None = None, **more: Any) -> Agent:
    system = Persistent(outside)
    world = World(systems={"kept": system, **more})
    return Agent(world, [up(system, die_at)], store=store)


def test_the_world_is_restored_even_if_it_shows_the_initial_state(tmp_path: Path, dying: Any) -> None:
    """Parts that are not observed have changed too."""
    outside = {"value": 0, "hidden": 0}
    dying(agent(outside, tmp_path / "e.db", die_at=2))
    assert outside == {"value": 2, "hidden": 2}
    outside["value"] = 0
    again = agent(outside, tmp_path / "e.db")
    assert len(again.explore().states) == 4
    assert again.world.systems["kept"].restored_baselines == 1
    assert outside == {"value": 0, "hidden": 0}


def test_the_baseline_is_deleted_at_the_end(tmp_path: Path) -> None:
    outside = {"value": 0, "hidden": 0}
    agent(outside, tmp_path / "e.db").explore()
    table = open_table(tmp_path / "e.db", "explore:exploration")
    assert table.read("head") is not None
    assert table.read("baseline") is None
    assert table.read("process") is None
    assert table.count("k") == 0
    table.close()
    again = agent(outside, tmp_path / "e.db")
    again.explore()
    assert again.world.systems["kept"].restored_baselines == 0


def test_without_a_store_no_baseline_is_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Persistent, "save_baseline", lambda *_: pytest.fail("a baseline was saved"))
    system = Persistent({"value": 0, "hidden": 0})
    Agent(World(systems={"kept": system}), [up(system)]).explore()


def test_a_system_that_cannot_be_restored_is_named(tmp_path: Path, dying: Any) -> None:
    outside, plain = {"value": 0, "hidden": 0}, Box("here")
    dying(agent(outside, tmp_path / "e.db", die_at=2, plain=plain))
    plain.value = "elsewhere"
    with pytest.raises(JournalMismatchError, match=r"'plain' .* save_baseline"):
        agent(outside, tmp_path / "e.db", plain=plain).explore()
    plain.value = "here"
    assert len(agent(outside, tmp_path / "e.db", plain=plain).explore().states) == 4


def test_a_system_that_differs_after_the_restore_is_named(
    tmp_path: Path, dying: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = {"value": 0, "hidden": 0}
    dying(agent(outside, tmp_path / "e.db", die_at=2))
    with monkeypatch.context() as patch:
        patch.setattr(Persistent, "restore_baseline", lambda *_: None)
        with pytest.raises(JournalMismatchError, match="'kept' was restored, but differs"):
            agent(outside, tmp_path / "e.db").explore()
    assert len(agent(outside, tmp_path / "e.db").explore().states) == 4


def test_another_database_is_left_unchanged(
    tmp_path: Path, dying: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The script refers to another database now; the baseline of the first is not written to it."""
    outside = {"value": 0, "hidden": 0}
    dying(agent(outside, tmp_path / "e.db", die_at=2))
    monkeypatch.setattr(Persistent, "restore_baseline", lambda *_: False)
    with pytest.raises(JournalMismatchError, match="'kept' refers to another database"):
        agent({"value": 7, "hidden": 7}, tmp_path / "e.db").explore()
    other = {"value": 0, "hidden": 5}
    with pytest.raises(JournalMismatchError, match=r"recovery data .* other systems"):
        agent(other, tmp_path / "e.db").explore()
    assert other == {"value": 0, "hidden": 5}
    monkeypatch.undo()
    assert len(agent(outside, tmp_path / "e.db").explore().states) == 4
    assert outside == {"value": 0, "hidden": 0}


def test_a_failed_restore_can_be_repeated(
    tmp_path: Path, dying: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = {"value": 0, "hidden": 0}
    dying(agent(outside, tmp_path / "e.db", die_at=2))

    def fail(system: Persistent, pieces: Iterable[bytes]) -> None:
        raise OSError("disk unavailable")

    with monkeypatch.context() as patch:
        patch.setattr(Persistent, "restore_baseline", fail)
        with pytest.raises(ExplorationAborted, match=r"'kept' .* disk unavailable"):
            agent(outside, tmp_path / "e.db").explore()
    assert len(agent(outside, tmp_path / "e.db").explore().states) == 4


def test_the_baseline_stays_if_the_world_changes_again(
    tmp_path: Path, dying: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another writer changes the system after the restore: this exploration fails, the next one succeeds."""
    outside = {"value": 0, "hidden": 0}
    dying(agent(outside, tmp_path / "e.db", die_at=2))
    with monkeypatch.context() as patch:
        patch.setattr(World, "_clear_poison", lambda world: outside.update(value=1))
        with pytest.raises(JournalMismatchError, match="began in state"):
            agent(outside, tmp_path / "e.db").explore()
    assert outside["value"] == 1
    assert len(agent(outside, tmp_path / "e.db").explore().states) == 4
    assert outside == {"value": 0, "hidden": 0}


def test_fakes_are_restored(tmp_path: Path, dying: Any) -> None:
    outside, storage, cache = {"value": 0, "hidden": 0}, MemoryStorage(), MemoryStorage()
    storage.put("key", "first")
    dying(agent(outside, tmp_path / "e.db", die_at=2, storage=storage))
    cache.put("key", "of the second process")
    again = agent(outside, tmp_path / "e.db", storage=cache)
    assert len(again.explore().states) == 4
    assert cache.observe().digest == storage.observe().digest


def test_the_context_is_restored_except_for_excluded_values(tmp_path: Path, dying: Any) -> None:
    outside = {"value": 0, "hidden": 0}

    def made(die_at: int | None, **context: Any) -> Agent:
        system = Persistent(outside)
        world = World(systems={"kept": system}, context=context, exclude_from_identity=["port"])
        return Agent(world, [up(system, die_at)], store=tmp_path / "e.db")

    dying(made(2, port=1, seen=[0]))
    again = made(None, port=2, seen=[2], more=True)
    assert len(again.explore().states) == 4
    assert again.world.context.to_dict() == {"port": 2, "seen": [0]}


def test_a_baseline_that_cannot_be_saved_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(system: Persistent, token: Any) -> Iterable[bytes]:
        yield b"a part"
        raise CheckpointError("concurrent writes")

    monkeypatch.setattr(Persistent, "save_baseline", refuse)
    outside = {"value": 0, "hidden": 0}
    with pytest.warns(ExplorationWarning, match="'kept' .* concurrent writes"):
        assert len(agent(outside, tmp_path / "e.db").explore().states) == 4


def test_a_poisoned_world_is_restored_by_the_next_exploration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = {"value": 0, "hidden": 0}
    system = Persistent(outside)
    explorer = Agent(World(systems={"kept": system}), [up(system), Action("wait", lambda world: None)])
    explorer.store = tmp_path / "e.db"
    with monkeypatch.context() as patch:

        def fail(system: Persistent, token: Any) -> None:
            raise OSError("lost")

        patch.setattr(Persistent, "rollback", fail)
        with pytest.raises(ExplorationAborted):
            explorer.explore()
    assert explorer.world.poisoned
    assert len(explorer.explore().states) == 4
    assert not explorer.world.poisoned
    assert outside == {"value": 0, "hidden": 0}


def test_a_store_inside_an_explored_directory_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "counter").write_text("0")

    def count(world: World) -> None:
        (tmp_path / "counter").write_text(str((int((tmp_path / "counter").read_text()) + 1) % 3))

    with FileSystem(tmp_path) as system:
        explorer = Agent(World(systems={"files": system}), [Action("count", count)])
        explorer.store = tmp_path / "explore.db"
        with pytest.raises(DefinitionError, match="'files' changed"):
            explorer.explore()
    assert (tmp_path / "counter").read_text() == "0"


def test_a_store_in_the_explored_database_is_rejected(database: Database) -> None:
    database.run("CREATE TABLE t (v int)")
    explorer = Agent(World(systems={"db": database.system()}), [Action("nothing", lambda world: None)])
    explorer.store = PostgresStore(database.dsn)
    with pytest.raises(DefinitionError, match="'db' changed"):
        explorer.explore()
    explorer.store.close()


EXPLORES = """
import sys, time
from clew.explore import Action, Agent, World
from tests.explore.models import Box

def wait(world):
    print("ready", flush=True)
    time.sleep(600)

Agent(World(systems={"box": Box(0)}), [Action("wait", wait)], store=sys.argv[1]).explore()
"""


def test_a_running_exploration_is_not_disturbed(tmp_path: Path) -> None:
    path = os.pathsep.join(filter(None, sys.path))
    process = subprocess.Popen(
        [sys.executable, "-c", EXPLORES, str(tmp_path / "e.db")],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert process.stdout is not None
    explorer = Agent(World(systems={"box": Box(0)}), [Action("wait", lambda world: None)])
    explorer.store = tmp_path / "e.db"
    try:
        assert process.stdout.readline() == "ready\n"
        with pytest.raises(StoreConflictError, match=f"process {process.pid} "):
            explorer.explore()
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
    assert len(explorer.explore().states) == 1


def test_a_baseline_without_its_last_record_is_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that died while it wrote the baseline had not run an action yet."""
    outside = {"value": 0, "hidden": 0}

    def die(*_: Any) -> baseline.Baseline:
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(baseline, "describe", die)
        with pytest.raises(Died):
            agent(outside, tmp_path / "e.db").explore()
    again = agent(outside, tmp_path / "e.db")
    assert len(again.explore().states) == 4
    assert again.world.systems["kept"].restored_baselines == 0
