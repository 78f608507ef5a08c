"""Promises of a run that can be checked by name.

================  ==================================================================================================
``schedule``      the final state does not depend on the order in which items complete
``resume``        a run that was killed and resumed ends as the unbroken one does, digest for digest
``effects_once``  a recorded effect whose recording was kept never happens again
``same_key``      an effect that happens again, because it was in flight, asks for the same with the same key
``ends``          every run ends: nothing is stuck, and nothing goes round for ever
================  ==================================================================================================

The first two compare with a run without faults in the order of one worker. A fault that a node was told to meet
("fail", "timeout") may rightly lead to another end, so they look at runs with other faults, or none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from clew.errors import DefinitionError, MaxStepsError, StalledError
from clew.explore.checking.process import RUN
from clew.explore.invariants import Invariant, Severity
from clew.explore.systems.run import RunSystem
from clew.graph.names import nearest

Check = Callable[[Any], Any]


def at_end(check: Check) -> Check:
    """A check that looks only where the run is over: completed, or failed and not resumed any more."""

    def check_at_end(world: Any) -> Any:
        return check(world) if world.systems["run"].has_ended else True

    check_at_end.__name__ = getattr(check, "__name__", "check")
    check_at_end.at_end = True  # type: ignore[attr-defined]
    return check_at_end


def promised(name: str, reference: str) -> Invariant:
    """The invariant of a name; `reference` is the digest of the unbroken run's last state."""
    if name not in _PROMISES:
        raise DefinitionError(f"there is no invariant {name!r}; {nearest(name, _PROMISES)}")
    check = _PROMISES[name](reference)
    check.at_end = True  # type: ignore[attr-defined] # of the run alone, whatever the systems show
    return Invariant(name, check, Severity.CRITICAL)


def _same_end(reference: str, faults: frozenset[str], told: str) -> Check:
    def check(world: Any) -> Any:
        run: RunSystem = world.systems["run"]
        if run.status != "completed" or not faults.issuperset(run.had) or bool(run.had) != bool(faults):
            return True
        return True if run.digest == reference else told + _difference(run, reference)

    return check


def _difference(run: RunSystem, reference: str) -> str:
    return f": its last state is {dict(run.state.values)!r}" if reference else ""


def _effects_once(reference: str) -> Check:
    def check(world: Any) -> Any:
        run: RunSystem = world.systems["run"]
        for effect in run.effects:
            if effect.again:
                what = f"call {effect.number} ({effect.name!r})" if effect.number >= 0 else "the node"
                return f"{effect.path}: {what} was made again, although what came of it was kept"
        return True

    return check


def _same_key(reference: str) -> Check:
    def check(world: Any) -> Any:
        asked: dict[tuple[str, int, str], bytes] = {}
        for effect in world.systems["run"].effects:
            first = asked.setdefault((effect.path, effect.number, effect.name), effect.request)
            if first != effect.request:
                return (
                    f"{effect.path}, call {effect.number} ({effect.name!r}) was made again with another request: "
                    f"{effect.request.decode()} after {first.decode()}"
                )
        return True

    return check


def _ends(reference: str) -> Check:
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


_PROMISES: Mapping[str, Callable[[str], Check]] = {
    "schedule": lambda reference: _same_end(
        reference, frozenset(), "the order of completions changed the final state"
    ),
    "resume": lambda reference: _same_end(
        reference, frozenset({"crash", "store"}), "the resumed run did not end as the unbroken one"
    ),
    "effects_once": _effects_once,
    "same_key": _same_key,
    "ends": _ends,
}

PROMISES = tuple(_PROMISES)
"""The names."""
