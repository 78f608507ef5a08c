"""What may be chosen in a run under check, by name: faults, and the points of a choice at which they may happen.

A name says all that is needed to make the choice again. What a choice would come by is found out by making it and
taking it back: a `FaultPlan`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from clew.errors import DefinitionError
from clew.explore.checking.faulty_store import WRITES
from clew.graph import Graph
from clew.graph.names import nearest
from clew.runtime import crash_points
from clew.state import encode

FAULTS = ("crash", "fail", "timeout", "store")


class ProcessKilled(BaseException):
    """The process is killed: nothing that a program could do about it happens."""


class CallTimedOut(TimeoutError):
    """A call was made, and its answer never came."""


class FaultPlan(msgspec.Struct, frozen=True):
    """What a choice comes by: points at which the process may die, and operations of the store that may fail."""

    points: tuple[str, ...] = ()
    operations: tuple[str, ...] = ()
    fails: bool = False  # something fails by itself, without a fault
    raises: bool = False  # a body raises or asks, whatever comes of it


class CrashPointWatch:
    """While it lasts, a function is told of each point that is reached."""

    def __init__(self, reached: Callable[[str], None]) -> None:
        self._reached = reached

    def __enter__(self) -> None:
        crash_points.watch(self._reached)

    def __exit__(self, *exc: object) -> None:
        crash_points.watch(None)


class CrashFault:
    """The process dies when it comes to a point for the Nth time; from then on nothing of it happens.

    A body may catch what kills it, or wrap it in a group. So whoever lets it die asks `has_come`, whatever came of
    the body; and each point, write and call that a body still comes to kills it again.
    """

    def __init__(self, at: str, number: int) -> None:
        self._at, self._left = at, number
        self.has_come = False

    def reached(self, point: str) -> None:
        """The process has come to a point."""
        if point == self._at:
            self._left -= 1
            self.has_come = self.has_come or not self._left
        self.check()

    def check(self, *_: object) -> None:
        """Nothing goes on after it."""
        if self.has_come:
            raise ProcessKilled


def inner_faults(faults: Iterable[str], choice: str, trial: FaultPlan) -> list[str]:
    """The faults that may happen in the middle of a choice."""
    found: list[str] = []
    verb, _, path = choice.partition(" ")
    if "timeout" in faults and verb == "complete":
        calls = trial.points.count("after-call")
        found += [f"time out {path} in call {number}" for number in range(1, calls + 1)]
    if "crash" in faults:
        found += [f"crash in {choice} at {point}" for point in _numbered(trial.points)]
    if "store" in faults:
        for operation in _numbered(trial.operations):
            found.append(f"store refused in {choice} at {operation}")
            if operation.partition(" ")[0] in WRITES:
                found.append(f"store unconfirmed in {choice} at {operation}")
    return found


def _numbered(names: Iterable[str]) -> list[str]:
    """Each name with how often it has come so far."""
    seen: Counter[str] = Counter()
    found = []
    for name in names:
        seen[name] += 1
        found.append(f"{name} {seen[name]}")
    return found


def fault_of(choice: str) -> str | None:
    """The kind of fault that a choice is, if it is one."""
    verb = choice.partition(" ")[0]
    return {"crash": "crash", "fail": "fail", "time": "timeout", "store": "store"}.get(verb)


def checked_faults(faults: Any) -> frozenset[str]:
    """The kinds of faults that may happen."""
    known = ", ".join(map(repr, FAULTS))
    if isinstance(faults, str):
        faults = [faults]
    if not isinstance(faults, Iterable):
        raise DefinitionError(f"faults are some of {known}, or () for none, not {faults!r}")
    found = list(faults)
    unknown = [kind for kind in found if kind not in FAULTS]
    if unknown:
        raise DefinitionError(f"there is no fault {unknown[0]!r}; there are {known}")
    return frozenset(found)


def checked_answers(answers: Any, graph: Graph) -> dict[str, list[Any]]:
    """What people may answer, by the path or the node of the question."""
    if answers is None:
        return {}
    if not isinstance(answers, Mapping):
        raise DefinitionError(f'answers are {{"node": [answer, ...]}}, not {answers!r}')
    found: dict[str, list[Any]] = {}
    for name, given in answers.items():
        if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
            raise DefinitionError(f"the answers to {name!r} are a list, not {given!r}; write [{given!r}]")
        found[name] = list(given)
        if not found[name]:
            raise DefinitionError(f"there is no answer to {name!r}: a run that asks it would never go on")
        node = str(name).partition("/")[0].partition("#")[0]
        if "/" not in str(name) and node not in _all_nodes(graph):
            raise DefinitionError(
                f"answers name a node {node!r}, and there is none; {nearest(node, sorted(_all_nodes(graph)))}"
            )
    return found


def _all_nodes(graph: Graph) -> set[str]:
    found = set(graph.nodes)
    for node in graph.nodes.values():
        if node.subgraph is not None:
            found |= _all_nodes(node.subgraph.graph)
    return found


def text_of(value: Any) -> str:
    """An answer as its choice names it."""
    return encode(value, at="answer").decode()
