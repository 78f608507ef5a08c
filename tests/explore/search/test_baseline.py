"""What an exploration keeps in its store so that the next process can put the world back."""

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


class Kept(Box):
    """A box that outlives its process: in the test's own dict, with a counter that does not show."""

    def __init__(self, outside: dict[str, Any]) -> None:
        super().__init__(None)
        self.outside = outside
        self.recovered = 0

    def observe(self) -> Observation:
        return Observation("kept", self.outside["value"])

    def checkpoint(self, name: str) -> Any:
        self.value = dict(self.outside)
        return super().checkpoint(name)

    def rollback(self, token: Any) -> None:
        super().rollback(token)
        self.outside.update(self.value)

    def keep(self, token: Any) -> Iterable[bytes]:
        yield str(self.outside["value"]).encode()
        yield str(self.outside["hidden"]).encode()

    def recover(self, pieces: Iterable[bytes]) -> None:
        self.outside["value"], self.outside["hidden"] = map(int, pieces)
        self.recovered += 1


class Died(BaseException):
    """Nothing is put back after it, as after a kill."""


@pytest.fixture
def dying(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Explores with an action that ends the process, or would."""

    def explore(agent: Agent) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(Agent, "_put_back", lambda *_: None)
            patch.setattr(Journal, "close", lambda journal: journal._shelf.close())
            with pytest.raises(Died):
                agent.explore()

    return explore


def up(system: Kept, at: int | None = None) -> Action:
    def run(world: World) -> None:
        system.outside["value"] += 1
        system.outside["hidden"] += 1
        if system.outside["hidden"] == at:
            raise Died

    return Action("up", run, lambda world: system.outside["value"] < 3)


def agent(outside: dict[str, Any], store: Path, die_at: int | None = None, **more: Any) -> Agent:
    system = Kept(outside)
    world = World(systems={"kept": system, **more})
    return Agent(world, [up(system, die_at)], store=store)


def test_a_world_is_put_back_whatever_it_shows(tmp_path: Path, dying: Any) -> None:
    """What does not show went on too, and would go on from there."""
    outside = {"value": 0, "hidden": 0}
    dying(agent(outside, tmp_path / "e.db", die_at=2))
    assert outside == {"value": 2, "hidden": 2}
    outside["value"] = 0
    again = agent(outside, tmp_path / "e.db")
    assert len(again.explore().states) == 4
    assert again.world.systems["kept"].recovered == 1
    assert outside == {"value": 0, "hidden": 0}


def test_nothing_is_kept_after_the_end(tmp_path: Path) -> None:
    outside = {"value": 0, "hidden": 0}
    agent(outside, tmp_path / "e.db").explore()
    shelf = open_table(tmp_path / "e.db", "explore:exploration")
    assert shelf.read("head") is not None
    assert shelf.read("anchor") is None
    assert shelf.read("process") is None
    assert shelf.count("k") == 0
    shelf.close()
    again = agent(outside, tmp_path / "e.db")
    again.explore()
    assert again.world.systems["kept"].recovered == 0


def test_without_a_store_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Kept, "keep", lambda *_: pytest.fail("it was kept"))
    system = Kept({"value": 0, "hidden": 0})
    Agent(World(systems={"kept": system}), [up(system)]).explore()


def test_a_system_that_cannot_be_put_back_is_named(tmp_path: Path, dying: Any) -> None:
    outside, plain = {"value": 0, "hidden": 0}, Box("here")
    dying(agent(outside, tmp_path / "e.db", die_at=2, plain=plain))
    plain.value = "elsewhere"
    with pytest.raises(
        JournalMismatchError, match="system 'plain' is somewhere else, and has no keep and recover"
    ):
        agent(outside, tmp_path / "e.db", plain=plain).explore()
    plain.value = "here"
    assert len(agent(outside, tmp_path / "e.db", plain=plain).explore().states) == 4


def test_a_system_that_shows_something_else_afterwards_is_named(
    tmp_path: Path, dying: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = {"value": 0, "hidden": 0}
    dying(agent(outside, tmp_path / "e.db", die_at=2))
    with monkeypatch.context() as patch:
        patch.setattr(Kept, "recover", lambda *_: None)
        with pytest.raises(JournalMismatchError, match="system 'kept' was put back and shows something else"):
            agent(outside, tmp_path / "e.db").explore()
    assert len(agent(outside, tmp_path / "e.db").explore().states) == 4


def test_another_place_is_left_as_it_is(tmp_path: Path, dying: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A script that was pointed at another database since: what was kept of the first is not written to it."""
    outside = {"value": 0, "hidden": 0}
    dying(agent(outside, tmp_path / "e.db", die_at=2))
    monkeypatch.setattr(Kept, "recover", lambda *_: False)
    with pytest.raises(JournalMismatchError, match="system 'kept' is another one than then, and was left as"):
        agent({"value": 7, "hidden": 7}, tmp_path / "e.db").explore()
    other = {"value": 0, "hidden": 5}
    with pytest.raises(JournalMismatchError, match="the only copy of what the systems held then"):
        agent(other, tmp_path / "e.db").explore()
    assert other == {"value": 0, "hidden": 5}
    monkeypatch.undo()
    assert len(agent(outside, tmp_path / "e.db").explore().states) == 4
    assert outside == {"value": 0, "hidden": 0}


def test_one_that_fails_to_come_back_can_be_tried_again(
    tmp_path: Path, dying: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = {"value": 0, "hidden": 0}
    dying(agent(outside, tmp_path / "e.db", die_at=2))

    def fail(system: Kept, pieces: Iterable[bytes]) -> None:
        raise OSError("the disk is away")

    with monkeypatch.context() as patch:
        patch.setattr(Kept, "recover", fail)
        with pytest.raises(ExplorationAborted, match=r"'kept' could not be put back .* the disk is away"):
            agent(outside, tmp_path / "e.db").explore()
    assert len(agent(outside, tmp_path / "e.db").explore().states) == 4


def test_the_way_back_stays_while_the_world_is_elsewhere(
    tmp_path: Path, dying: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody writes again just after it was put back: that exploration is refused, the next one goes on."""
    outside = {"value": 0, "hidden": 0}
    dying(agent(outside, tmp_path / "e.db", die_at=2))
    with monkeypatch.context() as patch:
        patch.setattr(World, "sound_again", lambda world: outside.update(value=1))
        with pytest.raises(JournalMismatchError, match="began in state"):
            agent(outside, tmp_path / "e.db").explore()
    assert outside["value"] == 1
    assert len(agent(outside, tmp_path / "e.db").explore().states) == 4
    assert outside == {"value": 0, "hidden": 0}


def test_systems_that_write_their_tokens_down_are_kept_by_that(tmp_path: Path, dying: Any) -> None:
    outside, storage, cache = {"value": 0, "hidden": 0}, MemoryStorage(), MemoryStorage()
    storage.put("key", "first")
    dying(agent(outside, tmp_path / "e.db", die_at=2, storage=storage))
    cache.put("key", "of the second process")
    again = agent(outside, tmp_path / "e.db", storage=cache)
    assert len(again.explore().states) == 4
    assert cache.observe().digest == storage.observe().digest


def test_the_context_comes_back_but_for_what_is_ignored(tmp_path: Path, dying: Any) -> None:
    outside = {"value": 0, "hidden": 0}

    def made(die_at: int | None, **context: Any) -> Agent:
        system = Kept(outside)
        world = World(systems={"kept": system}, context=context, identity_ignores=["port"])
        return Agent(world, [up(system, die_at)], store=tmp_path / "e.db")

    dying(made(2, port=1, seen=[0]))
    again = made(None, port=2, seen=[2], more=True)
    assert len(again.explore().states) == 4
    assert again.world.context.to_dict() == {"port": 2, "seen": [0]}


def test_what_cannot_be_kept_is_warned_about_and_explored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(system: Kept, token: Any) -> Iterable[bytes]:
        yield b"a part"
        raise CheckpointError("somebody writes")

    monkeypatch.setattr(Kept, "keep", refuse)
    outside = {"value": 0, "hidden": 0}
    with pytest.warns(
        ExplorationWarning, match="'kept' cannot be put back if this process is killed: .*writes"
    ):
        assert len(agent(outside, tmp_path / "e.db").explore().states) == 4


def test_a_poisoned_world_is_put_back_by_the_next_exploration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = {"value": 0, "hidden": 0}
    system = Kept(outside)
    explorer = Agent(World(systems={"kept": system}), [up(system), Action("wait", lambda world: None)])
    explorer.store = tmp_path / "e.db"
    with monkeypatch.context() as patch:

        def fail(system: Kept, token: Any) -> None:
            raise OSError("lost")

        patch.setattr(Kept, "rollback", fail)
        with pytest.raises(ExplorationAborted):
            explorer.explore()
    assert explorer.world.poisoned
    assert len(explorer.explore().states) == 4
    assert not explorer.world.poisoned
    assert outside == {"value": 0, "hidden": 0}


def test_a_store_inside_of_what_is_explored_is_refused(tmp_path: Path) -> None:
    (tmp_path / "counter").write_text("0")

    def count(world: World) -> None:
        (tmp_path / "counter").write_text(str((int((tmp_path / "counter").read_text()) + 1) % 3))

    with FileSystem(tmp_path) as system:
        explorer = Agent(World(systems={"files": system}), [Action("count", count)])
        explorer.store = tmp_path / "explore.db"
        with pytest.raises(DefinitionError, match="system 'files' changed when the journal was written"):
            explorer.explore()
    assert (tmp_path / "counter").read_text() == "0"


def test_a_store_in_the_database_that_is_explored_is_refused(database: Database) -> None:
    database.run("CREATE TABLE t (v int)")
    explorer = Agent(World(systems={"db": database.system()}), [Action("nothing", lambda world: None)])
    explorer.store = PostgresStore(database.dsn)
    with pytest.raises(DefinitionError, match="system 'db' changed when the journal was written"):
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


def test_a_living_exploration_is_not_disturbed(tmp_path: Path) -> None:
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
        with pytest.raises(StoreConflictError, match=f"process {process.pid} explores into"):
            explorer.explore()
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
    assert len(explorer.explore().states) == 1


def test_an_anchor_is_there_when_its_last_record_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that died while it wrote it had done nothing to the world yet."""
    outside = {"value": 0, "hidden": 0}

    def die(*_: Any) -> baseline.Baseline:
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(baseline, "describe", die)
        with pytest.raises(Died):
            agent(outside, tmp_path / "e.db").explore()
    again = agent(outside, tmp_path / "e.db")
    assert len(again.explore().states) == 4
    assert again.world.systems["kept"].recovered == 0
