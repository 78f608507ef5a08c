"""Merging: computes the new values of a step from the values before it and the updates of its outcomes.

There are three callers:

- The *commit* (`merge_one`, `merge_all` without `recorded`) calls reducers and records a delta for each value of a
  custom one. It is the only caller of custom reducers.
- *Reading* (the same functions with `recorded`) applies these deltas and runs only the library's own reducers.
- *Lookahead* (`merge_lookahead`) calls only own reducers. A value that a custom reducer still has to produce is
  `UNFINISHED`.

Values are returned, not installed, so a reducer that raises or a conflict changes nothing. The exception is a list with
no other references that receives an appended item: it grows in place once nothing can raise.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from clew.engine.program import Program
from clew.engine.records import Outcome
from clew.engine.updates.deltas import NO_DELTAS, Delta, apply_delta, delta_of, tail_of
from clew.errors import ConflictError, OutputError
from clew.state import Overwrite
from clew.state.reducers import (
    ChangedInPlaceError,
    Reducer,
    call,
    fold,
    grow,
    is_alone,
    is_own,
    may_grow,
    since_overwrite,
)

Deltas = Mapping[str, Delta]
Writers = dict[str, list[tuple[int, Outcome]]]

UNFINISHED: Any = object()
"""Placeholder for a value that a custom reducer produces at the commit."""


class MergeFailure(Exception):
    """A reducer raised an error: the outcome whose update it received, the value, and the error."""

    def __init__(self, outcome: Outcome, value: str, error: Exception) -> None:
        super().__init__(outcome, value, error)
        self.outcome = outcome
        self.value = value
        self.error = error


class DeltaError(Exception):
    """The recorded delta of a value is missing or does not match."""


def merge_one(
    program: Program, values: dict[str, Any], outcome: Outcome, recorded: Deltas | None = None
) -> tuple[dict[str, Any], Deltas]:
    """Return the new values of a step of one item, and the deltas of those that a custom reducer made."""
    reducers = program.reducers
    fresh: dict[str, Any] = {}
    deltas: dict[str, Delta] | None = None
    growing: list[str] = []
    for name, update in outcome.update.items():
        reducer = reducers.get(name)
        if recorded and name in recorded:
            fresh[name] = _applied(values, name, recorded[name], ((0, outcome),))
        elif reducer is None:
            fresh[name] = update
        elif may_grow(reducer, values, name, (update,)):
            growing.append(name)
        elif type(update) is Overwrite:
            fresh[name] = update.value
        elif is_own(reducer, values[name], (update,)):
            fresh[name] = _own(name, reducer, (values[name], (update,)), ((0, outcome),))
        else:
            if recorded is not None:
                raise _not_recorded(name)
            if deltas is None:
                deltas = {}
            fresh[name], deltas[name] = _custom(values, name, reducer, ((0, outcome),))
    for name in growing:  # no reducer can raise from here on
        fresh[name] = grow(reducers[name], values, name, (outcome.update[name],))
    return fresh, NO_DELTAS if deltas is None else deltas


def merge_all(
    program: Program,
    values: dict[str, Any],
    outcomes: Sequence[Outcome],
    on_conflict: str,
    recorded: Deltas | None = None,
) -> tuple[dict[str, Any], dict[str, int], Deltas]:
    """Return the new values, how often each was written, and the deltas of those that a custom reducer made."""
    reducers = program.reducers
    writers = _writers(outcomes)
    growing: list[tuple[str, list[Any]]] = []
    deltas: dict[str, Delta] = {}
    fresh: dict[str, Any] = {}
    for name, many in writers.items():
        reducer = reducers.get(name)
        if recorded and name in recorded:
            fresh[name] = _applied(values, name, recorded[name], many)
        elif reducer is None:
            fresh[name] = _last(name, many, on_conflict)
        else:
            updates = _updates(name, many)
            if may_grow(reducer, values, name, updates):
                growing.append((name, updates))
            elif is_own(reducer, *(left := since_overwrite(values[name], updates))):
                fresh[name] = _own(name, reducer, left, many)
            elif recorded is not None:
                raise _not_recorded(name)
            else:
                fresh[name], deltas[name] = _custom(values, name, reducer, many)
    for name, updates in growing:
        fresh[name] = grow(reducers[name], values, name, updates)
    return fresh, {name: len(many) for name, many in writers.items()}, deltas or NO_DELTAS


def merge_lookahead(
    program: Program,
    values: Mapping[str, Any],
    outcomes: Sequence[Outcome],
    on_conflict: str,
    unfinished: Collection[str],
) -> tuple[dict[str, Any], dict[str, int]]:
    """Return the new values and how often each was written, as far as they are known before the commit.

    `unfinished` are the values that earlier open steps still have to produce.
    """
    reducers = program.reducers
    writers = _writers(outcomes)
    fresh: dict[str, Any] = {}
    for name, many in writers.items():
        reducer = reducers.get(name)
        if reducer is None:
            fresh[name] = _last(name, many, on_conflict)
        elif name in unfinished or not is_own(
            reducer, *(left := since_overwrite(values[name], _updates(name, many)))
        ):
            fresh[name] = UNFINISHED
        else:
            fresh[name] = _own(name, reducer, left, many)
    return fresh, {name: len(many) for name, many in writers.items()}


def custom_names(program: Program, values: Mapping[str, Any], outcomes: Sequence[Outcome]) -> list[str]:
    """Return the names of the values that a custom reducer would make in a step of these outcomes."""
    return [
        name
        for name, many in _writers(outcomes).items()
        if (reducer := program.reducers.get(name)) is not None
        and not is_own(reducer, *since_overwrite(values[name], _updates(name, many)))
    ]


def _writers(outcomes: Sequence[Outcome]) -> Writers:
    writers: Writers = {}
    for index, outcome in enumerate(outcomes):
        for name in outcome.update:
            if name in writers:
                writers[name].append((index, outcome))
            else:
                writers[name] = [(index, outcome)]
    return writers


def _updates(name: str, many: Sequence[tuple[int, Outcome]]) -> list[Any]:
    return [outcome.update[name] for _, outcome in many]


def _last(name: str, many: Sequence[tuple[int, Outcome]], on_conflict: str) -> Any:
    """Return the update of a value without a reducer; a second update is a conflict."""
    if len(many) > 1 and on_conflict != "last":
        raise ConflictError(
            f"{many[0][1].path} and {many[1][1].path} both wrote {name!r} in one step; give {name!r} a reducer "
            f"(Annotated[..., clew.append] in the state schema), put one after the other, or run with "
            f'on_conflict="last"'
        )
    return many[-1][1].update[name]


def _own(
    name: str, reducer: Reducer, left: tuple[Any, Sequence[Any]], many: Sequence[tuple[int, Outcome]]
) -> Any:
    """Merge what `since_overwrite` has left."""
    try:
        return fold(reducer, *left)
    except Exception as error:  # a sum of numbers may be too large
        raise MergeFailure(many[-1][1], name, error) from error


def _custom(
    values: Mapping[str, Any], name: str, reducer: Reducer, many: Sequence[tuple[int, Outcome]]
) -> tuple[Any, Delta]:
    """Call a custom reducer for each update in order, and return the result with its delta."""
    before = made = values[name]
    updates = [(index, outcome.update[name]) for index, outcome in many]
    last = max(
        (place for place, (_, update) in enumerate(updates) if isinstance(update, Overwrite)), default=-1
    )
    if last >= 0:
        made = updates[last][1].value
    for place in range(last + 1, len(many)):
        try:
            made = call(reducer, made, updates[place][1])
        except ChangedInPlaceError:
            raise MergeFailure(many[place][1], name, _edited(name, reducer)) from None
        except Exception as error:
            raise MergeFailure(many[place][1], name, error) from error
    return made, delta_of(before, made, updates[last + 1 :])


def _edited(name: str, reducer: Reducer) -> OutputError:
    called = getattr(reducer, "__qualname__", repr(reducer))
    return OutputError(
        f"the reducer {called} of {name!r} modified the current value in place; "
        f"return a new value instead (for a list: [*current, *update])"
    )


def _applied(values: dict[str, Any], name: str, delta: Delta, many: Sequence[tuple[int, Outcome]]) -> Any:
    """Apply a recorded delta. A list that only gains items and has no other references grows in place."""
    updates = {index: outcome.update[name] for index, outcome in many}
    try:
        if (
            delta.kind == "list"
            and is_alone(values, name)
            and type(values[name]) is list
            and delta.keep == len(values[name])
        ):
            values[name].extend(tail_of(delta, updates))
            return values[name]
        return apply_delta(values[name], delta, updates)
    except (KeyError, TypeError, ValueError) as error:
        raise DeltaError(f"the delta of {name!r} does not match the value before it: {error}") from error


def _not_recorded(name: str) -> DeltaError:
    return DeltaError(
        f"the log has no recorded result of the reducer of {name!r}; the run used a different reducer, or its log is "
        f"corrupted"
    )
