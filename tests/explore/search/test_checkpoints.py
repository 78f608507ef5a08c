"""When there is no room for all checkpoints."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from clew.errors import ExplorationWarning
from clew.explore import BFS, DFS, Action, Agent, Invariant, World
from clew.explore.search.checkpoints import CheckpointCache
from tests.explore.models import Box, records
from tests.explore.test_agent import STRATEGIES, each_strategy, edges


class Sized(Box):
    """Counts how many tokens it holds at most."""

    most = 0

    def checkpoint(self, name: str) -> int:
        token = super().checkpoint(name)
        self.most = max(self.most, len(self.kept))
        return token

    def size(self, token: int) -> int:
        return 1000


class Writable(Sized):
    """Can write its tokens down."""

    written = 0

    def dump(self, token: int) -> bytes:
        self.written += 1
        return pickle.dumps(self.kept[token])

    def load(self, data: bytes) -> int:
        self.made += 1
        self.kept[self.made] = pickle.loads(data)
        return self.made


@pytest.fixture(scope="module")
def whole() -> Any:
    return edges(Agent(*records(values=5)).explore())


@each_strategy
@pytest.mark.parametrize("memory", [0, 5_000, 50_000])
def test_a_limit_changes_nothing_but_the_way_states_are_reached(
    strategy: Any, memory: int, whole: Any
) -> None:
    box = Sized()
    result = Agent(*records(values=5, box=box), strategy=strategy, memory=memory).explore()
    assert edges(result) == whole
    # beyond the limit: the initial one, the one that is worked on, and two that were just made
    assert box.most <= memory / 1000 + 4
    assert box.kept == {}


def test_states_that_moved_to_disk_can_still_be_read(whole: Any) -> None:
    result = Agent(*records(values=5), memory=2_000).explore()
    assert sum(isinstance(state.held, tuple) for state in result.states) < 30
    rows = [state["records"] for state in result.states]
    assert len({str(sorted(row.items())) for row in rows}) == 216
    assert result.states[0].observations["records"].data == {}


def test_checkpoints_that_can_be_written_down_go_to_disk(whole: Any) -> None:
    plain, writable = Sized(), Writable()
    for box in (plain, writable):
        result = Agent(*records(values=5, box=box), memory=8_000).explore()
        assert edges(result) == whole
    assert writable.written > 50
    assert writable.most <= 12
    assert writable.kept == {}


def test_reaching_by_replay_does_actions_again_and_from_disk_does_not() -> None:
    def calls(box: Box) -> int:
        world, actions = records(values=6, box=box)
        done = []
        spied = [
            Action(a.name, lambda world, a=a: (done.append(1), a.run(world)), a.precondition) for a in actions
        ]
        result = Agent(world, spied, memory=6_000).explore()
        return len(done) - len(result.transitions)

    assert calls(Writable()) == 0
    assert calls(Sized()) > 0


@pytest.mark.parametrize("strategy", [BFS(), DFS()], ids=["BFS", "DFS"])
def test_what_cannot_be_read_back_is_reached_by_replay(strategy: Any, whole: Any) -> None:
    class Forgetful(Writable):
        def load(self, data: bytes) -> int:
            raise OSError("damaged")

    assert (
        edges(Agent(*records(values=5, box=Forgetful()), strategy=strategy, memory=4_000).explore()) == whole
    )


def test_violations_are_confirmed_under_a_limit_too() -> None:
    world, actions = records(values=5)
    rows = world.systems["records"]
    invariants = [Invariant("few", lambda world: len(rows.value) < 3)]
    for strategy in STRATEGIES:
        (violation,) = Agent(world, actions, invariants, strategy=strategy, memory=3_000).explore().violations
        assert len(violation.path) == 3
        assert violation.confirmed


def test_contexts_are_rolled_back_from_disk() -> None:
    box = Writable()
    world, actions = records(values=3, box=box)
    world.context.set("log", [])
    actions.append(Action("note", lambda world: world.context.get("log").append(1), max_calls=2))
    unlimited = Agent(world, actions).explore()
    assert edges(Agent(world, actions, memory=2_000).explore()) == edges(unlimited)
    assert isinstance(world, World)
    assert world.context.to_dict() == {"log": []}


def keeper(box: Box, memory: int, *, oldest_first: bool = True, states: int = 10) -> CheckpointCache:
    """The checkpoints of some states, each of a thousand bytes and a little."""
    world = World(systems={"box": box})
    made = CheckpointCache(world, memory, oldest_first)
    for number in range(states):
        box.value = number
        made.hold(number, f"state {number}", b"%32d" % number)
    return made


@pytest.mark.parametrize("oldest_first, stay", [(True, [0, 1, 2]), (False, [0, 8, 9])])
def test_those_go_first_that_are_needed_last(oldest_first: bool, stay: list[int]) -> None:
    """Breadth first, the oldest come next; depth first, the newest do. There is room for five, so three are left."""
    made = keeper(Sized(), 5_500, oldest_first=oldest_first)
    made.make_room([], current=9 if not oldest_first else 0)
    assert [number for number in range(10) if made.has(number)] == stay
    assert made.used <= 5_500 * 3 / 4  # a little more is freed than needed, so that not every step has to


def test_what_is_given_up_no_longer_counts() -> None:
    made = keeper(Sized(), 100_000)
    before = made.used
    made.give_up(4)
    made.give_up(4)
    assert made.used == before * 9 // 10
    made.release_all()
    assert not any(made.has(number) for number in range(10))


def test_states_where_nothing_is_left_to_try_are_given_up_first() -> None:
    made = keeper(Sized(), 9_000)
    for number in (0, 5, 6):
        made.exhausted(number)
    made.make_room([], current=9)
    assert [number for number in range(10) if not made.has(number)] == [5, 6]


def test_a_checkpoint_that_failed_once_is_not_tried_again() -> None:
    class Full(Sized):
        tries = 0

        def checkpoint(self, name: str) -> int:
            if self.value == {"r0": 1}:
                self.tries += 1
                raise OSError("disk full")
            return super().checkpoint(name)

    box = Full()
    with pytest.warns(ExplorationWarning, match="disk full.*reached by replay") as told:
        result = Agent(*records(values=3, box=box)).explore()
    assert len(result.states) == 64
    assert (box.tries, len(told)) == (1, 1)


def test_what_checkpoints_share_is_not_written_to_disk_for_each_of_them() -> None:
    """A large thing that all states have in common: in memory it is there once."""

    class Sharing(Writable):
        def dump(self, token: int) -> bytes:
            return super().dump(token) + bytes(1_000_000)

    box = Sharing()
    made = keeper(box, 5_500)
    made.make_room([], current=0)
    assert box.written == 1  # it is tried once, and then states are reached by replay
    assert [number for number in range(10) if made.has(number)] == [0, 1, 2]
