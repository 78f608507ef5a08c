"""The schedules of the children of a checked run.

A node body is executed in one choice, and so are the children that it runs. What happens inside is part of the choice:

====================================  =====================================================================
choice                                what happens
====================================  =====================================================================
``complete PATH in order 1.0``        at the first decision in the children of the item, the second of the possible
                                      actions happens, at the next one the first
``fail INNER N in CHOICE``            fault: an item of a child fails when it is executed for the Nth time
``time out INNER N in CHOICE``        fault: it times out
====================================  =====================================================================

A decision is a moment in which several items of a child can be executed, or can wait for their next attempt. Without
an order, and after its last number, the first action happens. The decisions that a choice reaches are found by trying
it, and every other action of each decision gives another order. So every schedule of a child is offered once. Children
that a node runs at the same time are executed one after the other.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from clew.engine.frame import Item

_ORDER = re.compile(r" in order (\d+(?:\.\d+)*)")
_FAULT = re.compile(r"(fail|time out) (.+?) (\d+) in (?=complete )")


class Tried(Protocol):
    """The part of a `FaultPlan` that is about children."""

    @property
    def decisions(self) -> Sequence[int]:
        """The number of possible actions at each decision."""


class ChildSchedule:
    """What happens in the children of one choice."""

    def __init__(self, order: Sequence[int] = (), fault: tuple[str, str, int] | None = None) -> None:
        self._order = order
        self._fault = fault
        self._executed: Counter[str] = Counter()
        self._decisions: list[int] = []
        self._numbered: list[str] = []

    @property
    def seen(self) -> tuple[tuple[int, ...], tuple[str, ...]]:
        """Return the number of actions at each decision, and the executed items, each with a number."""
        return tuple(self._decisions), tuple(self._numbered)

    def decide(self, actions: Sequence[str]) -> str:
        """Return which of several actions happens next."""
        if len(actions) == 1:
            return actions[0]
        number = len(self._decisions)
        self._decisions.append(len(actions))
        return actions[self._order[number] if number < len(self._order) else 0]

    def fault_of(self, path: str) -> str:
        """Count an execution of an item; return the fault that happens to it: "fail", "time out" or ""."""
        self._executed[path] += 1
        number = self._executed[path]
        self._numbered.append(f"{path} {number}")
        return self._fault[0] if self._fault is not None and self._fault[1:] == (path, number) else ""


def scheduled(choice: str) -> tuple[str, ChildSchedule]:
    """Return a choice without what it says about children, and that as a schedule."""
    fault = _FAULT.match(choice)
    if fault is not None:
        choice = choice[fault.end() :]
    order = _ORDER.search(choice)
    given = [] if order is None else [int(number) for number in order[1].split(".")]
    inner = None if fault is None else (fault[1], fault[2], int(fault[3]))
    return _ORDER.sub("", choice), ChildSchedule(given, inner)


def in_every_order(
    choices: Iterable[str], running: Mapping[str, Item], trial: Callable[[str], Tried]
) -> list[str]:
    """Return the choices; those that run children once for each schedule of the children."""
    may_run = {
        f"complete {path}"
        for path, item in running.items()
        if any(p.kind == "context" for p in item.node.params)
    }
    found: list[str] = []
    for choice in choices:
        found += _orders(choice, trial, ()) if choice in may_run else [choice]
    return found


def _orders(choice: str, trial: Callable[[str], Tried], order: tuple[int, ...]) -> Iterator[str]:
    ordered = f"{choice} in order {'.'.join(map(str, order))}" if order else choice
    yield ordered
    decisions = trial(ordered).decisions
    for number in range(len(order), len(decisions)):
        before = (*order, *[0] * (number - len(order)))
        for other in range(1, decisions[number]):
            yield from _orders(choice, trial, (*before, other))
