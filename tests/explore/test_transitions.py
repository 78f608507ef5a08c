"""What actions say about their own transition, probes, and explorations with a time limit."""

from __future__ import annotations

import pytest

from clew.errors import DefinitionError
from clew.explore import Action, Agent, Finding, Invariant, Severity, World
from clew.explore.systems import MemoryStorage


def counter(world: World, key: str = "n") -> int:
    return world.context.get(key, 0)


def add(world: World) -> None:
    world.context.set("n", min(counter(world) + 1, 4))


def report_three(world: World) -> list[Finding]:
    add(world)
    return [Finding("three", f"n is {counter(world)}", Severity.LOW)] if counter(world) == 3 else []


def test_findings_of_an_action_are_violations_grouped_by_key() -> None:
    actions = [Action("add", report_three), Action("also", report_three)]
    result = Agent(World(), actions, progress=False).explore()
    (found,) = result.violations
    assert (found.name, found.invariant, found.kind.cause) == ("three", None, "finding")
    assert (found.severity, found.count, found.confirmed) == (Severity.LOW, 2, True)
    assert len(found.path) == 3
    assert found.path[-1].to_state_id is not None


def test_other_return_values_are_ignored() -> None:
    actions = [Action("add", lambda world: (add(world), "text", 3))]
    assert Agent(World(), actions, progress=False).explore().ok


def test_the_key_and_the_severity_of_a_finding_are_checked() -> None:
    with pytest.raises(DefinitionError):
        Finding("", "nothing")
    with pytest.raises(DefinitionError):
        Finding("x", "y", "high")


def test_a_probe_is_judged_and_leads_to_no_state() -> None:
    storage = MemoryStorage()

    def probe(world: World) -> Finding | None:
        storage.put("key", b"x")
        world.context.set("probed", True)
        return Finding("two", "seen", Severity.HIGH) if counter(world) == 2 else None

    actions = [Action("add", add), Action("probe", probe, probe=True)]
    never = Invariant("small", lambda world: not (counter(world) == 4 and world.context.has("probed")))
    result = Agent(World(systems={"storage": storage}), actions, [never], progress=False).explore()
    assert len(result.states) == 5
    assert result.coverage.actions["probe"].tried == 5
    assert {each.name: each.actions for each in result.violations} == {
        "two": ("add", "add", "probe"),
        "small": ("add", "add", "add", "add", "probe"),
    }
    assert all(each.confirmed for each in result.violations)
    assert not storage.list()
    steps = [line.split() for line in str(result).splitlines() if line.split()[1:2] == ["probe"]]
    assert {step[-1] for step in steps} == {"undone"}  # not "no change": the finding may be about one


def test_within_reserves_time_for_confirmation() -> None:
    ticks = [0]

    def step(world: World) -> list[Finding]:
        ticks[0] += 1
        world.context.set("n", counter(world) + 1)
        return [Finding(f"key {counter(world)}", "seen")]

    agent = Agent(World(), [Action("step", step)], within=100, progress=False)
    agent._clock = lambda: ticks[0]
    result = agent.explore()
    assert result.truncated
    assert len(result.transitions) == 70
    confirmed = [each for each in result.violations if each.confirmed]
    rest = [each for each in result.violations if not each.confirmed]
    assert confirmed
    assert rest
    assert not any(each.replayed for each in rest)
    assert max(len(each.path) for each in confirmed) < min(len(each.path) for each in rest)
    assert "ran out" in str(result)


@pytest.mark.parametrize("within", [0, -1, "60", float("inf"), True])
def test_within_must_be_a_number_of_seconds(within: object) -> None:
    with pytest.raises(DefinitionError):
        Agent(World(), [Action("add", add)], within=within)


def test_a_resumed_exploration_keeps_findings(tmp_path) -> None:
    store = str(tmp_path / "explore.db")
    actions = [Action("add", report_three)]
    Agent(World(), actions, store=store, max_steps=3, progress=False).explore()
    result = Agent(World(), actions, store=store, progress=False).explore()
    assert result.resumed_transitions == 3
    assert [each.name for each in result.violations] == ["three"]
