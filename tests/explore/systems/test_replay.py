"""ResettableSystem: a system that can only be reset."""

from __future__ import annotations

import pytest

from clew.errors import RollbackError, SystemSetupError, UnknownCheckpointError
from clew.explore import BFS, Action, Agent, Invariant, Observation, World
from clew.explore.model.system import System
from clew.explore.systems import MemoryQueue, ResettableSystem


class Counter:
    """A device that counts up to a limit, and can be switched off and on."""

    def __init__(self) -> None:
        self.value = 99
        self.resets = 0

    def reset(self) -> None:
        self.value = 0
        self.resets += 1


def test_only_the_initial_state_can_be_restored() -> None:
    counter = Counter()
    system = ResettableSystem(lambda: counter.value, counter.reset)
    assert isinstance(system, System)
    assert system.ordering == "lifo"
    first = system.checkpoint("initial")
    assert (counter.value, counter.resets) == (0, 1)
    counter.value = 3
    later = system.checkpoint("later")
    assert (system.is_valid(first), system.is_valid(later)) == (True, False)
    with pytest.raises(RollbackError, match="repeat the actions"):
        system.rollback(later)
    system.rollback(first)
    assert (counter.value, counter.resets) == (0, 2)
    with pytest.raises(UnknownCheckpointError, match="Checkpoint not found: 9"):
        system.rollback(9)
    system.release(first)
    assert not system.is_valid(first)
    assert system.is_valid(system.checkpoint("initial again"))


def test_a_system_that_is_fresh_is_not_reset() -> None:
    counter = Counter()
    system = ResettableSystem(lambda: Observation("x", counter.value), counter.reset, is_fresh=True)
    assert system.observe() == Observation("x", 99)
    assert counter.resets == 0


def test_a_reset_that_does_not_reset_is_an_error() -> None:
    counter = Counter()
    system = ResettableSystem(lambda: counter.value, lambda: None, is_fresh=True)
    token = system.checkpoint("initial")
    counter.value = 1
    with pytest.raises(RollbackError, match="did not restore"):
        system.rollback(token)


def test_functions_are_asked_for() -> None:
    with pytest.raises(SystemSetupError, match="reset"):
        ResettableSystem(lambda: 1, None)


def test_an_agent_reaches_every_state_by_replay() -> None:
    counter, queue = Counter(), MemoryQueue()

    def up(world: World) -> None:
        counter.value += 1

    def push(world: World) -> None:
        queue.push(counter.value)

    world = World(systems={"counter": ResettableSystem(lambda: counter.value, counter.reset), "queue": queue})
    result = Agent(
        world,
        [
            Action("up", up, precondition=lambda world: counter.value < 3),
            Action("push", push, precondition=lambda world: len(queue) < 2),
        ],
        [Invariant("small", lambda world: counter.value < 4)],
        strategy=BFS(),
    ).explore()
    # no message; one of value v at a counter of c >= v; two of values v <= w at a counter c >= w: 4 + 10 + 20
    assert len(result.states) == 34
    assert not result.violations
    assert counter.resets > 1
