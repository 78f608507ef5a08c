"""The agent: every strategy finds the same states, and the world is left in its initial state."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import pytest

from clew.errors import DefinitionError, DivergedError, ExplorationAborted, ExplorationWarning, RollbackError
from clew.explore import (
    BFS,
    DFS,
    Action,
    Agent,
    CoverageGuided,
    ExplorationResult,
    Invariant,
    RandomWalk,
    StateGraph,
    Weighted,
    World,
)
from tests.explore.models import Box, Pile, counter, record, records

STRATEGIES = [BFS(), DFS(), RandomWalk(7), CoverageGuided(), Weighted(3)]
ids = [type(strategy).__name__ for strategy in STRATEGIES]
each_strategy = pytest.mark.parametrize("strategy", STRATEGIES, ids=ids)


def edges(result: ExplorationResult) -> set[tuple[str, str, str | None]]:
    return {(t.from_state_id, t.action_name, t.to_state_id) for t in result.transitions}


@cache
def explored(values: int) -> ExplorationResult:
    return Agent(*records(values)).explore()


@pytest.fixture
def whole() -> ExplorationResult:
    return explored(7)


@pytest.mark.parametrize(
    "strategy, values",
    [
        pytest.param(
            each, values, marks=[pytest.mark.slow] if values > 7 and each is not STRATEGIES[1] else []
        )
        for values in (7, 21)
        for each in STRATEGIES
    ],
)
def test_every_strategy_finds_all_states_and_the_same_transitions(strategy: Any, values: int) -> None:
    """21 values are 10 648 states and 62 436 transitions."""
    result, found = Agent(*records(values), strategy=strategy).explore(), explored(values)
    assert len(result.states) == len({state.digest for state in result.states}) == (values + 1) ** 3
    # an absent record can be created (1 of 22), a present one changed or deleted (21 of 22): for each of three records
    assert len(result.transitions) == 3 * (values + 1) ** 2 * (1 + 2 * values)
    assert edges(result) == edges(found)
    assert {state.id for state in result.states} == {state.id for state in found.states}
    assert not result.truncated
    assert result.coverage.untried_pairs == 0
    assert result.violations == []


def test_breadth_first_finds_states_in_the_order_of_their_distance() -> None:
    small = Agent(*records(values=4)).explore()
    distances = [len(small.graph.get_path_to(state.id)) for state in small.states]
    assert distances == sorted(distances)


@each_strategy
def test_repeating_an_exploration_gives_the_same_order(strategy: Any) -> None:
    one, other = (Agent(*records(values=5), strategy=strategy).explore() for _ in range(2))
    assert one.transitions == other.transitions
    assert [s.id for s in one.states] == [s.id for s in other.states]


def test_another_seed_gives_another_order_of_the_same_states() -> None:
    for kind in (RandomWalk, Weighted):
        one, other = (Agent(*records(values=5), strategy=kind(seed)).explore() for seed in (1, 2))
        assert one.transitions != other.transitions
        assert edges(one) == edges(other)


def test_a_strategy_may_be_given_as_its_class() -> None:
    assert len(Agent(*records(values=2), strategy=DFS).explore().states) == 27


@each_strategy
def test_all_tokens_are_released_and_the_world_is_at_its_initial_state(strategy: Any) -> None:
    box = Box()
    world, actions = records(values=3, box=box)
    world.context.set("cart", [])
    actions.append(Action("fill", lambda world: world.context.set("cart", [1])))
    before = world.observe()
    own = world.checkpoint("mine")
    result = Agent(world, actions, strategy=strategy).explore()
    assert world.observe() == before == result.initial
    assert world.checkpoints == (own,)
    assert len(box.kept) == 1


def test_checkpoints_are_named_after_action_and_step() -> None:
    world, _, actions = counter(2)
    made: list[str] = []
    world.systems["count"].checkpoint = lambda name, real=world.systems["count"].checkpoint: (
        made.append(name),
        real(name),
    )[1]
    result = Agent(world, actions).explore()
    assert made == ["initial", "after_up_1", "after_up_3"]
    assert [state.checkpoint_id for state in result.states] == made


def test_one_checkpoint_is_made_for_each_state_and_not_for_each_transition() -> None:
    box = Box()
    Agent(*records(values=4, box=box)).explore()
    assert box.made == 5**3


def test_depth_first_needs_few_rollbacks() -> None:
    box = Box()
    world, _, actions = counter(50, box)
    Agent(world, actions[:1], strategy=DFS()).explore()
    assert box.restored == 1  # at the end, to the initial state


def test_an_action_is_undone_even_if_it_seems_to_have_changed_nothing() -> None:
    """Parts that are not observed are rolled back too, and must not affect the next action."""

    class Sequence(Box):
        """Rows are observed; the number of the next row is not."""

        def observe(self) -> Any:
            from clew.explore import Observation

            return Observation("", self.value["rows"])

    box = Sequence({"rows": [], "next": 1})

    def insert(world: World) -> None:
        box.value["rows"].append(box.value["next"])
        box.value["next"] += 1

    def insert_and_delete(world: World) -> None:
        box.value["next"] += 1

    world = World(systems={"db": box})
    actions = [
        Action("insert_and_delete", insert_and_delete),
        Action("insert", insert, precondition=lambda world: len(box.value["rows"]) < 2),
    ]
    for strategy in STRATEGIES:
        result = Agent(world, actions, strategy=strategy).explore()
        assert sorted(state["db"] for state in result.states) == [[], [1], [1, 2]]


# -- limits -----------------------------------------------------------------------------------------------------


def test_max_steps_truncates() -> None:
    result = Agent(*records(values=5), max_steps=100).explore()
    assert len(result.transitions) == 100
    assert result.truncated
    assert result.coverage.untried_pairs > 0


def test_a_limit_that_is_just_enough_truncates_nothing() -> None:
    total = len(Agent(*records(values=2)).explore().transitions)
    assert not Agent(*records(values=2), max_steps=total).explore().truncated
    assert Agent(*records(values=2), max_steps=total - 1).explore().truncated


def test_no_steps_at_all_is_the_initial_state() -> None:
    result = Agent(*records(), max_steps=0).explore()
    assert (len(result.states), len(result.transitions), result.truncated) == (1, 0, True)
    result = Agent(World(), []).explore()
    assert (len(result.states), len(result.transitions), result.truncated) == (1, 0, False)


def test_coverage_counts_tries_and_actions_that_were_never_enabled() -> None:
    world, _box, actions = counter(2)
    actions.append(Action("never", lambda world: None, precondition=lambda world: False))
    actions.append(Action("fails", lambda world: 1 / 0))
    coverage = Agent(world, actions).explore().coverage
    assert {name: (each.tried, each.raised) for name, each in coverage.actions.items()} == {
        "up": (2, 0),
        "reset": (3, 0),
        "never": (0, 0),
        "fails": (3, 3),
    }
    assert coverage.never_enabled == ("never",)
    assert coverage.percent == 75.0


# -- the graph --------------------------------------------------------------------------------------------------


def test_the_graph_has_states_actions_and_shortest_paths() -> None:
    deep = Agent(*records(values=4), strategy=DFS()).explore()
    for state in deep.states:
        path = deep.graph.get_path_to(state.id)
        # each record was created once, and changed as often as its value
        assert len(path) == sum(1 + value for value in state["records"].values())
        here = deep.initial.id
        for step in path:
            assert step.from_state_id == here
            here = step.to_state_id
        assert here == state.id
    assert deep.graph.get_path_to(deep.initial.id) == []
    assert deep.graph.get_state(deep.initial.id) is deep.initial
    assert deep.graph.get_state(deep.initial.digest.hex()) is deep.initial
    assert deep.graph.get_state("nothing") is None
    assert deep.graph.get_action("create_r0").name == "create_r0"
    assert deep.graph.get_action("nothing") is None
    with pytest.raises(KeyError):
        deep.graph.get_path_to("nothing")


def test_adding_a_known_state_returns_the_existing_one(whole: ExplorationResult) -> None:
    world, _ = records()
    again = world.observe()
    assert again is not whole.initial
    assert whole.graph.add_state(again) is whole.initial


def test_paths_respect_requires() -> None:
    """The shortest path to the last state is not allowed without a detour."""
    box = Box(0)
    to = lambda value: lambda world: setattr(box, "value", value)
    actions = [
        Action("key", to(1), precondition=lambda world: box.value == 0),
        Action("back", to(0), precondition=lambda world: box.value == 1),
        Action("door", to(2), precondition=lambda world: box.value == 0, requires=["key"]),
    ]
    result = Agent(World(systems={"box": box}), actions).explore()
    (end,) = [state for state in result.states if state["box"] == 2]
    assert [step.action_name for step in result.graph.get_path_to(end.id)] == ["key", "back", "door"]


def test_any_state_of_a_result_can_be_visited_by_replay() -> None:
    world, actions = records(values=3)
    result = Agent(world, actions, strategy=RandomWalk(1)).explore()
    target = result.states[-1]
    world.replay_to(target)
    assert world.observe() == target


def test_replay_works_if_invariants_observe_the_world() -> None:
    world, actions = records(values=3)
    world.observe_and_checkpoint("to come back to")
    looking = Invariant("looks", lambda world: bool(world.observe().id))
    result = Agent(world, actions, [looking], strategy=DFS()).explore()
    for target in result.states[::7]:
        world.replay_to(target)
        assert world.observe() == target


@pytest.mark.parametrize("values", range(1, 7))
def test_golden_counts(values: int) -> None:
    result = Agent(*records(values=values)).explore()
    assert len(result.states) == (values + 1) ** 3
    assert len(result.transitions) == 3 * (values + 1) ** 2 * (1 + 2 * values)


# -- symmetry, and actions that the world offers ----------------------------------------------------------------


def test_canonicalize_merges_symmetric_states() -> None:
    box = Box({})
    actions = [action for key in ("r0", "r1", "r2") for action in record(box, key, 3)]
    world = World(systems={"records": box}, canonicalize=lambda state: sorted(state["records"].values()))
    result = Agent(world, actions).explore()
    # multisets of at most three of three values: C(3 + 3, 3)
    assert len(result.states) == 20


@each_strategy
def test_actions_may_come_from_a_function_of_the_world(strategy: Any) -> None:
    box = Box([])

    def choices(world: World) -> list[Action]:
        left = [each for each in "abc" if each not in box.value]
        return [Action(f"take {each}", lambda world, each=each: box.value.append(each)) for each in left]

    result = Agent(World(systems={"order": box}), choices, strategy=strategy).explore()
    assert len(result.states) == 1 + 3 + 6 + 6
    assert set(result.coverage.actions) == {"take a", "take b", "take c"}


# -- failures --------------------------------------------------------------------------------------------------


@each_strategy
def test_lifo_systems_are_explored_by_replay(strategy: Any) -> None:
    world, actions = records(values=3, box=Pile())
    result = Agent(world, actions, strategy=strategy).explore()
    assert edges(result) == edges(Agent(*records(values=3)).explore())


def test_after_a_failed_checkpoint_the_state_is_reached_by_replay() -> None:
    class Fussy(Box):
        def checkpoint(self, name: str) -> int:
            if self.value and self.value.get("r0") == 1:
                raise OSError("no room")
            return super().checkpoint(name)

    world, actions = records(values=3, box=Fussy())
    with pytest.warns(ExplorationWarning, match="'records' .*no room.* replay"):
        result = Agent(world, actions).explore()
    assert edges(result) == edges(Agent(*records(values=3)).explore())


def test_a_failed_rollback_aborts_with_the_result_so_far() -> None:
    class Breaking(Box):
        def rollback(self, token: int) -> None:
            if self.restored == 20:
                self.restored += 1
                raise OSError("connection lost")
            super().rollback(token)

    world, actions = records(values=5, box=Breaking())
    invariants = [Invariant("empty", lambda world: not world.systems["records"].value)]
    with pytest.raises(ExplorationAborted, match="connection lost") as caught:
        Agent(world, actions, invariants).explore()
    assert isinstance(caught.value.__cause__, RollbackError)
    result = caught.value.result
    assert len(result.transitions) == 21
    assert result.truncated
    assert not result.complete
    (violation,) = result.violations
    assert violation.actions == ("create_r0",)
    assert not violation.confirmed
    # a later rollback succeeded and was verified
    assert not world.poisoned
    assert world.systems["records"].value == {}
    assert world.checkpoints == ()


def test_a_rollback_that_always_fails_leaves_a_poisoned_world() -> None:
    class Broken(Box):
        def rollback(self, token: int) -> None:
            raise OSError("connection lost")

    world, actions = records(values=2, box=Broken())
    with pytest.raises(ExplorationAborted):
        Agent(world, actions).explore()
    assert world.poisoned


def test_a_world_that_cannot_be_observed_aborts() -> None:
    box = Box(0)

    def spoil(world: World) -> None:
        box.value = object()

    with pytest.raises(ExplorationAborted, match="after action 'spoil'"):
        Agent(World(systems={"box": box}), [Action("spoil", spoil)]).explore()
    assert box.value == 0


def test_actions_that_are_not_repeatable_abort() -> None:
    numbers = iter(range(1, 1000))
    box = Pile(0)
    world = World(systems={"box": box})
    actions = [
        Action("draw", lambda world: setattr(box, "value", next(numbers))),
        Action("nothing", lambda world: None),
    ]
    with pytest.raises(ExplorationAborted, match="replaying") as caught:
        Agent(world, actions, max_steps=50).explore()
    assert isinstance(caught.value.__cause__, DivergedError)


def test_an_interrupt_leaves_the_world_in_its_initial_state() -> None:
    world, box, actions = counter(9)

    def interrupt(world: World) -> None:
        raise KeyboardInterrupt

    actions.append(Action("interrupt", interrupt, precondition=lambda world: box.value == 5))
    with pytest.raises(KeyboardInterrupt):
        Agent(world, actions).explore()
    assert box.value == 0
    assert world.checkpoints == ()


def test_an_exploration_prints_nothing_and_does_not_warn(capfd: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Agent(*records(values=2)).explore()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: Agent(World(), None), "actions .* got None"),
        (lambda: Agent(World(), Action("a", len)), r"actions .* got Action\("),
        (lambda: Agent(World(), [], None), "invariants .* got None"),
        (lambda: Agent(World(), [], Invariant("a", len)), r"invariants .* got Invariant\("),
        (lambda: Agent(World(), [], name=3), "name .* got 3"),
        (lambda: Agent(World(), [], memory_limit="1G"), "memory_limit .* got '1G'"),
        (lambda: RandomWalk([1]), r"RandomWalk: seed .* got \[1\]"),
        (lambda: Weighted("x"), "Weighted: seed .* got 'x'"),
    ],
)
def test_invalid_options_are_rejected(make: Any, message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        make()


@pytest.mark.parametrize(
    "offer, message",
    [
        (lambda world: 1 / 0, "function .* ZeroDivisionError"),
        (lambda world: None, "function .* TypeError"),
    ],
)
def test_a_function_that_returns_no_actions_aborts(offer: Any, message: str) -> None:
    with pytest.raises(ExplorationAborted, match=message):
        Agent(World(), offer).explore()


def test_a_function_that_fails_later_aborts_with_the_result_so_far() -> None:
    world, box, actions = counter(5)

    def offer(world: World) -> Any:
        if box.value == 3:
            raise OSError("no list today")
        return [actions[0]]

    with pytest.raises(ExplorationAborted, match="OSError: no list today") as caught:
        Agent(world, offer).explore()
    assert caught.value.result is not None
    assert len(caught.value.result.states) == 3
    assert box.value == 0


def test_a_failed_rollback_at_the_end_aborts() -> None:
    class Sticky(Box):
        def rollback(self, token: int) -> None:
            raise OSError("sticks")

    box = Sticky(0)
    up = Action("up", lambda world: setattr(box, "value", 1), precondition=lambda world: box.value == 0)
    with pytest.raises(ExplorationAborted, match="sticks") as caught:
        Agent(World(systems={"box": box}), [up]).explore()
    assert caught.value.result is not None
    assert len(caught.value.result.states) == 2


def test_paths_are_computed_again_when_the_graph_grows(whole: ExplorationResult) -> None:
    graph = StateGraph(whole.graph.actions.values())
    for state in whole.states:
        graph.add_state(state)
    direct, *_ = [each for each in whole.transitions if each.from_state_id == graph.initial_id]
    graph.transitions.append(direct)
    assert direct.to_state_id is not None
    assert graph.get_path_to(direct.to_state_id) == [direct]
    far = next(each for each in whole.transitions if each.from_state_id == direct.to_state_id)
    assert far.to_state_id is not None
    with pytest.raises(KeyError, match="no path"):
        graph.get_path_to(far.to_state_id)
    graph.transitions.append(far)
    assert graph.get_path_to(far.to_state_id) == [direct, far]
