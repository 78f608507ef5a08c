"""Random graphs, and the real graph behind each.

``random_graph(rng, knobs)`` draws a graph and the values given to its run. It lays the nodes out in a row: a
node mostly reads what stands to its left, gates mostly select what stands to their right, and a few links
turn back, so that most graphs are valid, start, loop a few times, and end. Scripts of gates run out, which
ends the loops.

``to_clew(graph)`` builds the same graph with the public decorators of clew. It raises ``GraphError`` where
clew refuses the graph (two writers of one value, say): a test skips those, and counts them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, make_dataclass, replace
from random import Random
from typing import Annotated, Any, TypedDict

from .interpreter import due, start
from .loops import CannotStart, analyse
from .model import (
    DEFAULT,
    END,
    TIMEOUT,
    Behaviour,
    Choice,
    Late,
    MGraph,
    MNode,
    MSend,
    Picky,
    act,
    fails,
    question_of,
    sends_of,
)


@dataclass(frozen=True)
class Knobs:
    """How often a feature is drawn: chances from 0 to 1."""

    least: int = 2
    most: int = 9
    gates: float = 0.35
    gotos: float = 0.06
    interrupts: float = 0.04
    asks: float = 0.03
    backwards: float = 0.3
    shared: float = 0.12
    reduced: float = 0.25
    sends: float = 0.3
    multi: float = 0.25
    control: float = 0.25
    defaults: float = 0.2
    seeds: float = 0.1
    eager: float = 0.08
    cutoff: float = 0.12
    whole_state: float = 0.08
    partial: float = 0.1
    entry: float = 0.08
    bound: float = 0.05
    failures: float = 0.04
    retries: float = 0.0
    recovers: float = 0.7
    late: float = 0.0
    refusals: float = 0.0
    only_log: float = 0.7
    joins: float = 0.0


ORDINARY = Knobs()


def random_graph(rng: Random, knobs: Knobs = ORDINARY) -> tuple[MGraph, dict[str, Any]]:
    """A valid graph and what is given to it; draws until one is valid."""
    while True:
        graph, given = _draw(rng, knobs)
        if valid(graph, given):
            return graph, given


def valid(graph: MGraph, given: Mapping[str, Any]) -> bool:
    """Whether the description makes sense: every loop starts, something runs, whole-state readers are pointed
    at.
    """
    try:
        layout = analyse(graph, given.keys())
    except CannotStart:
        return False
    pointed_at = {target for _, target in layout.links.gate | layout.links.control}
    if any(node.reads_state and not node.inputs and node.name not in pointed_at for node in graph.nodes):
        return False
    known = (
        set(given)
        | {value for node in graph.nodes for value in node.outputs}
        | set(graph.seeds)
        | dict(graph.bound).keys()
    )
    known |= {value for node in graph.nodes for send in sends_of(node) for value in send.names}
    lacking = any(value not in known for node in graph.nodes for value in node.required)
    return not lacking and bool(due(start(graph, given, layout)))


def _draw(rng: Random, knobs: Knobs) -> tuple[MGraph, dict[str, Any]]:
    def chance(probability: float) -> bool:
        return rng.random() < probability

    count = rng.randint(knobs.least, knobs.most)
    names = [
        f"{'g' if chance(knobs.gates) else 'i' if chance(knobs.interrupts) else 'n'}{i}" for i in range(count)
    ]
    reducers = frozenset(["log"] if chance(knobs.reduced) else [])
    outputs = {name: _outputs(rng, knobs, name, names, reducers) for name in names}
    written = [(i, value) for i, name in enumerate(names) for value in outputs[name]]
    nodes = []
    for i, name in enumerate(names):
        inputs = _inputs(rng, knobs, i, written, reducers)
        is_gate = name[0] == "g"
        routes = _targets(rng, knobs, i, names) if is_gate or (name[0] == "n" and chance(knobs.gotos)) else ()
        earlier, later = names[:i], names[i + 1 :]
        after: tuple[str, ...] = ()
        if chance(knobs.control):
            pool = later if later and chance(knobs.backwards / 3) else earlier
            after = tuple(sorted(rng.sample(pool, min(len(pool), rng.randint(1, 3 if knobs.joins else 2)))))
        nodes.append(
            MNode(
                name,
                inputs,
                outputs[name],
                kind={"g": "gate", "i": "interrupt"}.get(name[0], "node"),
                targets=routes if is_gate else (),
                goto=() if is_gate else routes,
                multi=is_gate and chance(knobs.multi),
                after=after,
                is_join=bool(after and knobs.joins and chance(knobs.joins)),
                eager=chance(knobs.eager),
                cutoff=name[0] == "n" and chance(knobs.cutoff),
                reads_state=chance(knobs.whole_state),
                partial=name[0] == "n" and len(outputs[name]) > 0 and chance(knobs.partial),
            )
        )
    nodes = [replace(node, behaviour=_behaviour(rng, knobs, node, nodes, reducers)) for node in nodes]
    if knobs.retries:
        nodes = [_retried(rng, knobs, node) for node in nodes]
    edges = tuple((rng.choice(names), rng.choice(names)) for _ in range(chance(knobs.control / 2)))
    produced = {value for _, value in written}
    read = {value for node in nodes for value in node.reads}
    seeds = tuple(
        (value, rng.randint(0, 2))
        for value in sorted(read | produced)
        if value != "log" and chance(knobs.seeds / 3)
    )
    bound = tuple(
        (value, 7) for value in sorted(read - produced) if chance(knobs.bound) and value not in dict(seeds)
    )
    graph = MGraph(
        tuple(nodes),
        edges=tuple((s, t) for s, t in edges if s != t),
        entry=tuple(rng.sample(names, rng.randint(1, 2))) if chance(knobs.entry) else (),
        reducers=reducers,
        reducer=Picky(rng.randint(2, 5)) if knobs.refusals and chance(knobs.refusals) else operator.add,
        schema_defaults=seeds,
        bound=bound,
    )
    by_payload = {value for node in nodes for send in sends_of(node) for value in send.names}
    given: dict[str, Any] = {
        value: rng.randint(0, 99)
        for value in sorted(read - produced)
        if value not in dict(bound) and value not in dict(seeds) and not (value in by_payload and chance(0.7))
    }
    for value in sorted(read & produced - reducers):
        if chance(0.05):
            given[value] = rng.randint(0, 99)
    return graph, given


def _outputs(
    rng: Random, knobs: Knobs, name: str, names: list[str], reducers: frozenset[str]
) -> tuple[str, ...]:
    if name[0] == "g":
        return ()
    if name[0] == "i":
        return (f"v{name[1:]}",)
    if reducers and rng.random() < 0.5:
        return ("log",) if rng.random() < knobs.only_log else ("log", f"v{name[1:]}")
    if rng.random() < knobs.shared:
        return (f"v{rng.choice(names)[1:]}",)
    return (f"v{name[1:]}", f"w{name[1:]}") if rng.random() < 0.1 else (f"v{name[1:]}",)


def _inputs(
    rng: Random, knobs: Knobs, place: int, written: list[tuple[int, str]], reducers: frozenset[str]
) -> tuple[tuple[str, bool], ...]:
    """Up to three inputs, mostly from the nearest nodes to the left."""
    before = list(dict.fromkeys(value for i, value in written if i < place))
    beyond = list(dict.fromkeys(value for i, value in written if i >= place))
    found: dict[str, bool] = {}
    for _ in range(rng.choice([0, 1, 1, 1, 2, 2, 3])):
        if beyond and rng.random() < knobs.backwards / 2:
            found[rng.choice(beyond)] = rng.random() < 0.6
        elif before and rng.random() < 0.8:
            found[rng.choice(before[-3:] if rng.random() < 0.6 else before)] = rng.random() < knobs.defaults
        elif reducers and rng.random() < 0.5:
            found["log"] = False
        else:
            found[f"x{rng.randint(0, 1)}"] = rng.random() < knobs.defaults / 2
    return tuple(found.items())


def _targets(rng: Random, knobs: Knobs, place: int, names: list[str]) -> tuple[str, ...]:
    found: list[str] = []
    for _ in range(rng.choice([1, 1, 2, 2, 3])):
        turns_back = place > 0 and (rng.random() < knobs.backwards * 1.5 or place == len(names) - 1)
        pool = names[:place] if turns_back else names[place + 1 :]
        if pool:
            found.append(rng.choice(pool))
    return (*dict.fromkeys(found), END)


def _behaviour(
    rng: Random, knobs: Knobs, node: MNode, nodes: list[MNode], reducers: frozenset[str]
) -> Behaviour:
    routes = node.routes
    script = (
        tuple(_choice(rng, knobs, node, nodes, reducers) for _ in range(rng.randint(1, 4))) if routes else ()
    )
    return Behaviour(
        distinct=rng.randint(1, 3) if node.cutoff else 1000,
        script=script,
        by_value=rng.random() < 0.3,
        then=rng.choice([END, END, END, None, *routes[:1]]) if routes and rng.random() < 0.3 else END,
        fails_at=(rng.randint(0, 2), rng.choice([0, 0, 1])) if rng.random() < knobs.failures else None,
        asks_at=rng.randint(0, 1) if node.kind != "interrupt" and rng.random() < knobs.asks else None,
    )


def _retried(rng: Random, knobs: Knobs, node: MNode) -> MNode:
    """The node with a retry policy, and a failure that ends at some attempt: within the policy, or too late."""
    if rng.random() < knobs.retries:
        node = replace(node, attempts=rng.randint(2, 4))
    until = rng.randint(1, 4) if rng.random() < knobs.recovers else None
    late = node.kind != "interrupt" and rng.random() < knobs.late
    return replace(node, behaviour=replace(node.behaviour, until=until, late=late))


def _choice(rng: Random, knobs: Knobs, node: MNode, nodes: list[MNode], reducers: frozenset[str]) -> Choice:
    routes = node.routes
    if rng.random() < knobs.sends:
        chosen = rng.choice(routes)
        target = next(other for other in nodes if other.name == chosen)
        names = tuple(value for value in target.reads if value not in reducers and rng.random() < 0.8)
        meets = any(value not in reducers for value in target.outputs)  # two such items would conflict
        most = 1 if meets and rng.random() < 0.8 else 3
        return tuple(MSend(target.name, names) for _ in range(rng.randint(0, most)))
    if node.multi:
        return tuple(rng.sample([*routes, END], rng.randint(0, len(routes))))
    return rng.choice([*routes, *routes, *routes, END, None])


# ---- the real graph


def to_clew(graph: MGraph, reducer: Callable[[Any, Any], Any] | None = None) -> Any:
    """The graph built with clew's public names. Raises ``clew.graph.GraphError`` where clew refuses it."""
    from clew.graph import END as CLEW_END
    from clew.graph import RetryPolicy, all_of, interrupt, node, route

    def real(targets: tuple[str, ...]) -> list[Any]:
        return [CLEW_END if target == END else target for target in targets]

    built = []
    for part in graph.nodes:
        after: Any = all_of(*part.after) if part.is_join else list(part.after)
        options: dict[str, Any] = {"after": after, "eager": part.eager}
        if part.attempts > 1:
            options["retry"] = RetryPolicy(max_attempts=part.attempts, base_delay=0.5)
        if part.behaviour.late and part.behaviour.fails_at is not None:
            options["timeout"] = TIMEOUT
        function = function_of(graph, part)
        if part.kind == "gate":
            built.append(route(targets=real(part.targets), multi=part.multi, **options)(function))
        elif part.kind == "interrupt":
            built.append(interrupt(output=part.outputs[0], **options)(function))
        else:
            if part.goto:
                options["goto"] = real(part.goto)
            if part.cutoff:
                options["cutoff"] = True
            if part.partial or part.goto or not part.outputs:
                options["writes"] = part.outputs
            else:
                options["output"] = part.outputs[0] if len(part.outputs) == 1 else part.outputs
            built.append(node(**options)(function))
    return assembled(graph, built, reducer)


def assembled(graph: MGraph, nodes: list[Any], reducer: Callable[[Any, Any], Any] | None = None) -> Any:
    """A real graph of these nodes, with everything else that the data says.

    Its schema is forgotten by the registry. All of them have one name, and while a class with several definitions is
    registered, whatever is read from memory is searched for instances of the older ones.
    """
    from clew.graph import Graph
    from clew.state import registry

    schema = schema_of(graph, reducer)
    try:
        made = Graph(nodes, state=schema, edges=list(graph.edges), entry=list(graph.entry) or None)
    finally:
        registry._by_class.pop(schema, None)
    return made.bind(**dict(graph.bound)) if graph.bound else made


def schema_of(graph: MGraph, reducer: Callable[[Any, Any], Any] | None = None) -> type | None:
    """A TypedDict, or a dataclass where the schema has defaults; None where the graph needs no schema."""
    reducer = reducer or graph.reducer
    if not graph.seeds:
        return None
    sent = [value for part in graph.nodes for send in sends_of(part) for value in send.names]
    names = dict.fromkeys([*graph.value_names, *sorted(graph.reducers), *sent])
    types: dict[str, Any] = {v: Annotated[list, reducer] if v in graph.reducers else int for v in names}
    defaults = dict(graph.schema_defaults)
    if not defaults:
        return TypedDict("State", types)
    fields: list[Any] = [
        (v, t, field(default=defaults[v])) if v in defaults else (v, t) for v, t in types.items()
    ]
    return make_dataclass("State", fields, kw_only=True)


def function_of(graph: MGraph, part: MNode) -> Callable[..., Any]:
    """A function with the node's parameters. It is compiled from text: decorators read signature and
    bytecode.
    """
    from clew.graph import Context

    required = list(part.required)
    defaulted = [value for value, has_default in part.inputs if has_default]
    parameters = [*required, *(["state"] if part.reads_state else []), "ctx: Context"]
    parameters += [f"{value}={DEFAULT}" for value in defaulted]
    seen = ", ".join(f"{value!r}: {value}" for value in part.reads)
    whole = "state" if part.reads_state else "None"
    source = f"def {part.name}({', '.join(parameters)}):\n    return returned({{{seen}}}, {whole}, ctx)\n"
    namespace: dict[str, Any] = {"Context": Context, "returned": _returner(graph, part)}
    exec(source, namespace)  # the text is made of the generator's own names
    function: Callable[..., Any] = namespace[part.name]
    return function


def _returner(graph: MGraph, part: MNode) -> Callable[[dict[str, Any], Any, Any], Any]:
    """What the compiled functions call: ``act``, with its result put into the shape that clew expects."""
    from clew.graph import END as CLEW_END
    from clew.graph import Command, Send

    def real(choice: Any) -> Any:
        if isinstance(choice, tuple):
            several = [Send(one[0], one[1]) if isinstance(one, tuple) else real(one) for one in choice]
            return several if any(isinstance(one, tuple) for one in choice) else tuple(several)
        return CLEW_END if choice == END else choice

    def returned(seen: dict[str, Any], state: Any, ctx: Any) -> Any:
        visit, index = visit_and_index(ctx.path)
        if part.reads_state:
            seen["state"] = sorted(items_of(graph, state).items())
        if part.kind == "interrupt":
            if fails(part, visit, index, ctx.attempt):
                act(graph, part, visit, index, seen, attempt=ctx.attempt)
            return question_of(part, visit, index, seen)
        try:
            result = act(graph, part, visit, index, seen, ask=ctx.interrupt, attempt=ctx.attempt)
        except Late:
            ctx.sleep(2 * TIMEOUT)
            raise
        if part.kind == "gate":
            return real(result.decision)
        if part.goto:
            return Command(update=result.update, goto=real(result.decision))
        if part.partial or not part.outputs:
            return result.update
        made = tuple(result.update[value] for value in part.outputs)
        return made[0] if len(made) == 1 else made

    return returned


def items_of(graph: MGraph, state: Any) -> dict[str, Any]:
    """What a whole-state reader sees, from a mapping or an instance of the schema. No value of a model is
    None.
    """
    sent = [value for part in graph.nodes for send in sends_of(part) for value in send.names]
    names = dict.fromkeys([*graph.value_names, *sorted(graph.reducers), *sent])
    if isinstance(state, Mapping):
        found = {value: state.get(value) for value in names}
    else:
        found = {value: getattr(state, value, None) for value in names}
    return {value: seen for value, seen in found.items() if seen is not None}


def visit_and_index(path: str) -> tuple[int, int]:
    """``scan#1[3]`` is visit 1, index 3; without brackets the index is 0."""
    _, _, tail = path.rpartition("/")[2].rpartition("#")
    visit, _, index = tail.partition("[")
    return int(visit), int(index.rstrip("]") or 0)
