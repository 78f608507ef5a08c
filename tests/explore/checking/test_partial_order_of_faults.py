"""The reduction of orders while a fault can still happen: compare it with a full search.

The graphs are random and small. Their nodes make recorded calls, use systems, raise at some attempts, return their
attempt number, are retried and time out; there is also a subgraph and a question. With and without the reduction, the
same violations are found at the same depth, and the same ends are reached: status, digest, error, systems, and number
of calls.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from clew import Context, Graph, RetryPolicy, SideEffectPolicy, interrupt, node
from clew.explore import Check, Invariant, at_end
from clew.explore.checking.effects import count_effects
from clew.explore.systems import MemoryStorage

AGAIN = RetryPolicy(max_attempts=2, base_delay=1.0)
FAULTS = [
    ("crash", "fail", "timeout"),
    ("fail",),
    ("timeout",),
    ("crash", "fail", "timeout", "store"),
]


def ends_into(seen: set[str]) -> Invariant:
    """Collects how runs end."""

    def look(world: Any) -> bool:
        run = world.systems["run"]
        shown = {name: system.observe().data for name, system in world.systems.items() if name != "run"}
        made = count_effects(list(run.effects))
        seen.add(
            f"{run.status} {run.digest} {type(run.error).__name__} {run.had} {sorted(shown.items())} {made}"
        )
        return True

    return Invariant("ends seen", at_end(look))


class Workflow:
    """A random graph."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = Random(seed)
        self.systems = {name: MemoryStorage() for name in ("one", "two")[: rng.choice([0, 0, 0, 1, 2])]}
        self.node_systems: dict[str, list[str]] = {}
        known, nodes = ["x"], []
        for number in range(rng.randint(2, 4)):
            reads = rng.sample(known, min(len(known), 1 if rng.random() < 0.6 else 2))
            nodes.append(self._node(f"n{number}", reads))
            known.append(f"vn{number}")
        if rng.random() < 0.2:
            nodes.append(self._question())
        if rng.random() < 0.2:
            nodes.append(self._subgraph())
        rng.shuffle(nodes)
        self.graph = Graph(nodes)

    def _node(self, name: str, reads: list[str]) -> Any:
        rng = self.rng
        used = [system for system in self.systems if rng.random() < 0.3]
        records, tells, factor = rng.random() < 0.4, rng.random() < 0.25, rng.randint(2, 3)
        raises, stumbles = rng.random(), rng.random() < 0.15

        def body(ctx: Any) -> Any:
            if records:
                ctx.record(name, lambda key: 1, key=ctx.idempotency_key)
            for system in used:
                before = self.systems[system].get("total") or 0
                if stumbles and before > 3:
                    raise ValueError("there is something already")
                self.systems[system].put("total", before * factor + 1)
            if raises < 0.06 or (raises < 0.16 and ctx.attempt == 0):
                raise ValueError(name)
            return [name, ctx.attempt] if tells else name

        made: dict[str, Any] = {"body": body, "Context": Context}
        exec(f"def {name}({', '.join(reads)}, ctx: Context): return body(ctx)", made)
        self.node_systems[name] = used
        return node(output=f"v{name}", retry=AGAIN if rng.random() < 0.35 else None)(made[name])

    def _question(self) -> Any:
        self.node_systems["ask"] = []
        return interrupt(output="ok", name="ask")(lambda x: "may I?")

    def _subgraph(self) -> Any:
        self.node_systems["sub"] = []
        inner = Graph([node(output="p", name="i1")(lambda x: x), node(output="q", name="i2")(lambda p: p)])
        policy = {"timeout": self.rng.choice([None, 5.0]), "retry": self.rng.choice([None, AGAIN])}
        return inner.as_node("sub", inputs=("x",), outputs=("q",), **policy)


def found(
    flow: Workflow, faults: tuple[str, ...], max_faults: int, on_error: str, max_steps: int, reduce: bool
) -> Any:
    """Return the violations with their depths, the ends of runs, and the number of choices tried."""
    seen: set[str] = set()
    invariants = [
        "schedule_independent",
        "resume_equivalent",
        "exactly_once_effects",
        "stable_idempotency_key",
        "terminates",
        ends_into(seen),
    ]
    result = Check(
        flow.graph,
        {"x": 1},
        invariants,
        faults=faults,
        max_faults=max_faults,
        systems=flow.systems,
        node_systems=flow.node_systems,
        answers={"ask": [1]} if "ask" in flow.graph.nodes else None,
        max_steps=max_steps,
        partial_order_reduction=reduce,
        on_error=on_error,
    ).run()
    if result.truncated:
        return None
    violations = {violation.name: len(violation.path) for violation in result.violations}
    return (violations, seen), result.transitions


def compare(seeds: range, max_faults: int = 1, max_steps: int = 1_500) -> int:
    """How many graphs took fewer choices; those with too many states are left out."""
    fewer = 0
    for seed in seeds:
        flow = Workflow(seed)
        faults, on_error = flow.rng.choice(FAULTS), flow.rng.choice(["stop", "continue"])
        many = found(flow, faults, max_faults, on_error, max_steps, reduce=False)
        if many is not None:
            few = found(flow, faults, max_faults, on_error, max_steps, reduce=True)
            assert few[0] == many[0], (seed, faults, on_error)
            fewer += few[1] < many[1]
    return fewer


def test_one_fault() -> None:
    assert compare(range(14), max_steps=200) > 3


@pytest.mark.slow
def test_many_graphs() -> None:
    assert compare(range(100, 400)) > 100


@pytest.mark.slow
def test_two_faults() -> None:
    assert compare(range(500, 560), 2) > 5


def test_a_body_that_fails_only_after_a_fault_is_tried_at_every_place() -> None:
    """The first search leaves orders out, stumbles, and is made once more."""

    @node(output="a", retry=RetryPolicy(max_attempts=3, base_delay=1.0))
    def pay(x: int, ctx: Context) -> int:
        ctx.record("pay", lambda: 1)
        if ctx.attempt == 1:
            raise ValueError("not at the second attempt")
        return ctx.attempt

    others = [node(output=f"v{i}", name=f"n{i}")(lambda x: x) for i in range(2)]
    seen: dict[bool, set[str]] = {True: set(), False: set()}
    tried = {}
    for reduce in (True, False):
        check = Check(
            Graph([pay, *others]), {"x": 1}, [ends_into(seen[reduce])], partial_order_reduction=reduce
        )
        tried[reduce] = check.run().transitions
    assert seen[True] == seen[False]
    quiet = Check(Graph([pay, *others]), {"x": 1}, [ends_into(set())], faults=("crash",)).run().transitions
    assert quiet < tried[True] < tried[False]


def both(graph: Graph, systems: dict[str, MemoryStorage], **more: Any) -> tuple[set[str], set[str]]:
    """How runs end, with orders left out and without."""
    seen: dict[bool, set[str]] = {True: set(), False: set()}
    for reduce in (True, False):
        Check(
            graph,
            {"x": 1},
            [ends_into(seen[reduce])],
            systems=systems,
            partial_order_reduction=reduce,
            **{"faults": ("fail",), **more},
        ).run()
    return seen[True], seen[False]


@node(output="a")
def check(x: int, ctx: Context) -> int:
    return int(ctx.record("check", lambda: 1))


@node(output="b")
def write(x: int) -> int:
    return x


def test_a_fault_comes_late_where_an_order_counts() -> None:
    """A node of a later step was there first; had the fault come before, it would have waited for the resumption."""
    log = MemoryStorage()

    def tell(text: str) -> None:
        log.put("log", (log.get("log") or "") + text)

    @node(output="c")
    def post(x: int) -> None:
        tell("posted ")

    @node(output="d")
    def send(b: int) -> None:
        tell("sent ")

    graph, node_systems = Graph([check, write, post, send]), {"check": [], "write": []}
    few, many = both(graph, {"log": log}, node_systems=node_systems, faults=("timeout",))
    assert few == many
    checked_twice = [end for end in few if "'check', " in end and end.endswith("False, 2]]")]
    assert any("sent posted" in end for end in checked_twice)


def test_a_failure_by_itself_comes_before_a_fault() -> None:
    """Had the fault come first, the node that fails would have been executed once less."""

    @node(output="c", side_effects=SideEffectPolicy(recordable=True))
    def send(b: int) -> int:
        raise ConnectionError

    few, many = both(Graph([check, write, send]), {})
    assert few == many
    assert any(end.endswith("False, 3]]") for end in few)


def test_items_from_which_nothing_comes_go_one_after_the_other() -> None:
    """Beside two that use a system: their orders are all tried, and so is every fault."""
    log = MemoryStorage()

    def telling(name: str) -> Any:
        return node(output=f"v{name}", name=name)(lambda x: log.put("log", (log.get("log") or "") + name))

    quiet = [node(output=f"q{i}", name=f"quiet{i}")(lambda x: x) for i in range(2)]
    graph = Graph([check, telling("one"), telling("two"), *quiet])
    node_systems = {"check": [], "quiet0": [], "quiet1": []}
    few, many = both(graph, {"log": log}, node_systems=node_systems, faults=("timeout",))
    assert few == many
    tried = {}
    for reduce in (True, False):
        tried[reduce] = Check(
            graph,
            {"x": 1},
            ["terminates"],
            systems={"log": log},
            node_systems=node_systems,
            partial_order_reduction=reduce,
        ).run()
    assert tried[True].ok
    assert tried[False].ok
    assert 2 * tried[True].transitions < tried[False].transitions
