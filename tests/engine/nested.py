"""Random graphs with random subgraphs: some plain nodes are replaced by subgraphs that write the same value.

The inputs and outputs of a subgraph are functions of what the node reads, so two runs of one nested graph can be
compared value by value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from random import Random
from typing import Any

from clew.errors import GraphError
from clew.graph import Graph, Node, RetryPolicy
from tests.engine.graphs import Case, cases, quietly
from tests.reference.generate import Knobs, assembled, random_graph, to_clew
from tests.reference.model import MGraph, MNode, number

SMALL = Knobs(least=2, most=5, failures=0.08, interrupts=0.08, asks=0.06, sends=0.5, reduced=0.5)

RETRIED = replace(SMALL, failures=0.3, retries=0.5)


def nested_cases(seeds: Iterable[int], knobs: Knobs, share: float = 0.4, depth: int = 2) -> Iterator[Case]:
    """Cases in which some nodes are subgraphs, and some nodes of these again."""
    for case in cases(seeds, knobs):
        graph = nest(Random(case.seed), case.model, case.graph, share, depth)
        if graph is not case.graph:
            yield replace(case, graph=graph)


def nest(rng: Random, model: MGraph, graph: Graph, share: float, depth: int) -> Graph:
    """The graph with some of its nodes replaced; itself if none was."""
    nodes = []
    for part, node in zip(model.nodes, graph.nodes.values(), strict=True):
        if depth and is_replaceable(part) and rng.random() < share:
            node = subgraph_for(rng, model, part, share, depth) or node
        nodes.append(node)
    if all(node.subgraph is None for node in nodes):
        return graph
    return quietly(lambda: assembled(model, nodes))


def is_replaceable(part: MNode) -> bool:
    plain = part.kind == "node" and not (part.goto or part.partial or part.cutoff or part.reads_state)
    return plain and len(part.outputs) == 1 and not any(default for _, default in part.inputs)


def subgraph_for(rng: Random, model: MGraph, part: MNode, share: float, depth: int) -> Node | None:
    inside, given = random_graph(rng, RETRIED if part.attempts > 1 else SMALL)
    try:
        graph = nest(rng, inside, quietly(lambda: to_clew(inside)), share, depth - 1)
    except GraphError:
        return None
    (output,) = part.outputs
    retry = {"retry": RetryPolicy(max_attempts=part.attempts, base_delay=0.5)} if part.attempts > 1 else {}
    return graph.as_node(
        part.name,
        **retry,
        inputs=part.reads,
        outputs=(output,),
        transform_input=_entering(given),
        transform_output=_leaving(tuple(inside.value_names), output, output in model.reducers),
        after=list(part.after),
        eager=part.eager,
    )


def _entering(given: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    def enter(seen: Mapping[str, Any]) -> dict[str, Any]:
        return {name: number(name, sorted(seen.items())) % 100 for name in given}

    return enter


def _leaving(names: tuple[str, ...], output: str, is_reduced: bool) -> Callable[[Any], dict[str, Any]]:
    def leave(state: Any) -> dict[str, Any]:
        get = state.get if isinstance(state, Mapping) else lambda name: getattr(state, name, None)
        made = number([(name, get(name)) for name in names]) % 1000
        return {output: [made] if is_reduced else made}

    return leave
