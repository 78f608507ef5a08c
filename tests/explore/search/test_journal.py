"""The journal: explorations that are resumed after their process was killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from clew.errors import JournalMismatchError, StoreConflictError, StoreCorruptError
from clew.explore import BFS, DFS, Action, Agent, Invariant, World
from clew.stores import MemoryStore
from clew.stores.factory import open_table
from tests.explore import journaled
from tests.explore.models import Box, counter, records

ROOT = Path(__file__).resolve().parents[3]


def process(
    store: Path | str, strategy: str, die_after: int = 0, **environment: str
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.explore.journaled", str(store), strategy, str(die_after)]
    path = os.pathsep.join([str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("strategy", list(journaled.STRATEGIES))
def test_a_killed_exploration_resumes_to_the_same_graph(strategy: str, tmp_path: Path) -> None:
    uninterrupted = journaled.summary(journaled.agent(None, journaled.STRATEGIES[strategy], []).explore())
    store = tmp_path / "explore.db"
    for die_after in (1, 300):
        done = process(store, strategy, die_after)
        assert done.returncode == -signal.SIGKILL, done.stderr
    done = process(store, strategy)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["summary"] == uninterrupted
    assert answer["resumed_transitions"] > 0


def test_recorded_actions_are_not_repeated(tmp_path: Path) -> None:
    store = tmp_path / "explore.db"
    first: list[int] = []
    whole = journaled.agent(store, BFS(), first).explore()
    again: list[int] = []
    resumed = journaled.agent(store, BFS(), again).explore()
    assert journaled.summary(resumed) == journaled.summary(whole)
    assert resumed.resumed_transitions == len(whole.transitions) + whole.coverage.actions["fail"].tried
    # only shrinking runs actions again
    assert len(first) - len(again) == resumed.resumed_transitions


def test_another_strategy_can_resume(tmp_path: Path) -> None:
    store = tmp_path / "explore.db"
    whole = journaled.agent(None, DFS(), []).explore()
    journaled.agent(store, BFS(), []).explore()
    other = journaled.agent(store, DFS(), []).explore()
    assert journaled.summary(other)["transitions"] == journaled.summary(whole)["transitions"]


def test_a_limit_counts_all_processes_together(tmp_path: Path) -> None:
    world, actions = records(values=5)
    for limit in (100, 100, 250):
        result = Agent(world, actions, store=tmp_path / "e.db", max_steps=limit).explore()
        assert len(result.transitions) == limit
        assert result.truncated
    result = Agent(world, actions, store=tmp_path / "e.db").explore()
    assert result.transitions == Agent(world, actions).explore().transitions
    assert not result.truncated


@pytest.mark.parametrize("place", ["memory", "file"])
def test_a_store_holds_several_explorations_by_name(place: str, tmp_path: Path) -> None:
    store: Any = MemoryStore() if place == "memory" else tmp_path / "e.db"
    for name, limit in (("one", 2), ("other", 3), ("one", 2)):
        world, _, actions = counter(limit)
        assert len(Agent(world, actions, store=store, name=name).explore().states) == limit + 1


def test_the_journal_of_another_exploration_is_rejected(tmp_path: Path) -> None:
    world, box, actions = counter(2)
    Agent(world, actions, store=tmp_path / "e.db").explore()
    with pytest.raises(JournalMismatchError, match="actions up, reset instead of up;"):
        Agent(world, actions[:1], store=tmp_path / "e.db").explore()
    box.value = 1
    with pytest.raises(JournalMismatchError, match="began in state"):
        Agent(world, actions, store=tmp_path / "e.db").explore()
    assert box.value == 1
    assert world.checkpoints == ()


def test_a_journal_of_another_format_is_rejected_and_left_unchanged(tmp_path: Path) -> None:
    world, _, actions = counter(2)
    Agent(world, actions, store=tmp_path / "e.db").explore()
    table = open_table(tmp_path / "e.db", "explore:exploration")
    header = json.loads(table.read("head") or b"")
    table.write([("head", json.dumps({**header, "format": 1}).encode())])
    before = dict(table.scan())
    with pytest.raises(JournalMismatchError, match="format 1 instead of 2"):
        Agent(world, actions, store=tmp_path / "e.db").explore()
    assert dict(table.scan()) == before
    table.close()


def test_a_journal_that_lacks_a_state_is_corrupt(tmp_path: Path) -> None:
    world, _, actions = counter(3)
    Agent(world, actions, store=tmp_path / "e.db").explore()
    table = open_table(tmp_path / "e.db", "explore:exploration")
    key = next(key for key, _ in table.scan("s") if key != f"s{world.observe().digest.hex()}")
    table.write([(key, None)])
    table.close()
    with pytest.raises(StoreCorruptError, match="lacks state"):
        Agent(world, actions, store=tmp_path / "e.db").explore()


def test_two_processes_cannot_write_one_journal(tmp_path: Path) -> None:
    world, box, actions = counter(3)
    other = open_table(tmp_path / "e.db", "explore:exploration")

    def interfere(world: World) -> None:
        other.write([("t999999999999", b"")])

    with pytest.raises(StoreConflictError):
        Agent(world, [*actions, Action("interfere", interfere)], store=tmp_path / "e.db").explore()
    other.close()
    assert box.value == 0


def test_actions_that_the_world_offers_are_bound_again_after_a_restart(tmp_path: Path) -> None:
    def agent(limit: int | None) -> Agent:
        box = Box([])

        def choices(world: World) -> list[Action]:
            """Offer some names only after two others."""
            left = [each for each in "abcd" if each not in box.value]
            open_now = left if len(box.value) > 1 else [each for each in left if each in "ab"]
            return [
                Action(f"take {each}", lambda world, each=each: box.value.append(each)) for each in open_now
            ]

        return Agent(World(systems={"order": box}), choices, store=tmp_path / "e.db", max_steps=limit)

    whole = None
    for limit in (3, 5, 7, None):
        result = agent(limit).explore()
        whole = result
    assert whole is not None
    assert whole.resumed_transitions == 7
    assert whole.ok
    assert len(whole.states) == 1 + 2 + 2 + 4 + 4


def test_after_a_restart_each_state_is_reached_again_once(tmp_path: Path) -> None:
    """Replay creates checkpoints along its path, so a long path is not repeated for each state at its end."""
    done: list[int] = []

    def agent(limit: int | None) -> Agent:
        world, _, actions = counter(200)
        counted = [
            Action(a.name, lambda world, a=a: (done.append(1), a.run(world)), a.precondition) for a in actions
        ]
        return Agent(world, counted, store=tmp_path / "e.db", max_steps=limit)

    agent(300).explore()
    done.clear()
    result = agent(None).explore()
    assert len(result.transitions) == 401
    assert len(done) < 101 + 200


@pytest.mark.parametrize("strategy", list(journaled.STRATEGIES))
def test_the_order_does_not_depend_on_the_hash_seed(strategy: str) -> None:
    one, other = (process("none", strategy, PYTHONHASHSEED=seed) for seed in ("1", "4242"))
    assert one.returncode == other.returncode == 0, one.stderr + other.stderr
    assert one.stdout == other.stdout


def test_violations_of_the_initial_state_are_recorded(tmp_path: Path) -> None:
    def explore(max_steps: int | None) -> tuple[Any, list[int]]:
        world, box, actions = counter(3)
        checked: list[int] = []

        def holds(world: World) -> bool:
            checked.append(box.value)
            return box.value > 0

        agent = Agent(
            world, actions, [Invariant("above", holds)], store=tmp_path / "e.db", max_steps=max_steps
        )
        return agent.explore(), checked

    first, checked = explore(1)
    assert [(each.actions, each.count) for each in first.violations] == [((), 1)]
    second, checked_again = explore(None)
    assert [(each.actions, each.count) for each in second.violations] == [((), 1 + 4)]
    assert checked[:2] == [0, 1]
    assert checked_again[0] == 0  # after a reset, which the first process had not tried
    assert (
        len(checked_again) == len(second.transitions) - 1 + 2
    )  # each of the rest once, and once for each replay
