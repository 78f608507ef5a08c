"""The chain, read back: digests, states, history. A digest depends on what happened, not on time or run id."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

import pytest

from clew import END, Engine, Graph, GraphState, Overwrite, Send, node, route
from clew.engine.history.chain import step_digest
from clew.engine.records import Outcome, Step
from clew.state import digest, encode
from clew.testing import VirtualClock


class State(TypedDict, total=False):
    n: int
    log: Annotated[list[str], operator.add]


@node(writes=("n", "log"))
def count(n: int) -> dict[str, Any]:
    return {"n": n + 1, "log": [f"from {n}"]}


@route(targets=["count", END])
def more(n: int) -> Any:
    return "count" if n < 3 else END


LOOP = Graph([count, more], state=State)


def digests(values: dict[str, Any], run_id: str = "run", **options: Any) -> list[str]:
    engine = Engine(LOOP, **{"clock": VirtualClock(), **options})
    engine.run(values, run_id=run_id)
    return [checkpoint.digest for checkpoint in engine.history(run_id)]


def test_neither_clock_nor_run_id_nor_seed_is_in_a_digest() -> None:
    expected = digests({"n": 0})
    assert digests({"n": 0}, run_id="another") == expected
    assert digests({"n": 0}, clock=VirtualClock(start=5.0)) == expected
    assert digests({"n": 0}, seed=99) == expected


def test_each_step_has_a_digest_of_its_own() -> None:
    found = digests({"n": 0})
    assert len(found) == len(set(found)) == 8


def test_a_value_given_changes_every_digest() -> None:
    assert not set(digests({"n": 0})) & set(digests({"n": 1}))


BEFORE = "00" * 32
OUTCOME = Outcome("a", 1, -1, {"v": 1}, None)


def digest_of(*outcomes: Outcome) -> str:
    return step_digest(BEFORE, Step("", 3, outcomes))


@pytest.mark.parametrize(
    "other",
    [
        Outcome("b", 1, -1, {"v": 1}, None),
        Outcome("a", 2, -1, {"v": 1}, None),
        Outcome("a", 1, 0, {"v": 1}, None),
        Outcome("a", 1, -1, {"v": 2}, None),
        Outcome("a", 1, -1, {"w": 1}, None),
        Outcome("a", 1, -1, {}, None),
        Outcome("a", 1, -1, {"v": Overwrite(1)}, None),
        Outcome("a", 1, -1, {"v": 1}, ()),
        Outcome("a", 1, -1, {"v": 1}, ("b",)),
        Outcome("a", 1, -1, {"v": 1}, (Send("b", {}),)),
        Outcome("a", 1, -1, {"v": 1}, None, error=ValueError("no")),
    ],
)
def test_what_an_item_did_is_in_the_digest(other: Outcome) -> None:
    assert digest_of(other) != digest_of(OUTCOME)


def test_the_payload_of_a_send_is_in_the_digest() -> None:
    one, other = (Outcome("a", 0, -1, {}, (Send("b", {"q": q}),)) for q in (1, 2))
    assert digest_of(one) != digest_of(other)


def test_when_and_in_which_attempt_an_item_ran_is_not_in_the_digest() -> None:
    assert digest_of(Outcome("a", 1, -1, {"v": 1}, None, 2, 77.0, 5.0, True)) == digest_of(OUTCOME)


def test_the_message_of_an_error_is_not_in_the_digest() -> None:
    one, other = (Outcome("a", 0, -1, {}, error=error) for error in (ValueError("x"), KeyError("y")))
    assert digest_of(one) == digest_of(other)


def test_the_order_of_items_and_the_step_before_are_in_the_digest() -> None:
    other = Outcome("b", 0, -1, {})
    assert digest_of(OUTCOME, other) != digest_of(other, OUTCOME)
    assert step_digest("11" * 32, Step("", 3, (OUTCOME,))) != digest_of(OUTCOME)


def test_the_digest_of_s0_is_that_of_the_state_given() -> None:
    assert digests({"n": 0})[0] == digest(b"clew:S0", encode({"log": [], "n": 0}), encode({"log": 0, "n": 0}))


def test_a_digest_is_a_golden_value() -> None:
    """A change of this line is a change of every stored run."""
    assert digest_of(OUTCOME) == "e832c56a5213dabd8861c960c7785035f1b87e70bc0963480a2cf85c9b6a1834"


# ---- states


def loop_engine() -> Engine:
    engine = Engine(LOOP, clock=VirtualClock(start=100.0), seed=4)
    engine.run({"n": 0}, run_id="run")
    return engine


def test_a_state_of_any_step_is_made_when_asked_for() -> None:
    engine = loop_engine()
    state = engine.state("run", 3)
    assert (state.step, state.values, state.versions) == (3, {"n": 1, "log": ["from 0"]}, {"n": 1, "log": 1})
    assert (state.visits, state.gate_decisions, state.seed) == ({"more": 2, "count": 1}, {"more": "count"}, 4)
    assert engine.state("run", 0).values == {"n": 0, "log": []}


def test_one_state_and_the_walk_over_all_agree() -> None:
    engine = loop_engine()
    for step, checkpoint in enumerate(engine.history("run")):
        assert checkpoint.state == engine.state("run", step)
        assert checkpoint.digest == engine.state("run", step).digest


def test_the_result_holds_the_last_state_of_the_chain() -> None:
    engine = Engine(LOOP, seed=4)
    result = engine.run({"n": 0}, run_id="run")
    assert result.state == engine.state("run")
    assert result.state.digest == engine.history("run")[-1].digest


def test_history_tells_the_latest_execution_of_each_node() -> None:
    history = loop_engine().state("run").node_history
    assert (history["count"].step, history["more"].step) == (6, 7)
    assert history["count"].input_versions == {"n": 2}
    assert history["count"].output_versions == {"n": 3, "log": 3}
    assert (history["count"].output_version, history["more"].output_version) == (3, 0)
    assert history["more"].output_versions == {}


def test_the_last_item_of_a_batch_stands_for_its_node() -> None:
    class Found(TypedDict, total=False):
        found: Annotated[list[int], operator.add]

    @route(targets=["scan"])
    def fan() -> list[Send]:
        return [Send("scan", {"q": q}) for q in range(3)]

    @node(writes=("found",))
    def scan(q: int) -> dict[str, list[int]]:
        return {"found": [q]} if q < 2 else {}

    history = Graph([fan, scan], state=Found).run().state.node_history
    assert history["scan"].output_versions == {"found": 2}


def test_every_execution_of_the_chain_in_order() -> None:
    engine = loop_engine()
    chain = engine._opener.runs.open("run").whole().chain(engine._opener.program(engine.state("run", 0)))
    assert [execution.node_name for execution in chain.executions()] == ["more", "count"] * 3 + ["more"]
    assert (len(chain), chain.first, chain.last) == (7, 0, 7)


def test_a_chain_that_starts_at_a_restored_state_goes_on_counting() -> None:
    engine = loop_engine()
    state = GraphState.from_checkpoint(engine.state("run", 3).to_checkpoint())
    result = engine.run(state, run_id="again")
    assert result.last_step == 7
    assert [c.step_id for c in engine.history("again")] == [3, 4, 5, 6, 7]
    assert engine.state("again", 3) == state


def test_updates_stay_in_the_chain_as_they_were_given() -> None:
    engine = loop_engine()
    entries = [entry.step() if hasattr(entry, "step") else entry for entry in engine.store.entries("run")]
    updates = [dict(outcome.update) for step in entries for outcome in step.outcomes if outcome.update]
    assert updates[-1] == {"n": 3, "log": ["from 2"]}


def test_a_run_with_an_overwrite_has_digests() -> None:
    @node(output="log")
    def clear(n: int) -> Any:
        return Overwrite([])

    result = Graph([clear], state=State).run({"n": 1, "log": ["a"]})
    assert (result["log"], len(result.state.digest)) == ([], 64)
    assert GraphState.from_checkpoint(result.state.to_checkpoint()).digest == result.state.digest
