"""Partial-order reduction loses nothing: compare it with a full search."""

from __future__ import annotations

import operator
from random import Random
from typing import Annotated, Any, TypedDict

import pytest

from clew import END, Context, Graph, RetryPolicy, Send, node, route
from clew.errors import DefinitionError
from clew.explore import Check, Invariant, at_end, check_graph
from clew.explore.systems import MemoryStorage


class Ends:
    """Collects how runs end: status, last digest, and what the systems show."""

    def __init__(self) -> None:
        self.seen: set[str] = set()

    def invariant(self) -> Invariant:
        def look(world: Any) -> bool:
            run = world.systems["run"]
            shown = {name: system.observe().data for name, system in world.systems.items() if name != "run"}
            self.seen.add(f"{run.status} {run.digest} {sorted(shown.items())}")
            return True

        return Invariant("ends seen", at_end(look))


def ends_of(
    graph: Graph, values: dict[str, Any], systems: dict[str, MemoryStorage], **more: Any
) -> list[Any]:
    """How runs end, with orders left out and without."""
    found = []
    for reduce in (True, False):
        ends = Ends()
        options = {"faults": (), "systems": systems, "partial_order_reduction": reduce, **more}
        check_graph(graph, values, [ends.invariant()], **options)
        found.append(ends.seen)
    return found


def random_workflow(seed: int) -> tuple[Graph, dict[str, MemoryStorage], dict[str, list[str]], int]:
    """A small graph whose nodes use some of two systems, in ways in which the order often matters."""
    rng = Random(seed)
    systems = {"one": MemoryStorage(), "two": MemoryStorage()}
    nodes, node_systems, known = [], {}, ["x"]
    for number in range(rng.randint(3, 4)):
        used = rng.sample(["one", "two"], rng.choice([0, 0, 1, 1, 2]))
        reads = rng.sample(known, min(len(known), rng.randint(1, 2)))
        name = f"n{number}"
        nodes.append(_node(name, reads, [systems[each] for each in used], rng))
        node_systems[name] = used
        known.append(f"v{number}")
    return Graph(nodes), systems, node_systems, rng.randint(1, 3)


def _node(name: str, reads: list[str], used: list[MemoryStorage], rng: Random) -> Any:
    factor, adds = rng.randint(2, 3), rng.random() < 0.5
    raises = rng.random() < 0.15

    def body(*_: Any) -> str:
        for system in used:
            before = system.get("total") or 0
            system.put("total", before + factor if adds else before * factor + 1)
        if raises:
            raise ValueError(name)
        return name

    made: dict[str, Any] = {"body": body}
    exec(f"def {name}({', '.join(reads)}): return body({', '.join(reads)})", made)
    retry = RetryPolicy(max_attempts=2, base_delay=1.0) if rng.random() < 0.3 else None
    return node(output=f"v{name[1:]}", retry=retry)(made[name])


@pytest.mark.parametrize("faults", [(), ("crash",), ("crash", "fail", "timeout"), ("store",)])
@pytest.mark.parametrize("seeds", [range(8, 12), pytest.param(range(24), marks=pytest.mark.slow)], ids=len)
def test_the_same_is_found_with_and_without(faults: tuple[str, ...], seeds: range) -> None:
    fewer = 0
    for seed in seeds:
        graph, systems, node_systems, limit = random_workflow(seed)
        low = Invariant(
            "stays low", at_end(lambda world, n=limit: (world.systems["one"].get("total") or 0) <= 3 * n)
        )
        found = []
        for reduce in (True, False):
            ends = Ends()
            invariants = [
                "schedule_independent",
                "resume_equivalent",
                "exactly_once_effects",
                "terminates",
                low,
                ends.invariant(),
            ]
            check = Check(
                graph,
                {"x": 1},
                invariants,
                faults=faults,
                systems=systems,
                node_systems=node_systems,
                partial_order_reduction=reduce,
            )
            result = check.run()
            assert not result.truncated
            wrong = {violation.name: len(violation.path) for violation in result.violations}
            found.append((wrong, frozenset(ends.seen), result.transitions))
        (paths, ended, few), (all_paths, all_ended, many) = found
        assert (paths, ended) == (all_paths, all_ended), seed  # the same, and no longer
        assert few <= many
        fewer += few < many
    assert fewer  # of some of the seeds 8 to 11


def test_who_looks_on_the_way_sees_every_order() -> None:
    """Two nodes on systems of their own: an invariant over both must see either one alone."""
    first, second = MemoryStorage(), MemoryStorage()

    @node(output="a")
    def save(x: int) -> int:
        first.put("saved", x)
        return x

    @node(output="b")
    def send(x: int) -> int:
        second.put("sent", x)
        return x

    def saved_before_sent(world: Any) -> Any:
        return "sent" not in world.systems["second"].list() or "saved" in world.systems["first"].list()

    systems, node_systems = {"first": first, "second": second}, {"save": ["first"], "send": ["second"]}
    check = Check(
        Graph([save, send]),
        {"x": 1},
        [Invariant("saved first", saved_before_sent)],
        faults=(),
        systems=systems,
        node_systems=node_systems,
    )
    (violation,) = check.run().violations
    assert violation.actions == ("complete send#0",)
    at_the_end = Check(
        Graph([save, send]),
        {"x": 1},
        [Invariant("saved first", at_end(saved_before_sent))],
        faults=(),
        systems=systems,
        node_systems=node_systems,
    )
    result = at_the_end.run()
    assert result.ok
    assert result.transitions == 2  # one order stands for both


def test_nodes_that_use_nothing_go_in_one_order() -> None:
    nodes = [node(output=f"v{i}", name=f"n{i}")(lambda x: x) for i in range(12)]
    result = Check(Graph(nodes), {"x": 1}, faults=()).run()
    assert (result.ok, result.states, result.transitions) == (True, 13, 12)


@pytest.mark.parametrize(
    "node_systems, message",
    [
        ({"sav": ["disk"]}, "node 'sav' does not exist; did you mean 'save'"),
        ({"save": ["dsk"]}, "system 'dsk' is not in systems; did you mean 'disk'"),
    ],
)
def test_unknown_names_in_node_systems_are_rejected(node_systems: dict[str, list[str]], message: str) -> None:
    @node(output="a")
    def save(x: int) -> int:
        return x

    with pytest.raises(DefinitionError, match=message):
        Check(Graph([save]), {"x": 1}, systems={"disk": MemoryStorage()}, node_systems=node_systems).run()


def test_a_failure_may_come_late() -> None:
    """What is sent while a node that uses nothing is still running is sent, also if that node then fails."""
    outbox = MemoryStorage()

    @node(output="checked")
    def check(x: int) -> int:
        return x

    @node(output="text")
    def write(x: int) -> str:
        return f"dear {x}"

    @node(output="sent")
    def send(text: str) -> bool:
        outbox.put(text, True)
        return True

    def nothing_sent(world: Any) -> Any:
        return world.systems["run"].status != "failed" or not world.systems["outbox"].list()

    result = Check(
        Graph([check, write, send]),
        {"x": 1},
        [Invariant("nothing sent by a run that fails", nothing_sent)],
        faults={"fail"},
        systems={"outbox": outbox},
        node_systems={"check": [], "write": []},
    ).run()
    (violation,) = result.violations
    assert violation.actions == ("complete write#0", "complete send#0", "fail check#0")


def test_a_body_that_raises_by_itself_may_come_late_too() -> None:
    outbox = MemoryStorage()

    @node(output="checked")
    def check(x: int) -> int:
        raise ValueError("no")

    @node(output="text")
    def write(x: int) -> str:
        return f"dear {x}"

    @node(output="sent")
    def send(text: str) -> bool:
        outbox.put(text, True)
        return True

    node_systems = {"check": [], "write": []}
    few, many = ends_of(Graph([check, write, send]), {"x": 1}, {"outbox": outbox}, node_systems=node_systems)
    assert few == many
    assert any("dear 1" in end for end in few)


def test_an_eager_node_does_not_wait_for_the_loop_that_it_is_downstream_of() -> None:
    log = MemoryStorage()

    def tell(text: str) -> None:
        log.put("log", (log.get("log") or "") + text)

    @node(output="n")
    def turn(n: int) -> int:
        tell(f"t{n}")
        return n + 1

    @route(targets=["turn", END])
    def again(n: int) -> str:
        return "turn" if n < 2 else END

    @node(output="seen", eager=True)
    def watch(n: int) -> int:
        tell(f"w{n}")
        return n

    few, many = ends_of(Graph([turn, again, watch]), {"n": 0}, {"log": log}, node_systems={"again": []})
    assert few == many
    assert len(few) > 1


def test_items_of_one_node_use_the_same_system() -> None:
    class Work(TypedDict, total=False):
        x: int
        done: Annotated[list[int], operator.add]
        total: int

    log = MemoryStorage()

    @route(targets=["each"])
    def spread(x: int) -> list[Send]:
        return [Send("each", {"part": n}) for n in range(3)]

    @node(output="done")
    def each(part: int) -> list[int]:
        log.put("log", (log.get("log") or "") + str(part))
        return [part]

    @node(output="total")
    def total(done: list[int]) -> int:
        return sum(done)

    graph = Graph([spread, each, total], state=Work)
    few, many = ends_of(graph, {"x": 1}, {"log": log}, node_systems={"spread": [], "total": []})
    assert few == many
    assert len(few) == 6


def test_who_looks_at_the_run_on_the_way_sees_every_order() -> None:
    @node(output="a")
    def pay(x: int, ctx: Context) -> Any:
        return ctx.record("pay", lambda: 1)

    @node(output="b")
    def ship(x: int, ctx: Context) -> Any:
        return ctx.record("ship", lambda: 1)

    def paid_first(world: Any) -> bool:
        made = [effect.name for effect in world.systems["run"].effects]
        return "ship" not in made or "pay" in made

    (violation,) = check_graph(
        Graph([pay, ship]), {"x": 1}, [Invariant("paid first", paid_first)], faults=()
    ).violations
    assert violation.actions == ("complete ship#0",)


def test_a_counterexample_is_not_longer_because_orders_were_left_out() -> None:
    """The node that uses nothing would go first, and has nothing to do with it."""

    @node(output="a")
    def idle(x: int) -> int:
        return x

    @node(output="b", retry=RetryPolicy(max_attempts=2, base_delay=1.0))
    def pay(x: int, ctx: Context) -> Any:
        ctx.record("pay", lambda key: 1, key=f"{ctx.attempt}")
        if ctx.attempt == 0:
            raise OSError("no network")
        return x

    result = check_graph(Graph([idle, pay]), {"x": 1}, ["stable_idempotency_key"], faults=())
    (violation,) = result.violations
    assert violation.actions == ("complete pay#0", "retry pay#0", "complete pay#0")
    assert result.narratives[0].choices == violation.actions


def test_what_is_of_a_later_step_does_not_go_first() -> None:
    """Where a step fails for good, nothing of a later one is started, and what was not executed by then never is."""
    bank, mail = MemoryStorage(), MemoryStorage()

    @node(output="text")
    def write(x: int) -> str:
        return f"dear {x}"

    @node(output="paid")
    def pay(x: int) -> int:
        if "paid" in bank.list():
            raise ValueError("it was paid before")
        bank.put("paid", x)
        return x

    @node(output="balance")
    def look(x: int) -> int:
        return len(bank.list())

    @node(output="sent")
    def send(text: str) -> None:
        mail.put(text, True)

    node_systems = {"write": [], "pay": ["bank"], "look": ["bank"], "send": ["mail"]}
    systems = {"bank": bank, "mail": mail}
    graph = Graph([write, pay, look, send])
    few, many = ends_of(graph, {"x": 1}, systems, node_systems=node_systems, faults=("crash",))
    assert few == many
    assert any("failed" in end and "dear" not in end for end in few)
