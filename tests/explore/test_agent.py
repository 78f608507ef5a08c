"""Exploring: which states are found, by whatever strategy, and how the world is left."""

from __future__ import annotations

import warnings
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


@pytest.fixture(scope="module")
def whole() -> ExplorationResult:
    return Agent(*records()).explore()


@each_strategy
def test_every_strategy_finds_22_cubed_states_and_the_same_transitions(
    strategy: Any, whole: ExplorationResult
) -> None:
    result = Agent(*records(), strategy=strategy).explore()
    assert len(result.states) == len({state.digest for state in result.states}) == 22**3 == 10_648
    # an absent record can be created (1 of 22), a present one changed or deleted (21 of 22): for each of three records
    assert len(result.transitions) == 3 * 22**2 * (1 + 2 * 21) == 62_436
    assert edges(result) == edges(whole)
    assert {state.id for state in result.states} == {state.id for state in whole.states}
    assert not result.truncated
    assert result.coverage.open == 0
    assert result.violations == []


def test_breadth_first_finds_states_in_the_order_of_their_distance() -> None:
    small = Agent(*records(values=4)).explore()
    distances = [len(small.graph.get_path_to(state.id)) for state in small.states]
    assert distances == sorted(distances)


@each_strategy
def test_the_same_again_is_the_same_trace(strategy: Any) -> None:
    one, other = (Agent(*records(values=5), strategy=strategy).explore() for _ in range(2))
    assert one.transitions == other.transitions
    assert [s.id for s in one.states] == [s.id for s in other.states]


def test_another_seed_is_another_trace_to_the_same_states() -> None:
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


def test_depth_first_goes_on_without_going_back() -> None:
    box = Box()
    world, _, actions = counter(50, box)
    Agent(world, actions[:1], strategy=DFS()).explore()
    assert box.restored == 1  # at the end, to the initial state


def test_an_action_is_undone_even_if_it_seems_to_have_changed_nothing() -> None:
    """What is not observed is rolled back too, and must not leak into the next action."""

    class Sequence(Box):
        """Rows are observed, the number that the next row gets is not."""

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


def test_max_steps_stops_early_and_says_so() -> None:
    result = Agent(*records(values=5), max_steps=100).explore()
    assert len(result.transitions) == 100
    assert result.truncated
    assert result.coverage.open > 0


def test_a_limit_that_is_just_enough_truncates_nothing() -> None:
    total = len(Agent(*records(values=2)).explore().transitions)
    assert not Agent(*records(values=2), max_steps=total).explore().truncated
    assert Agent(*records(values=2), max_steps=total - 1).explore().truncated


def test_no_steps_at_all_is_the_initial_state() -> None:
    result = Agent(*records(), max_steps=0).explore()
    assert (len(result.states), len(result.transitions), result.truncated) == (1, 0, True)
    result = Agent(World(), []).explore()
    assert (len(result.states), len(result.transitions), result.truncated) == (1, 0, False)


def test_coverage_says_what_was_tried_and_what_never_could_be() -> None:
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
    assert coverage.never == ("never",)
    assert coverage.percent == 75.0


# -- the graph --------------------------------------------------------------------------------------------------


def test_the_graph_has_states_actions_and_shortest_paths() -> None:
    deep = Agent(*records(values=4), strategy=DFS()).explore()
    for state in deep.states:
        path = deep.graph.get_path_to(state.id)
        # each record that is there was created, and changed as often as its value says
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


def test_adding_a_state_again_gives_the_one_that_is_there(whole: ExplorationResult) -> None:
    world, _ = records()
    again = world.observe()
    assert again is not whole.initial
    assert whole.graph.add_state(again) is whole.initial


def test_paths_keep_to_requires() -> None:
    """The short way to the last state is not allowed without a detour."""
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


def test_also_when_invariants_observe_the_world_themselves() -> None:
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


def test_symmetry_leaves_one_state_of_each_kind() -> None:
    box = Box({})
    actions = [action for key in ("r0", "r1", "r2") for action in record(box, key, 3)]
    world = World(systems={"records": box}, canonical=lambda state: sorted(state["records"].values()))
    result = Agent(world, actions).explore()
    # multisets of at most three of three values: C(3 + 3, 3)
    assert len(result.states) == 20


@each_strategy
def test_actions_may_be_what_the_world_offers(strategy: Any) -> None:
    box = Box([])

    def choices(world: World) -> list[Action]:
        left = [each for each in "abc" if each not in box.value]
        return [Action(f"take {each}", lambda world, each=each: box.value.append(each)) for each in left]

    result = Agent(World(systems={"order": box}), choices, strategy=strategy).explore()
    assert len(result.states) == 1 + 3 + 6 + 6
    assert set(result.coverage.actions) == {"take a", "take b", "take c"}


# -- what goes wrong --------------------------------------------------------------------------------------------


@each_strategy
def test_systems_that_forget_later_checkpoints_are_explored_by_replay(strategy: Any) -> None:
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
    with pytest.warns(
        ExplorationWarning, match="'records' failed.*no room; the state will be reached by replay"
    ):
        result = Agent(world, actions).explore()
    assert edges(result) == edges(Agent(*records(values=3)).explore())


def test_a_failed_rollback_aborts_with_what_was_found_so_far() -> None:
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
    # it could be rolled back afterwards, which was verified
    assert not world.poisoned
    assert world.systems["records"].value == {}
    assert world.checkpoints == ()


def test_an_exploration_that_cannot_be_put_back_leaves_a_poisoned_world() -> None:
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

    with pytest.raises(ExplorationAborted, match="cannot be observed after spoil"):
        Agent(World(systems={"box": box}), [Action("spoil", spoil)]).explore()
    assert box.value == 0


def test_actions_that_lead_elsewhere_when_repeated_abort() -> None:
    numbers = iter(range(1, 1000))
    box = Pile(0)
    world = World(systems={"box": box})
    actions = [
        Action("draw", lambda world: setattr(box, "value", next(numbers))),
        Action("nothing", lambda world: None),
    ]
    with pytest.raises(ExplorationAborted, match="depends on more than the world shows") as caught:
        Agent(world, actions, max_steps=50).explore()
    assert isinstance(caught.value.__cause__, DivergedError)


def test_an_interruption_leaves_the_world_as_it_was() -> None:
    world, box, actions = counter(9)

    def interrupt(world: World) -> None:
        raise KeyboardInterrupt

    actions.append(Action("interrupt", interrupt, precondition=lambda world: box.value == 5))
    with pytest.raises(KeyboardInterrupt):
        Agent(world, actions).explore()
    assert box.value == 0
    assert world.checkpoints == ()


def test_a_quiet_exploration_warns_of_nothing_and_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Agent(*records(values=2)).explore()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "make, told",
    [
        (
            lambda: Agent(World(), None),
            r"actions are a list of Action\(name, run\), or a function.*, not None",
        ),
        (lambda: Agent(World(), Action("a", len)), r"actions are a list.*, not Action\("),
        (lambda: Agent(World(), [], None), r"invariants are a list of Invariant\(name, check\), not None"),
        (lambda: Agent(World(), [], Invariant("a", len)), r"invariants are a list.*, not Invariant\("),
        (lambda: Agent(World(), [], name=3), "name is a text, not 3"),
        (lambda: RandomWalk([1]), r"RandomWalk: a seed is a whole number, not \[1\]"),
        (lambda: Weighted("x"), "Weighted: a seed is a whole number, not 'x'"),
    ],
)
def test_what_makes_no_agent_is_refused_at_once(make: Any, told: str) -> None:
    with pytest.raises(DefinitionError, match=told):
        make()


@pytest.mark.parametrize(
    "offer, told",
    [
        (lambda world: 1 / 0, "the function that offers actions failed: ZeroDivisionError"),
        (lambda world: None, "the function that offers actions failed: TypeError"),
    ],
)
def test_a_function_that_offers_no_actions_ends_the_exploration(offer: Any, told: str) -> None:
    with pytest.raises(ExplorationAborted, match=told):
        Agent(World(), offer).explore()


def test_a_function_that_fails_later_ends_it_with_what_was_found() -> None:
    world, box, actions = counter(5)

    def offer(world: World) -> Any:
        if box.value == 3:
            raise OSError("no list today")
        return [actions[0]]

    with pytest.raises(ExplorationAborted, match="offers actions failed: OSError: no list today") as caught:
        Agent(world, offer).explore()
    assert caught.value.result is not None
    assert len(caught.value.result.states) == 3
    assert box.value == 0


def test_a_world_that_cannot_be_taken_back_at_the_end_is_not_called_explored() -> None:
    class Sticky(Box):
        def rollback(self, token: int) -> None:
            raise OSError("sticks")

    box = Sticky(0)
    up = Action("up", lambda world: setattr(box, "value", 1), precondition=lambda world: box.value == 0)
    with pytest.raises(ExplorationAborted, match="sticks") as caught:
        Agent(World(systems={"box": box}), [up]).explore()
    assert caught.value.result is not None
    assert len(caught.value.result.states) == 2


def test_a_path_is_looked_for_again_when_the_graph_grows(whole: ExplorationResult) -> None:
    graph = StateGraph(whole.graph.actions.values())
    for state in whole.states:
        graph.add_state(state)
    direct, *_ = [each for each in whole.transitions if each.from_state_id == graph.initial_id]
    graph.add_transition(direct)
    assert direct.to_state_id is not None
    assert graph.get_path_to(direct.to_state_id) == [direct]
    far = next(each for each in whole.transitions if each.from_state_id == direct.to_state_id)
    assert far.to_state_id is not None
    with pytest.raises(KeyError, match="no path"):
        graph.get_path_to(far.to_state_id)
    graph.add_transition(far)
    assert graph.get_path_to(far.to_state_id) == [direct, far]
