"""Forks of random graphs against the reference: a modified state continues according to the rules.

A run is interrupted at some step, values are written and decisions of gates recorded, and it continues: as a fork, one
item at a time with and without the fast path, and with shuffled completion.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest

from clew.state import GraphState
from clew.testing import random_order
from tests.campaigns import PARTS
from tests.engine.graphs import Case, Played, Skipped, cases, expected_chain, play, without_context
from tests.engine.test_against_reference import DENSE, JOINED, SENDING, WINDING, pending
from tests.reference.generate import Knobs
from tests.reference.interpreter import Change
from tests.reference.model import END

KINDS = {"ordinary": Knobs(), "winding": WINDING, "dense": DENSE, "sending": SENDING, "joined": JOINED}


def changed(case: Case, rng: Random) -> tuple[int, Change]:
    """A step of the run, and a change of the state after it that wakes a gate, if anything does."""
    step = rng.randint(0, len(case.expected.chain))
    gates = [node for node in case.model.nodes if node.targets or node.goto]
    read = [value for node in gates for value in node.reads]
    names = sorted({*case.model.value_names, *read} - dict(case.model.bound).keys())
    values, decisions = {}, {}
    for _ in range(rng.randint(0, 2)):
        name = rng.choice(read if read and rng.random() < 0.7 else names)
        if name in names:
            values[name] = [rng.randrange(9)] if name in case.model.reducers else rng.randrange(9)
    if gates and rng.random() < 0.3:
        gate = rng.choice(gates)
        targets = gate.targets or gate.goto
        several = rng.random() < 0.3
        picked = rng.sample(targets, rng.randint(0, len(targets)))
        decisions[gate.name] = tuple(picked) if several else rng.choice(targets)
    return step, Change(values, decisions)


def by_hand(state: GraphState, change: Change) -> GraphState:
    state = state.set_multiple(change.values)
    for gate, decision in change.decisions.items():
        state = state.record_gate_decision(gate, decision)
    return state


def ways(case: Case, step: int, state: GraphState) -> Iterator[Played]:
    """Go on from a state, in each way."""
    plain = without_context(case, after=step)
    if plain is not None:
        yield play(case.engine(plain, max_concurrent_nodes=1), state)
    yield play(case.engine(max_concurrent_nodes=1), state)
    yield play(case.engine(), state, random_order(case.seed), case.seed % 4 or None)
    yield play(case.engine(), GraphState.from_checkpoint(state.to_checkpoint()), random_order(case.seed + 1))


def check(case: Case, step: int, played: Played) -> None:
    expected, state = case.expected, played.state
    assert played.chain == expected_chain(expected)[step:], case.seed
    assert (played.result.status, played.result.values) == (expected.status, expected.values), case.seed
    assert (state.versions, state.gate_decisions) == (expected.versions, expected.decisions), case.seed
    assert state.terminated == expected.terminated, case.seed
    assert state.visits == {name: count for name, count in expected.visits.items() if count}, case.seed
    assert pending(played) == expected.pending, case.seed


def compare(seeds: range, knobs: Knobs, times: int = 2) -> Counter[str]:
    """Fork each graph some times; what was counted on the way."""
    counts: Counter[str] = Counter()
    for case in cases(seeds, knobs):
        try:
            whole = play(case.engine(max_concurrent_nodes=1), case.given)
        except Skipped:
            continue
        for number in range(times):
            step, change = changed(case, Random(case.seed * 31 + number))
            fork = replace(case, changes={step: change})
            state = by_hand(whole.engine.state("run", step=step), change)
            try:
                for played in ways(fork, step, state):
                    check(fork, step, played)
                    counts["short steps"] += played.short_steps
            except Skipped:
                continue
            counts["forks"] += 1
            counts["steps"] += len(fork.expected.chain) - step
            counts["otherwise"] += fork.expected.chain != case.expected.chain
            counts["by hand"] += bool(change.decisions)
            counts["END"] += END in str(change.decisions)
    return counts


@pytest.mark.parametrize("kind", KINDS)
def test_a_fork_goes_on_as_the_rules_say(kind: str) -> None:
    counts = compare(range(30), KINDS[kind])
    assert counts["forks"] > 20, counts
    assert counts["otherwise"] > 6, counts
    assert counts["by hand"] > 1, counts
    assert counts["short steps"] > 3, counts


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("kind", KINDS)
def test_campaign_of_forks(kind: str, part: int) -> None:
    """Some 200 forks in each part."""
    seeds = range(3_000_000 + part * 150, 3_000_000 + part * 150 + 150)
    assert compare(seeds, KINDS[kind])["forks"] > 120
