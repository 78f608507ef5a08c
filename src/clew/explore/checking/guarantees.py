"""The built-in invariants of a check.

==========================  ==========================================================================================
``schedule_independent``    the final state does not depend on the order in which items complete
``resume_equivalent``       a run that was killed and resumed ends like the uninterrupted run, with the same digest
``exactly_once_effects``    a recorded effect is never repeated after its result was stored
``stable_idempotency_key``  an effect that is repeated has the same request, including the idempotency key
``terminates``              every run ends: it never stalls and never loops forever
``completes``               a run without faults does not fail
==========================  ==========================================================================================

The first two compare a run with the uninterrupted runs: without faults, one item at a time, with the same answers.
They compare the status, and the last state or the class of the error. The faults "fail" and "timeout" can change the
result of a node, so these two ignore runs that had one.
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
"""How uninterrupted runs end, by the answers given."""


class RunEnd(msgspec.Struct, frozen=True):
    """How a run ended, for comparing two runs."""

    status: str
    digest: str  # of the last state; "" if the run failed
    error: str  # the class of the error; "" unless the run failed

    @classmethod
    def of(cls, run: RunSystem) -> RunEnd:
        """Return how an ended run ended."""
        if run.status != "failed":
            return cls(run.status, run.digest, "")
        return cls(run.status, "", type(run.error).__name__)

    def __str__(self) -> str:
        return f"failed with {self.error}" if self.error else self.status


def at_end(check: Check) -> Check:
    """Return a check that applies only to ended runs: completed, or failed and not resumed again."""

    def check_at_end(world: Any) -> Any:
        return check(world) if world.systems["run"].has_ended else True

    check_at_end.__name__ = getattr(check, "__name__", "check")
    check_at_end.at_end = True  # type: ignore[attr-defined]
    return check_at_end


def guarantee(name: str, expected: Ends) -> Invariant:
    """Return a built-in invariant; `expected` is how uninterrupted runs end."""
    if name not in _GUARANTEES:
        raise DefinitionError(f"unknown invariant {name!r}; {nearest(name, _GUARANTEES)}")

    def check(world: Any) -> Any:
        return _GUARANTEES[name](world.systems["run"], expected)

    check.at_end = True  # type: ignore[attr-defined] # a violation on the way is still visible at the end
    return Invariant(name, check, Severity.CRITICAL)


def _schedule_independent(run: RunSystem, expected: Ends) -> Any:
    return True if run.had else _same_end(run, expected, "the order of completions changed how the run ends")


def _resume_equivalent(run: RunSystem, expected: Ends) -> Any:
    if not run.had or not {"crash", "store"}.issuperset(run.had):
        return True
    return _same_end(run, expected, "the resumed run did not end like the uninterrupted run")


def _same_end(run: RunSystem, expected: Ends, what: str) -> Any:
    if not run.has_ended:
        return True
    ends, end = _comparable(expected, run), RunEnd.of(run)
    return True if not ends or end in ends else f"{what}: {_difference(run, end, ends[0])}"


def _comparable(expected: Ends, run: RunSystem) -> list[RunEnd]:
    """Return the ends of uninterrupted runs with the same answers.

    A run that failed before it asked everything is comparable with several of them.
    """
    given = frozenset(run.answered.items())
    if given in expected:
        return [expected[given]]
    return [end for answers, end in expected.items() if given <= answers]


def _difference(run: RunSystem, end: RunEnd, other: RunEnd) -> str:
    if end.status == other.status == "completed":
        return f"its last state is {dict(run.state.values)!r}"
    how = f"it failed with {_error(run)}" if end.error else f"it {end}"
    return f"{how}; the uninterrupted run {other}"


def _exactly_once_effects(run: RunSystem, expected: Ends) -> Any:
    for effect in run.effects:
        if effect.again:
            what = f"call {effect.number} ({effect.name!r})" if effect.number >= 0 else "the node"
            return f"{effect.path}: {what} was repeated although its result was recorded"
    return True


def _stable_idempotency_key(run: RunSystem, expected: Ends) -> Any:
    asked: dict[tuple[Any, ...], bytes] = {}
    for effect in run.effects:
        call = (effect.path, effect.within, effect.number, effect.name)
        first = asked.setdefault(call, effect.request)
        if first != effect.request:
            return (
                f"{effect.path}, call {effect.number} ({effect.name!r}) was repeated with a different request: "
                f"{effect.request.decode()} after {first.decode()}"
            )
    return True


def _terminates(run: RunSystem, expected: Ends) -> Any:
    if run.status == "failed" and isinstance(run.error, MaxStepsError | StalledError):
        return f"the run does not end: {run.error}"
    if run.has_ended or run.status in ("sleeping", "waiting") or run.choices():
        return True
    return f"the run is stuck with status {run.status}; its last log entry is {run.disk.names(RUN)[-1:]}"


def _completes(run: RunSystem, expected: Ends) -> Any:
    if run.status != "failed" or run.had:
        return True
    return f"the run fails without a fault: {_error(run)}"


def _error(run: RunSystem) -> str:
    return "" if run.error is None else line_of(run.error)


_GUARANTEES: Mapping[str, Callable[[RunSystem, Ends], Any]] = {
    "schedule_independent": _schedule_independent,
    "resume_equivalent": _resume_equivalent,
    "exactly_once_effects": _exactly_once_effects,
    "stable_idempotency_key": _stable_idempotency_key,
    "terminates": _terminates,
    "completes": _completes,
}

GUARANTEES = tuple(_GUARANTEES)
"""The names of the built-in invariants."""
