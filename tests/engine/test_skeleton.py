"""A skeleton reads a run like the graph itself, on random graphs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from clew.engine.history.chain import Chain
from clew.engine.history.reasons import RunLineage, why
from clew.engine.program import Program, program_of
from clew.engine.records import SingleItemStep, Start, Step
from clew.errors import UnknownRunError
from clew.graph import Graph
from clew.graph.analysis.topology import Topology
from clew.graph.skeleton import skeleton
from clew.runtime.log.frames import graph_at
from clew.runtime.log.run_log import start_state
from clew.state import GraphState, position_of
from tests.campaigns import first
from tests.engine.graphs import RUN, Case, Skipped, cases, play_shuffled, quietly
from tests.engine.nested import nested_cases
from tests.engine.rich import GIVEN, rich_engine
from tests.engine.test_against_reference import KINDS
from tests.engine.test_unfinished import REDUCED, Numbering
from tests.reference.generate import Knobs, to_clew

TOPOLOGY = (
    *("names", "index", "given", "links", "gates_of", "controls_of", "pairs", "loops", "back", "on_loops"),
    *("loop_masks", "forward_sources", "sources", "targets", "forward_targets"),
)
PROGRAM = (
    *("given", "names", "index", "weak", "written", "needs", "needers", "plain_outputs", "sendable"),
    *("data_readers", "control_wakes", "first_wakes", "outside_wakes", "held_nodes"),
    *("has_gates", "marks", "selections", "turn_marks", "unmarked", "withdrawable", "choices"),
)


def skeleton_of(graph: Graph) -> Graph:
    """The skeleton of what a store would give back."""
    return skeleton(json.loads(json.dumps(graph.describe(json=True))))


def ordered(value: Any) -> Any:
    """A value in a form that shows the order of dicts."""
    return list(value.items()) if isinstance(value, dict) else value


def check_program(real: Program, bare: Program) -> None:
    one, other = real.topology, bare.topology
    for part in TOPOLOGY:
        assert ordered(getattr(one, part)) == ordered(getattr(other, part)), part
    for part in PROGRAM:
        assert ordered(getattr(real, part)) == ordered(getattr(bare, part)), part
    assert list(real.reducers) == list(bare.reducers)
    assert real.bound.keys() == bare.bound.keys()
    for node in range(len(real.names)):
        assert _masks(one, node) == _masks(other, node)
        assert real.downstream(node) == bare.downstream(node)


def _masks(topology: Topology, node: int) -> list[int]:
    return [topology.up(node), topology.may_wait_for(node), *(topology.reach(node, d) for d in range(1, 5))]


def result_of(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except UnknownRunError as error:
        return str(error)


def check_chain(real: Program, bare: Program, start: GraphState, steps: list[Step]) -> None:
    one, other = (Chain(program, start, steps, seed=0) for program in (real, bare))
    for mine, theirs in zip(one.states(), other.states(), strict=True):
        assert mine.values == theirs.values
        assert mine.versions == theirs.versions
        assert mine.gate_decisions == theirs.gate_decisions
        assert mine.terminated == theirs.terminated
        assert position_of(mine) == position_of(theirs)
        assert mine.digest == theirs.digest
    assert one.history(one.last) == other.history(other.last)
    assert list(one.executions()) == list(other.executions())
    lineage = RunLineage(start, steps)
    for target in (*real.names, *sorted(real.written), "nothing"):
        assert result_of(lambda target=target: why(real, lineage, target, str)) == result_of(
            lambda target=target: why(bare, lineage, target, str)
        )


def frames(entries: list[Any]) -> Iterator[tuple[Start, list[Step]]]:
    """What is inside subgraph items: the start and the steps of each frame, of its last attempt."""
    starts = {entry.prefix: entry for entry in entries if isinstance(entry, Start)}
    for prefix, start in starts.items():
        inside = [e for e in entries if isinstance(e, Step) and e.prefix == prefix and e.epoch == start.epoch]
        yield start, inside


def check(graph: Graph, engine: Any) -> Counter[str]:
    counts: Counter[str] = Counter()
    bare = skeleton_of(graph)
    assert bare.structure_hash == graph.structure_hash
    assert bare.describe(json=True)["structure_hash"] == graph.structure_hash
    entries = list(engine.store.entries(RUN))
    start = engine.history(RUN)[0].state
    steps = [entry.step() if isinstance(entry, SingleItemStep) else entry for entry in entries]
    steps = [step for step in steps if isinstance(step, Step) and not step.prefix]
    given = position_of(start).given
    check_program(program_of(graph, given), program_of(bare, given))
    check_chain(program_of(graph, given), program_of(bare, given), start, steps)
    counts["steps"] += len(steps)
    counts["deltas"] += sum(bool(step.deltas) for step in steps)
    for inner, inside in frames(entries):
        real, stripped = (graph_at(each, inner.prefix) for each in (graph, bare))
        assert real.structure_hash == stripped.structure_hash
        programs = program_of(real, inner.given), program_of(stripped, inner.given)
        check_program(*programs)
        check_chain(*programs, start_state(inner, 0), inside)
        counts["frames"] += 1
    return counts


def compare(found: Iterator[Case]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for case in found:
        try:
            played = play_shuffled(case)
        except Skipped:
            continue
        counts += check(case.graph, played.engine)
        counts["runs"] += 1
    return counts


@pytest.mark.parametrize("kind", ["ordinary", *KINDS])
def test_a_skeleton_reads_a_run_as_the_graph_does(kind: str) -> None:
    counts = compare(cases(range(7000, 7040), KINDS.get(kind, Knobs())))
    assert counts["runs"] > 20, counts
    assert counts["steps"] > 50, counts


def test_with_a_custom_reducer_too() -> None:
    def reduced() -> Iterator[Case]:
        for case in cases(range(40), REDUCED):
            model = replace(case.model, reducer=Numbering())
            yield replace(case, model=model, graph=quietly(lambda model=model: to_clew(model)))

    counts = compare(reduced())
    assert counts["deltas"] > 20, counts


def test_with_subgraphs_too() -> None:
    counts = compare(nested_cases(range(60), KINDS["troubled"], share=0.5))
    assert counts["frames"] > 20, counts


def test_a_graph_with_one_of_everything() -> None:
    engine = rich_engine()
    engine.run(GIVEN, run_id=RUN)
    counts = check(engine.graph, engine)
    assert counts["frames"] > 3, counts


@pytest.mark.parametrize("part", first(1, of=2))
def test_what_was_selected_is_described_too(part: int) -> None:
    found = 0
    for case in cases(range(part * 60, part * 60 + 60)):
        for value in case.graph.outputs[:2]:
            graph = quietly(lambda case=case, value=value: case.graph.select(value))
            bare = skeleton_of(graph)
            assert bare.structure_hash == graph.structure_hash
            assert (bare.outputs, bare.inputs) == (graph.outputs, graph.inputs)
            found += any(node.pruned for node in graph.nodes.values())
    assert found > 3
