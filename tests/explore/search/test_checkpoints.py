"""The checkpoint cache with a memory limit."""

from __future__ import annotations

from typing import Any

import pytest

from clew.errors import ExplorationWarning
from clew.explore import Action, Agent, Invariant, World
from clew.explore.search.checkpoints import CheckpointCache
from tests.explore.models import Box, records
from tests.explore.test_agent import STRATEGIES, each_strategy, edges


class Sized(Box):
    """Counts the largest number of tokens that it held."""

    most = 0

    def checkpoint(self, name: str) -> int:
        token = super().checkpoint(name)
        self.most = max(self.most, len(self.kept))
        return token

    def size(self, token: int) -> int:
        return 1000


@pytest.fixture(scope="module")
def whole() -> Any:
    return edges(Agent(*records(values=5)).explore())


@each_strategy
@pytest.mark.parametrize("memory", [0, 5_000, 50_000])
def test_a_limit_does_not_change_the_result(strategy: Any, memory: int, whole: Any) -> None:
    box = Sized()
    result = Agent(*records(values=5, box=box), strategy=strategy, memory_limit=memory).explore()
    assert edges(result) == whole
    # above the limit: the initial checkpoint, the current one, and two new ones
    assert box.most <= memory / 1000 + 4
    assert box.kept == {}


def test_states_that_moved_to_disk_can_still_be_read(whole: Any) -> None:
    result = Agent(*records(values=5), memory_limit=2_000).explore()
    assert sum(isinstance(state.held, tuple) for state in result.states) < 30
    rows = [state["records"] for state in result.states]
    assert len({str(sorted(row.items())) for row in rows}) == 216
    assert result.states[0].observations["records"].data == {}


def test_violations_are_confirmed_with_a_limit() -> None:
    world, actions = records(values=5)
    rows = world.systems["records"]
    invariants = [Invariant("few", lambda world: len(rows.value) < 3)]
    for strategy in STRATEGIES:
        (violation,) = (
            Agent(world, actions, invariants, strategy=strategy, memory_limit=3_000).explore().violations
        )
        assert len(violation.path) == 3
        assert violation.confirmed


def test_contexts_are_rolled_back_by_replay() -> None:
    box = Sized()
    world, actions = records(values=3, box=box)
    world.context.set("log", [])
    actions.append(Action("note", lambda world: world.context.get("log").append(1), max_calls=2))
    unlimited = Agent(world, actions).explore()
    assert edges(Agent(world, actions, memory_limit=2_000).explore()) == edges(unlimited)
    assert isinstance(world, World)
    assert world.context.to_dict() == {"log": []}


def cache(box: Box, memory: int, *, oldest_first: bool = True, states: int = 10) -> CheckpointCache:
    """Return a cache with checkpoints of slightly more than a thousand bytes each."""
    world = World(systems={"box": box})
    made = CheckpointCache(world, memory, oldest_first)
    for number in range(states):
        box.value = number
        made.create(number, f"state {number}", b"%32d" % number)
    return made


@pytest.mark.parametrize("oldest_first, stay", [(True, [0, 1, 2]), (False, [0, 8, 9])])
def test_checkpoints_needed_last_are_released_first(oldest_first: bool, stay: list[int]) -> None:
    """Breadth first continues with the oldest, depth first with the newest. Three of five remain after making room."""
    made = cache(Sized(), 5_500, oldest_first=oldest_first)
    made.make_room([], current=9 if not oldest_first else 0)
    assert [number for number in range(10) if made.has(number)] == stay
    assert made.used <= 5_500 * 3 / 4  # more than needed, so that not every step frees memory


def test_released_checkpoints_do_not_count() -> None:
    made = cache(Sized(), 100_000)
    before = made.used
    made.release(4)
    made.release(4)
    assert made.used == before * 9 // 10
    made.release_all()
    assert not any(made.has(number) for number in range(10))


def test_checkpoints_of_exhausted_states_are_released_first() -> None:
    made = cache(Sized(), 9_000)
    for number in (0, 5, 6):
        made.mark_exhausted(number)
    made.make_room([], current=9)
    assert [number for number in range(10) if not made.has(number)] == [5, 6]


def test_a_failed_checkpoint_is_not_attempted_again() -> None:
    class Full(Sized):
        tries = 0

        def checkpoint(self, name: str) -> int:
            if self.value == {"r0": 1}:
                self.tries += 1
                raise OSError("disk full")
            return super().checkpoint(name)

    box = Full()
    with pytest.warns(ExplorationWarning, match="disk full.* replay") as caught:
        result = Agent(*records(values=3, box=box)).explore()
    assert len(result.states) == 64
    assert (box.tries, len(caught)) == (1, 1)
