"""A restored state continues exactly like the uninterrupted run: from any step, through the bytes of a checkpoint.

Each S(k) of a run is encoded, decoded, and continued in a new engine. The digests of all further steps, values,
versions, decisions, history and visits must be the same.
"""

from __future__ import annotations

import operator
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import msgspec
import pytest

from clew import END, Command, Engine, Graph, GraphState, Send, interrupt, node, route
from clew.state import position_of
from clew.testing import VirtualClock, random_order
from tests.campaigns import PARTS, first
from tests.engine.graphs import RUN, Case, Played, Skipped, cases, play, without_context
from tests.engine.nested import nested_cases
from tests.reference.generate import Knobs

EVENTFUL = Knobs(
    gates=0.4,
    backwards=0.4,
    failures=0.08,
    interrupts=0.1,
    asks=0.08,
    sends=0.5,
    reduced=0.5,
    gotos=0.2,
    cutoff=0.2,
    seeds=0.3,
    defaults=0.3,
    multi=0.4,
)
RETRIED = replace(EVENTFUL, failures=0.3, retries=0.6)


def timeless(state: GraphState) -> dict[str, Any]:
    """All that a state holds, without the times and the digest (which is compared on its own)."""
    return {
        "values": dict(state.values),
        "versions": dict(state.versions),
        "decisions": dict(state.gate_decisions),
        "terminated": state.terminated,
        "position": msgspec.structs.replace(position_of(state), digest=""),
        "history": {
            name: replace(record, timestamp=0.0, duration_ms=0.0)
            for name, record in state.node_history.items()
        },
    }


def through_bytes(state: GraphState) -> GraphState:
    return GraphState.from_checkpoint(state.to_checkpoint())


def check_going_on(whole: Played, restored: Played, step: int) -> None:
    """The rest of the chain, and where it ends, are those of the uninterrupted run."""
    assert restored.digests == whole.digests[step:]
    assert timeless(restored.state) == timeless(whole.state)
    assert restored.result.status == whole.result.status
    assert restored.result.never_ran == whole.result.never_ran
    if position_of(whole.result.state).failed == frozenset():
        assert type(restored.result.error) is type(whole.result.error)


def check_every_step(case: Case, graph: Graph | None = None, *, most: int = 15) -> int:
    """Restore the case at each of its steps; the number of steps.

    Of a run with more than `most` steps, only so many: a run that reaches its limit has 60, each followed by the rest.
    """
    whole = play(case.engine(), case.given)
    states = [checkpoint.state for checkpoint in whole.engine.history(RUN)]
    chosen = range(0, len(states), max(1, len(states) // most))
    for turn, step in enumerate(chosen):
        state = states[step]
        restored = through_bytes(state)
        assert timeless(restored) == timeless(state)
        assert restored.digest == whole.digests[step]
        # every other one in random order, so that both ways of going on are seen
        choose = random_order(step) if turn % 2 else None
        check_going_on(whole, play(case.engine(graph), restored, choose), step)
    return len(chosen)


@pytest.mark.parametrize("part", first(1, of=6))
def test_a_restored_state_continues_like_the_uninterrupted_run(part: int) -> None:
    counts: Counter[str] = Counter()
    for case in cases(range(part * 60, part * 60 + 60), EVENTFUL):
        try:
            counts["steps"] += check_every_step(case)
            counts["graphs"] += 1
        except Skipped:
            counts["skipped"] += 1
    assert counts["graphs"] > 40, counts
    assert counts["steps"] > 3 * counts["graphs"], counts


@pytest.mark.parametrize("part", first(1, of=6))
def test_a_restored_state_goes_on_with_subgraphs_inside(part: int) -> None:
    counts: Counter[str] = Counter()
    for case in nested_cases(range(part * 60, part * 60 + 60), EVENTFUL):
        try:
            counts["steps"] += check_every_step(case)
            counts["graphs"] += 1
        except Skipped:
            counts["skipped"] += 1
    assert counts["graphs"] > 10, counts
    assert counts["steps"] > 2 * counts["graphs"], counts


@pytest.mark.parametrize("part", first(1, of=3))
def test_a_restored_state_goes_on_with_retries(part: int) -> None:
    seeds = range(part * 30, part * 30 + 30)
    counts: Counter[str] = Counter()
    for case in (*cases(seeds, RETRIED), *nested_cases(seeds, RETRIED)):
        try:
            counts["steps"] += check_every_step(case)
            counts["retries"] += sum(item.attempt for step in case.expected.chain for item in step)
        except Skipped:
            counts["skipped"] += 1
    assert counts["retries"] > 8, counts
    assert counts["steps"] > 100, counts


def test_what_went_the_short_way_is_restored_like_the_rest() -> None:
    short = 0
    for case in cases(range(30)):
        try:
            plain = without_context(case)
            if plain is None:
                continue
            whole = play(case.engine(plain, max_concurrent_nodes=1), case.given)
            for step, checkpoint in enumerate(whole.engine.history(RUN)):
                check_going_on(whole, play(case.engine(), through_bytes(checkpoint.state)), step)
        except Skipped:
            continue
        short += whole.short_steps
    assert short > 12


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_campaign(part: int) -> None:
    """300 graphs in each part, half of them nested, a third with retries, restored at every step."""
    seeds = range(2_000_000 + part * 100, 2_000_000 + part * 100 + 100)
    few = seeds[:50]
    for found in (
        cases(seeds, EVENTFUL),
        nested_cases(seeds, EVENTFUL, share=0.6),
        cases(few, RETRIED),
        nested_cases(few, RETRIED, share=0.6),
    ):
        for case in found:
            try:
                check_every_step(case, most=1_000)
            except Skipped:
                continue


# ---- one graph with one of everything


@dataclass
class Everything:
    topic: str
    plan: list[str] = field(default_factory=list)
    notes: Annotated[list[str], operator.add] = field(default_factory=list)
    turns: int = 0
    verdict: str = ""
    approved: bool = False
    report: str = ""


@node(output="text")
def look_up(question: str) -> str:
    return f"about {question}"


@node(output="answer")
def shorten(text: str) -> str:
    return text[:12]


RESEARCH = Graph([look_up, shorten], name="research")


@node(writes=("plan", "turns"), goto=["fan", END])
def planner(topic: str, turns: int) -> Command:
    return Command(update={"plan": [f"{topic}{turns}", f"{topic}!"], "turns": turns + 1}, goto="fan")


@route(targets=["research"])
def fan(plan: list[str]) -> list[Send]:
    return [Send("research", {"question": question}) for question in plan]


@route(targets=["planner", "approve"])
def enough(notes: list[str]) -> str:
    return "planner" if len(notes) < 6 else "approve"


@interrupt(output="approved")
def approve(topic: str) -> str:
    return f"publish {topic}?"


@node(output="report")
def write_up(notes: list[str], approved: bool) -> str:
    return "; ".join(notes) if approved else "nothing"


def everything() -> Graph:
    inside = RESEARCH.as_node(
        "research",
        inputs=("question",),
        outputs=("notes",),
        transform_input=lambda seen: {"question": seen["question"]},
        transform_output=lambda state: {"notes": [state["answer"]]},
    )
    return Graph([planner, fan, inside, enough, approve, write_up], state=Everything, entry=["planner"])


def finish(engine: Engine, start: Any) -> Played:
    result = engine.run(start, run_id=RUN)
    while result.questions:
        result = engine.resume(RUN, answer=True)
    return Played(engine, result)


def test_loop_sends_subgraph_reducer_goto_and_interrupt_restored_at_each_step() -> None:
    graph = everything()
    whole = finish(Engine(graph, clock=VirtualClock(), seed=1), {"topic": "sea", "turns": 0})
    assert whole.result["report"].count(";") == 5
    for step, checkpoint in enumerate(whole.engine.history(RUN)):
        restored = through_bytes(checkpoint.state)
        check_going_on(whole, finish(Engine(graph, clock=VirtualClock()), restored), step)


def test_a_restored_state_keeps_the_seed_of_its_run() -> None:
    case = next(cases([3]))
    first = case.engine().run(case.given, run_id=RUN)
    again = replace(case).engine().run(through_bytes(first.state), run_id="other")
    assert again.state.seed == first.state.seed == 0


def test_a_manual_write_that_was_read_since_wakes_no_node() -> None:
    calls: list[int] = []

    @node(output="b")
    def reads(a: int) -> int:
        calls.append(a)
        return a

    state = GraphState({"a": 1}).set("a", 5)
    seen = state.record_execution("reads", {"a": 1}, 1, 0.0, output_versions={"b": 1}).set("b", 5)
    assert Graph([reads]).run(seen)["b"] == 5
    assert calls == []
    missed = state.record_execution("reads", {"a": 0}, 1, 0.0, output_versions={"b": 1}).set("b", 1)
    assert Graph([reads]).run(missed)["b"] == 5
    assert calls == [5]


@pytest.mark.parametrize("decision, ran", [(END, []), (("END", "b"), ["b"]), ("a", ["a"]), ((), [])])
def test_a_decision_recorded_by_hand_selects_what_the_gate_would(decision: Any, ran: list[str]) -> None:
    calls: list[str] = []

    def target(name: str) -> Any:
        return node(name=name, output=name)(lambda x: calls.append(name))

    gate = route(name="gate", targets=["a", "b", END], multi=True)(lambda x: ())
    state = GraphState({"x": 1}).record_execution("gate", {"x": 0}, 0, 0.0)
    Graph([gate, target("a"), target("b")]).run(state.record_gate_decision("gate", decision))
    assert calls == ran
