"""Checkpoints, rollback, poisoned worlds, replay."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from clew.errors import (
    CheckpointError,
    ClewError,
    DefinitionError,
    DivergedError,
    PoisonedWorldError,
    RollbackError,
    UnknownCheckpointError,
)
from clew.explore import Action, World
from tests.explore.models import Box


def adding(box: Box, what: Any) -> Action:
    return Action(f"add_{what}", lambda world: box.value.append(what))


@pytest.fixture
def box() -> Box:
    return Box([])


@pytest.fixture
def world(box: Box) -> World:
    return World(systems={"box": box}, context={"user": "ann"})


def test_api_and_context_are_optional() -> None:
    world = World()
    assert world.api is None
    assert world.observe().observations == {}
    client = object()
    assert World(api=client).api is client


def test_act_returns_what_the_action_returned(world: World, box: Box) -> None:
    assert world.act(Action("seven", lambda world: 7)) == 7
    with pytest.raises(ZeroDivisionError):
        world.act(Action("fails", lambda world: 1 / 0))
    assert not world.poisoned


def test_a_rollback_restores_systems_and_context(world: World, box: Box) -> None:
    checkpoint = world.checkpoint("here")
    world.act(adding(box, 1))
    world.context.set("new", "value")
    world.rollback(checkpoint)
    assert box.value == []
    assert world.context.to_dict() == {"user": "ann"}


def test_any_checkpoint_can_be_restored_in_any_order_and_again(world: World, box: Box) -> None:
    ids = {}
    for what in "abc":
        box.value.append(what)
        ids[what] = world.checkpoint(what)
    for what in "acbaacb":
        world.rollback(ids[what])
        assert box.value[-1] == what


def test_two_checkpoints_of_one_name_are_independent(world: World, box: Box) -> None:
    first = world.checkpoint("same")
    box.value.append(1)
    second = world.checkpoint("same")
    assert first != second
    world.rollback(first)
    assert box.value == []
    world.rollback(second)
    assert box.value == [1]
    assert [world.get_checkpoint(each).name for each in (first, second)] == ["same", "same"]


def test_ids_are_never_given_twice(world: World) -> None:
    ids = [world.checkpoint(name) for name in ("a", "a~2", "a", "a", "a~2")]
    world.release(ids[0])
    ids.append(world.checkpoint("a"))
    assert len(set(ids)) == len(ids)


def test_get_checkpoint_returns_its_content(world: World) -> None:
    held = world.get_checkpoint(world.checkpoint("here"))
    assert (held.id, held.name) == ("here", "here")
    assert held.system_checkpoints == {"box": 1}
    assert held.context_snapshot == {"user": "ann"}
    assert abs((datetime.now(UTC) - held.created_at).total_seconds()) < 60


def test_an_unknown_checkpoint_changes_nothing(world: World, box: Box) -> None:
    box.value.append(1)
    with pytest.raises(UnknownCheckpointError, match=r"^Checkpoint not found: nowhere$") as caught:
        world.rollback("nowhere")
    assert isinstance(caught.value, KeyError)
    assert isinstance(caught.value, ClewError)
    assert box.value == [1]
    assert not world.poisoned


def test_release_frees_the_tokens_and_is_no_error_twice(world: World, box: Box) -> None:
    checkpoint = world.checkpoint("here")
    world.release(checkpoint)
    world.release(checkpoint)
    assert box.kept == {}
    assert world.checkpoints == ()
    with pytest.raises(UnknownCheckpointError):
        world.rollback(checkpoint)


# -- all or nothing ---------------------------------------------------------------------------------------------


class Failing(Box):
    """A system that fails on request."""

    fails: str = ""

    def checkpoint(self, name: str) -> int:
        if self.fails == "checkpoint":
            raise OSError("disk full")
        if self.fails == "interrupt":
            raise KeyboardInterrupt
        return super().checkpoint(name)

    def rollback(self, token: int) -> None:
        if self.fails == "rollback":
            self.value = "torn"
            raise OSError("connection lost")
        if self.fails == "interrupt":
            raise KeyboardInterrupt
        super().rollback(token)

    def is_valid(self, token: int) -> bool:
        if self.fails == "is_valid":
            raise OSError("connection lost")
        return super().is_valid(token)


@pytest.fixture
def failing() -> Failing:
    return Failing("intact")


@pytest.fixture
def pair(failing: Failing) -> World:
    # rolled back in the order of their names: one before and one after the failing one
    return World(systems={"a": Box("a0"), "b": failing, "c": Box("c0")})


def test_a_checkpoint_is_discarded_if_one_system_fails(pair: World, failing: Failing) -> None:
    failing.fails = "checkpoint"
    with pytest.raises(CheckpointError, match=r"'here' .* 'b' .*OSError: disk full"):
        pair.checkpoint("here")
    assert pair.systems["a"].kept == {}
    assert pair.checkpoints == ()
    failing.fails = ""
    assert pair.checkpoint("here")


def test_a_checkpoint_is_discarded_if_the_context_cannot_be_copied(pair: World) -> None:
    pair.context.set("list", [])
    pair.context.get("list").append(object())
    with pytest.raises(CheckpointError, match="context"):
        pair.checkpoint("here")
    assert pair.systems["a"].kept == {}


def test_every_system_is_asked_before_any_is_rolled_back(pair: World, failing: Failing) -> None:
    checkpoint = pair.checkpoint("here")
    pair.systems["a"].value = "a1"
    failing.kept.clear()
    with pytest.raises(RollbackError, match="no longer valid in system 'b'"):
        pair.rollback(checkpoint)
    assert pair.systems["a"].value == "a1"
    assert not pair.poisoned
    pair.observe()


def test_a_system_that_cannot_answer_counts_as_invalid(pair: World, failing: Failing) -> None:
    checkpoint = pair.checkpoint("here")
    failing.fails = "is_valid"
    with pytest.raises(RollbackError, match="no longer valid"):
        pair.rollback(checkpoint)
    assert not pair.is_valid(checkpoint)


def test_a_rollback_that_fails_partway_poisons_the_world(pair: World, failing: Failing) -> None:
    state = pair.observe_and_checkpoint("here")
    assert state.checkpoint_id is not None
    failing.fails = "rollback"
    with pytest.raises(RollbackError, match=r"'b' .*connection lost.*poisoned"):
        pair.rollback(state.checkpoint_id)
    assert pair.poisoned
    for rejected in (
        pair.observe,
        lambda: pair.act(Action("anything", lambda world: None)),
        lambda: pair.checkpoint("another"),
        lambda: pair.observe_and_checkpoint("another"),
    ):
        with pytest.raises(PoisonedWorldError, match="connection lost"):
            rejected()
    failing.fails = ""
    pair.rollback(state.checkpoint_id)
    assert not pair.poisoned
    assert pair.observe() == state


def test_recovery_is_verified_against_what_was_observed(pair: World, failing: Failing) -> None:
    state = pair.observe_and_checkpoint("here")
    assert state.checkpoint_id is not None
    failing.fails = "rollback"
    with pytest.raises(RollbackError):
        pair.rollback(state.checkpoint_id)
    failing.fails = ""
    failing.kept[1] = "not what it was"
    with pytest.raises(RollbackError, match="stays poisoned"):
        pair.rollback(state.checkpoint_id)
    assert pair.poisoned
    failing.kept[1] = "intact"
    pair.rollback(state.checkpoint_id)
    assert not pair.poisoned


def test_without_an_observation_a_rollback_that_succeeds_is_enough(pair: World, failing: Failing) -> None:
    checkpoint = pair.checkpoint("never observed")
    failing.fails = "rollback"
    with pytest.raises(RollbackError):
        pair.rollback(checkpoint)
    failing.fails = ""
    pair.rollback(checkpoint)
    assert not pair.poisoned
    assert failing.value == "intact"


def test_release_continues_if_a_system_fails(pair: World, failing: Failing) -> None:
    checkpoint = pair.checkpoint("here")
    failing.release = lambda token: 1 / 0
    pair.release(checkpoint)
    assert pair.systems["c"].kept == {}


# -- replay -----------------------------------------------------------------------------------------------------


def test_a_state_without_a_checkpoint_is_reached_by_replay(world: World, box: Box) -> None:
    start = world.observe_and_checkpoint("initial")
    world.act(adding(box, 1))
    world.observe_and_checkpoint("after_add_1_1")
    world.act(adding(box, 2))
    world.act(adding(box, 3))
    target = world.observe()
    assert start.checkpoint_id is not None
    world.rollback(start.checkpoint_id)
    restored = box.restored
    world.replay_to(target)
    assert box.value == [1, 2, 3]
    assert world.observe() == target
    assert box.restored == restored + 1


def test_replay_starts_at_the_nearest_checkpoint(world: World, box: Box) -> None:
    done: list[int] = []

    def noting(what: int) -> Action:
        return Action(f"add_{what}", lambda world: (done.append(what), box.value.append(what)))

    world.checkpoint("initial")
    for what in (1, 2, 3):
        world.act(noting(what))
        last = world.observe_and_checkpoint("two") if what == 2 else world.observe()
    world.act(noting(4))
    done.clear()
    world.replay_to(last)
    assert done == [3]


def test_a_state_with_a_valid_checkpoint_is_rolled_back_to(world: World, box: Box) -> None:
    state = world.observe_and_checkpoint("initial")
    world.act(adding(box, 1))
    world.replay_to(state)
    assert box.value == []


def test_replay_raises_if_actions_lead_to_another_state(world: World, box: Box) -> None:
    numbers = iter(range(10))
    draw = Action("draw", lambda world: box.value.append(next(numbers)))
    world.checkpoint("initial")
    world.act(draw)
    state = world.observe()
    world.act(draw)
    with pytest.raises(DivergedError, match=rf"{state.id} .*draw"):
        world.replay_to(state)


def test_replay_needs_a_checkpoint_on_the_path(world: World, box: Box) -> None:
    world.act(adding(box, 1))
    state = world.observe()
    world.act(adding(box, 2))
    with pytest.raises(UnknownCheckpointError, match="Checkpoint not found"):
        world.replay_to(state)


def test_the_path_is_unknown_after_an_action_that_raised(world: World, box: Box) -> None:
    world.checkpoint("initial")
    with pytest.raises(ZeroDivisionError):
        world.act(Action("half", lambda world: (box.value.append(1), 1 / 0)))
    state = world.observe()
    world.act(adding(box, 2))
    with pytest.raises(UnknownCheckpointError):
        world.replay_to(state)


# -- invalid arguments ------------------------------------------------------------------------------------------


def test_an_object_without_the_methods_of_a_system_is_rejected() -> None:
    with pytest.raises(DefinitionError, match="'db' has no observe, checkpoint, rollback, is_valid, release"):
        World(systems={"db": object()})


def test_a_string_is_not_a_list_of_names() -> None:
    with pytest.raises(DefinitionError, match="list of names"):
        World(exclude_from_identity="user")


def test_a_rollback_that_was_interrupted_poisons_the_world(pair: World, failing: Failing) -> None:
    """Ctrl-C after the first system was restored: the world is in no state that ever existed."""
    state = pair.observe_and_checkpoint("here")
    assert state.checkpoint_id is not None
    failing.fails = "interrupt"
    with pytest.raises(KeyboardInterrupt):
        pair.rollback(state.checkpoint_id)
    assert pair.poisoned
    failing.fails = ""
    pair.rollback(state.checkpoint_id)
    assert pair.observe() == state


def test_an_interrupted_checkpoint_leaves_no_tokens(pair: World, failing: Failing) -> None:
    failing.fails = "interrupt"
    with pytest.raises(KeyboardInterrupt):
        pair.checkpoint("here")
    assert pair.checkpoints == ()
    assert all(not system.kept for system in pair.systems.values())


def test_invalid_arguments_are_rejected(world: World) -> None:
    for rejected, message in (
        (lambda: world.act(len), "expects an Action, got <built-in function len>"),
        (lambda: world.replay_to("abc"), "expects a State, got 'abc'"),
        (lambda: world.checkpoint(3), "must be a string, got 3"),
        (lambda: world.observe_and_checkpoint(None), "must be a string, got None"),
    ):
        with pytest.raises(DefinitionError, match=message):
            rejected()


def test_an_ordering_is_any_or_lifo() -> None:
    class Fifo(Box):
        ordering = "fifo"

    with pytest.raises(DefinitionError, match=r"'box': ordering .* got 'fifo'"):
        World(systems={"box": Fifo()})
