"""The faults of a checked run, and the points inside a choice where they can happen.

A choice is a string that contains everything needed to repeat it. The points that a choice reaches are found by
making it and rolling it back; the result is a `FaultPlan`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from clew.errors import DefinitionError
from clew.explore.checking.faulty_store import WRITES
from clew.runtime.process import crash_points
from clew.state import encode

FAULTS = ("crash", "fail", "timeout", "store")


class ProcessKilled(BaseException):
    """The simulated process is killed."""


class CallTimedOut(TimeoutError):
    """A call was made, and its response was lost."""


class FaultPlan(msgspec.Struct, frozen=True):
    """What a choice reaches: the crash points and the operations of the store, in order."""

    points: tuple[str, ...] = ()
    operations: tuple[str, ...] = ()
    fails: bool = False  # the run or an item fails without a fault
    raises: bool = False  # a node body raises or asks a question
    decisions: tuple[int, ...] = ()  # in children: the numbers of possible actions
    inside: tuple[str, ...] = ()  # executed items of children, each with the number of its execution


class CrashPointWatch:
    """A context manager that calls a function at each crash point."""

    def __init__(self, reached: Callable[[str], None]) -> None:
        self._reached = reached

    def __enter__(self) -> None:
        crash_points.watch(self._reached)

    def __exit__(self, *exc: object) -> None:
        crash_points.watch(None)


class CrashFault:
    """A crash of the process when it reaches a crash point for the Nth time.

    A body may catch `ProcessKilled`, or wrap it in an exception group. So `has_happened` decides, not the exception;
    and every later crash point, store operation and call raises `ProcessKilled` again.
    """

    def __init__(self, at: str, number: int) -> None:
        self._at, self._left = at, number
        self.has_happened = False

    def reached(self, point: str) -> None:
        """Count a crash point; raise ProcessKilled at the Nth and after it."""
        if point == self._at:
            self._left -= 1
            self.has_happened = self.has_happened or not self._left
        self.check()

    def check(self, *_: object) -> None:
        """Raise ProcessKilled after the crash."""
        if self.has_happened:
            raise ProcessKilled


def inner_faults(faults: Iterable[str], choice: str, trial: FaultPlan) -> list[str]:
    """Return the faults that can happen inside a choice."""
    found: list[str] = []
    verb, _, path = choice.partition(" ")
    for fault, kind in (("fail", "fail"), ("time out", "timeout")):
        found += [f"{fault} {item} in {choice}" for item in trial.inside if kind in faults]
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


def losing_response(number: int, path: str) -> CrashPointWatch:
    """Return a context in which the response to the Nth call is lost."""
    left = number

    def reached(point: str) -> None:
        nonlocal left
        if point == "after-call":
            left -= 1
            if not left:
                raise CallTimedOut(f"injected fault: the response to call {number} of {path} was lost")

    return CrashPointWatch(reached)


def failing_operation(how: str, at: str, number: int) -> Callable[[str], str | None]:
    """Return what a `FaultyStore` asks before each operation, to let the Nth one of a name fail."""
    left = number

    def reached(operation: str) -> str | None:
        nonlocal left
        left -= operation == at
        return how if operation == at and not left else None

    return reached


def _numbered(names: Iterable[str]) -> list[str]:
    """Return each name with its number of occurrences so far."""
    seen: Counter[str] = Counter()
    found = []
    for name in names:
        seen[name] += 1
        found.append(f"{name} {seen[name]}")
    return found


def fault_of(choice: str) -> str | None:
    """Return the kind of fault that a choice is; None for other choices."""
    verb = choice.partition(" ")[0]
    return {"crash": "crash", "fail": "fail", "time": "timeout", "store": "store"}.get(verb)


def checked_faults(faults: Any) -> frozenset[str]:
    """Return the kinds of faults as a set; raise a DefinitionError for an unknown kind."""
    known = ", ".join(map(repr, FAULTS))
    if isinstance(faults, str):
        faults = [faults]
    if not isinstance(faults, Iterable):
        raise DefinitionError(f"faults: expected some of {known}, or (), got {faults!r}")
    found = list(faults)
    unknown = [kind for kind in found if kind not in FAULTS]
    if unknown:
        raise DefinitionError(f"faults: unknown kind {unknown[0]!r}; valid kinds are {known}")
    return frozenset(found)


def text_of(value: Any) -> str:
    """Return an answer as it appears in a choice."""
    return encode(value, at="answer").decode()
