"""Explore Clew's real engine and drivers: every order of events, and a failure of any operation of the store.

`driving.witness` and `driving.path` check every path: the engine raises only Clew's errors; a run was rejected, or can
be resumed; no call and no node is repeated after its result is known; no call depends on a record that could not be
written; and the run ends with the chain of the uninterrupted run, with either driver.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from tests.explore.checking.driving.case import Case, Driver, Outside
from tests.explore.checking.driving.drivers import Explored, explore
from tests.explore.checking.driving.graphs import Mode, graph_of, is_in_time
from tests.explore.checking.page import counts, rows

DRIVERS: dict[str, tuple[Mode, Driver]] = {
    "blocking": ("sync", "blocking"),
    "asyncio": ("async", "asyncio"),
    "asyncio, sync nodes": ("sync", "asyncio"),
}
TROUBLE = frozenset({"store", "crash", "call"})
LESS = frozenset({"store", "crash"})

ONE: dict[
    str, tuple[str, dict[str, Any]]
] = {  # as the documentation calls it: the graph, and what may happen
    "a chain with recorded calls, and inspection": ("chain", {"looks": True}),
    "a fan-out": ("fan-out", {}),
    "a question with parallel work": ("question", {}),
    "a retry with parallel work": ("retried", {}),
    "a subgraph with parallel work": ("nested", {}),
    "large values and snapshots": ("large", {}),
    "two results at once": ("fan-out", {"together": True, "faults": LESS}),
    "a fan-out, as a stream": ("fan-out", {"streams": True}),
    "cancelled": ("retried", {"faults": frozenset({"cancel"})}),
    "an expired lease, and a takeover": ("nested", {"faults": frozenset({"takeover"})}),
    "a timeout, and the attempt continues": ("late", {"faults": frozenset({"timeout"})}),
    "a subgraph that times out": ("bounded", {"faults": frozenset({"timeout"}), "splits": True}),
    '`durability="exit"`': ("nested", {"options": {"durability": "exit"}}),
    '`durability="async"`': ("guarded", {"options": {"durability": "async"}, "faults": LESS}),
}
TWO: dict[str, tuple[str, dict[str, Any]]] = {
    "a chain with recorded calls": ("chain", {}),
    "a body that catches everything": ("guarded", {"faults": LESS | {"takeover"}}),
    "a fan-out": ("fan-out", {}),
    "a question with parallel work": ("question", {}),
    "a subgraph with parallel work": ("nested", {}),
}


def case_of(name: str, driver: str, **options: Any) -> Case:
    mode, kind = DRIVERS[driver]
    outside = Outside()
    graph, values = graph_of(name, outside, mode)
    if name == "question":
        options = {"answers": {"approve#0": True}, **options}
    if name == "late":
        options = {"is_right": is_in_time, "splits": True, **options}
    options = {"faults": TROUBLE, **options}
    return Case(graph=graph, values=values, outside=outside, driver=kind, **options)


@cache  # what several tests ask of one case
def explored(what: str, driver: str, max_faults: int) -> Explored:
    name, options = (ONE if max_faults == 1 else TWO)[what]
    found = explore(case_of(name, driver, max_faults=max_faults, **options))
    assert not found.violation, found.violation
    return found


def documented(what: str, driver: str, max_faults: int) -> str:
    """What the page says of a case: in its first table with one fault, in the next with two."""
    found = rows(what)
    return found[max_faults - 1 if len(found) > 1 else 0][0 if driver == "blocking" else 1]


def numbers(found: Explored) -> str:
    return counts(found.states, found.transitions)


@pytest.mark.parametrize("driver", ["blocking", "asyncio"])
@pytest.mark.parametrize("what", ONE)
def test_one_fault(what: str, driver: str) -> None:
    assert numbers(explored(what, driver, 1)) == documented(what, driver, 1)


def _cases(fast: set[str], table: dict[str, Any]) -> list[Any]:
    return [name if name in fast else pytest.param(name, marks=pytest.mark.slow) for name in table]


@pytest.mark.parametrize("what", _cases({"a fan-out", "a question with parallel work", "cancelled"}, ONE))
def test_sync_nodes_on_an_event_loop_meet_what_they_meet_without_one(what: str) -> None:
    found = explored(what, "asyncio, sync nodes", 1)
    if (
        what != "a timeout, and the attempt continues"
    ):  # an alarm of the loop may go off early, which is one event more
        assert numbers(found) == documented(what, "blocking", 1)


@pytest.mark.parametrize("what", _cases({"a body that catches everything"}, TWO))
def test_two_faults_on_an_event_loop(what: str) -> None:
    assert numbers(explored(what, "asyncio", 2)) == documented(what, "asyncio", 2)


@pytest.mark.parametrize("what", _cases({"a chain with recorded calls"}, TWO))
def test_two_faults_without_one(what: str) -> None:
    assert numbers(explored(what, "blocking", 2)) == documented(what, "blocking", 2)


def test_every_operation_of_the_store_fails_somewhere() -> None:
    """All that running, going on, staying the owner and looking ask of a store."""
    tried = explored("a chain with recorded calls, and inspection", "blocking", 1).choices
    tried |= explored("large values and snapshots", "blocking", 1).choices
    tried |= explored("a body that catches everything", "blocking", 2).choices
    writes = {"create", "claim", "append", "update", "renew", "release"}
    reads = {"row", "rows", "page", "entries", "within", "log_end", "find", "last", "blob"}
    assert {f"{each} refused" for each in reads | writes} <= tried
    assert {f"{each} {how}" for each in writes for how in ("unconfirmed", "and die")} <= tried
    used = {choice.removesuffix(" refused") for choice in tried if choice.endswith(" refused")}
    assert used == reads | writes


@pytest.mark.parametrize("name", ["chain", "fan-out", "question", "retried", "nested", "large"])
def test_both_drivers_end_with_the_same_chains(name: str) -> None:
    ends = {explore(case_of(name, driver, max_faults=0)).ends for driver in DRIVERS}
    assert len(ends) == 1
    assert len(ends.pop()) == 1


@pytest.mark.parametrize("name", ["chain", "fan-out"])
def test_where_paths_meet_nothing_is_lost(name: str) -> None:
    """Held against the search in which no two paths are ever one."""
    merged, whole = (
        explore(case_of(name, "blocking", merges=merges, faults=LESS)) for merges in (True, False)
    )
    assert (merged.ends, merged.violation) == (whole.ends, whole.violation)
    assert merged.states < whole.states
