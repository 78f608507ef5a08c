"""Leaving out orders that cannot differ loses nothing: held against the search that tries them all."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from clew import Graph, RetryPolicy, node
from clew.errors import DefinitionError
from clew.explore import Check, Invariant, at_end
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


def random_workflow(seed: int) -> tuple[Graph, dict[str, MemoryStorage], dict[str, list[str]], int]:
    """A small graph whose nodes use some of two systems, in ways in which the order often matters."""
    rng = Random(seed)
    systems = {"one": MemoryStorage(), "two": MemoryStorage()}
    nodes, touches, known = [], {}, ["x"]
    for number in range(rng.randint(3, 5)):
        used = rng.sample(["one", "two"], rng.choice([0, 0, 1, 1, 2]))
        reads = rng.sample(known, min(len(known), rng.randint(1, 2)))
        name = f"n{number}"
        nodes.append(_node(name, reads, [systems[each] for each in used], rng))
        touches[name] = used
        known.append(f"v{number}")
    return Graph(nodes), systems, touches, rng.randint(1, 3)


def _node(name: str, reads: list[str], used: list[MemoryStorage], rng: Random) -> Any:
    factor, adds = rng.randint(2, 3), rng.random() < 0.5

    def body(*_: Any) -> str:
        for system in used:
            before = system.get("total") or 0
            system.put("total", before + factor if adds else before * factor + 1)
        return name

    made: dict[str, Any] = {"body": body}
    exec(f"def {name}({', '.join(reads)}): return body({', '.join(reads)})", made)
    retry = RetryPolicy(max_attempts=2, base_delay=1.0) if rng.random() < 0.3 else None
    return node(output=f"v{name[1:]}", retry=retry)(made[name])


@pytest.mark.parametrize("faults", [(), ("crash",), ("crash", "fail", "timeout"), ("store",)])
def test_the_same_is_found_with_and_without(faults: tuple[str, ...]) -> None:
    fewer = 0
    for seed in range(12):
        graph, systems, touches, limit = random_workflow(seed)
        low = Invariant(
            "stays low", at_end(lambda world, n=limit: (world.systems["one"].get("total") or 0) <= 3 * n)
        )
        found = []
        for reduce in (True, False):
            ends = Ends()
            invariants = ["schedule", "resume", "effects_once", "ends", low, ends.invariant()]
            check = Check(
                graph, {"x": 1}, invariants, faults=faults, systems=systems, touches=touches, reduce=reduce
            )
            result = check.run()
            assert not result.truncated
            wrong = {violation.name: len(violation.path) for violation in result.violations}
            found.append((set(wrong), frozenset(ends.seen), result.transitions))
        (names, ended, few), (all_names, all_ended, many) = found
        assert (names, ended) == (all_names, all_ended), seed
        assert few <= many
        fewer += few < many
    assert fewer


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

    systems, touches = {"first": first, "second": second}, {"save": ["first"], "send": ["second"]}
    check = Check(
        Graph([save, send]),
        {"x": 1},
        [Invariant("saved first", saved_before_sent)],
        faults=(),
        systems=systems,
        touches=touches,
    )
    (violation,) = check.run().violations
    assert violation.actions == ("complete send#0",)
    at_the_end = Check(
        Graph([save, send]),
        {"x": 1},
        [Invariant("saved first", at_end(saved_before_sent))],
        faults=(),
        systems=systems,
        touches=touches,
    )
    result = at_the_end.run()
    assert result.ok
    assert result.transitions == 2  # one order stands for both


def test_nodes_that_use_nothing_go_in_one_order() -> None:
    nodes = [node(output=f"v{i}", name=f"n{i}")(lambda x: x) for i in range(12)]
    result = Check(Graph(nodes), {"x": 1}, faults=()).run()
    assert (result.ok, result.states, result.transitions) == (True, 13, 12)


@pytest.mark.parametrize(
    "touches, told",
    [
        ({"sav": ["disk"]}, "touches names a node 'sav', and there is none; did you mean 'save'"),
        (
            {"save": ["dsk"]},
            "touches says that 'save' uses 'dsk', and no such system is given; did you mean 'disk'",
        ),
    ],
)
def test_touches_that_name_nothing_are_refused(touches: dict[str, list[str]], told: str) -> None:
    @node(output="a")
    def save(x: int) -> int:
        return x

    with pytest.raises(DefinitionError, match=told):
        Check(Graph([save]), {"x": 1}, systems={"disk": MemoryStorage()}, touches=touches).run()


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
        touches={"check": [], "write": []},
    ).run()
    (violation,) = result.violations
    assert violation.actions == ("complete write#0", "complete send#0", "fail check#0")
