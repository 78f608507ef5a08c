"""Promises of a run that can be checked by name.

================  ==================================================================================================
``schedule``      the final state does not depend on the order in which items complete
``resume``        a run that was killed and resumed ends as the unbroken one does, digest for digest
``effects_once``  a recorded effect whose recording was kept never happens again
``same_key``      an effect that happens again, because it was in flight, asks for the same with the same key
``ends``          every run ends: nothing is stuck, and nothing goes round for ever
``completes``     a run without faults does not fail
================  ==================================================================================================

The first two compare with a run without faults in the order of one worker, in which people answer the same: whether it
completes, with which last state, or else with which error it fails. A fault that a node was told to meet ("fail",
"timeout") may rightly lead to another end, so they look at runs with other faults, or none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from clew.error_text import line_of
from clew.errors import DefinitionError, MaxStepsError, StalledError
from clew.explore.checking.run_system import RunSystem
from clew.explore.checking.simulated_process import RUN
from clew.explore.model.invariants import Invariant, Severity
from clew.graph.names import nearest

Check = Callable[[Any], Any]
Ends = Mapping[frozenset[tuple[str, str]], "RunEnd"]
"""How unbroken runs end, by what people answer."""


class RunEnd(msgspec.Struct, frozen=True):
    """How a run ended: what counts when two are compared."""

    status: str
    digest: str  # of the last state, where it completed
    error: str  # its class, where it failed

    @classmethod
    def of(cls, run: RunSystem) -> RunEnd:
        """Of a run that is over."""
        if run.status != "failed":
            return cls(run.status, run.digest, "")
        return cls(run.status, "", type(run.error).__name__)

    def __str__(self) -> str:
        return f"failed with {self.error}" if self.error else self.status


def at_end(check: Check) -> Check:
    """A check that looks only where the run is over: completed, or failed and not resumed any more."""

    def check_at_end(world: Any) -> Any:
        return check(world) if world.systems["run"].has_ended else True

    check_at_end.__name__ = getattr(check, "__name__", "check")
    check_at_end.at_end = True  # type: ignore[attr-defined]
    return check_at_end


def promised(name: str, unbroken: Ends) -> Invariant:
    """The invariant of a name; `unbroken` says how runs without faults end."""
    if name not in _PROMISES:
        raise DefinitionError(f"there is no invariant {name!r}; {nearest(name, _PROMISES)}")
    check = _PROMISES[name](unbroken)
    check.at_end = True  # type: ignore[attr-defined] # what it looks at is still there at the end
    return Invariant(name, check, Severity.CRITICAL)


def _same_end(unbroken: Ends, faults: frozenset[str], what: str) -> Check:
    def check(world: Any) -> Any:
        run: RunSystem = world.systems["run"]
        if not faults.issuperset(run.had) or bool(run.had) != bool(faults) or not run.has_ended:
            return True
        ends, end = _comparable(unbroken, run), RunEnd.of(run)
        return True if not ends or end in ends else f"{what}: {_difference(run, end, ends[0])}"

    return check


def _comparable(unbroken: Ends, run: RunSystem) -> list[RunEnd]:
    """The ends of unbroken runs in which people answered the same; more, where this one failed before it asked."""
    given = frozenset(run.answered.items())
    if given in unbroken:
        return [unbroken[given]]
    return [end for answers, end in unbroken.items() if given <= answers]


def _difference(run: RunSystem, end: RunEnd, other: RunEnd) -> str:
    if end.status == other.status == "completed":
        return f"its last state is {dict(run.state.values)!r}"
    why = f"it failed with {_told(run)}" if end.error else f"it {end}"
    return f"{why}; the other one {other}"


def _effects_once(unbroken: Ends) -> Check:
    def check(world: Any) -> Any:
        run: RunSystem = world.systems["run"]
        for effect in run.effects:
            if effect.again:
                what = f"call {effect.number} ({effect.name!r})" if effect.number >= 0 else "the node"
                return f"{effect.path}: {what} was made again, although what came of it was kept"
        return True

    return check


def _same_key(unbroken: Ends) -> Check:
    def check(world: Any) -> Any:
        asked: dict[tuple[Any, ...], bytes] = {}
        for effect in world.systems["run"].effects:
            call = (effect.path, effect.within, effect.number, effect.name)
            first = asked.setdefault(call, effect.request)
            if first != effect.request:
                return (
                    f"{effect.path}, call {effect.number} ({effect.name!r}) was made again with another request: "
                    f"{effect.request.decode()} after {first.decode()}"
                )
        return True

    return check


def _ends(unbroken: Ends) -> Check:
    def check(world: Any) -> Any:
        run: RunSystem = world.systems["run"]
        if run.status == "failed" and isinstance(run.error, MaxStepsError | StalledError):
            return f"the run does not end by itself: {run.error}"
        if run.has_ended or run.status == "waiting" or run.choices():
            return True
        return (
            f"nothing can happen any more, and the run is {run.status}; it is at {run.disk.names(RUN)[-1:]}"
        )

    return check


def _told(run: RunSystem) -> str:
    return "" if run.error is None else line_of(run.error)


def _completes(unbroken: Ends) -> Check:
    def check(world: Any) -> Any:
        run: RunSystem = world.systems["run"]
        if run.status != "failed" or run.had:
            return True
        return f"the run fails, and there was no fault: {_told(run)}"

    return check


_PROMISES: Mapping[str, Callable[[Ends], Check]] = {
    "schedule": lambda unbroken: _same_end(
        unbroken, frozenset(), "the order of completions changed how the run ends"
    ),
    "resume": lambda unbroken: _same_end(
        unbroken, frozenset({"crash", "store"}), "the resumed run did not end as the unbroken one"
    ),
    "effects_once": _effects_once,
    "same_key": _same_key,
    "ends": _ends,
    "completes": _completes,
}

PROMISES = tuple(_PROMISES)
"""The names."""
