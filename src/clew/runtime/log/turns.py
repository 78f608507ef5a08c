"""Turns: the first state of a run that continues a thread.

A turn starts from a state of the run before it. Compared with a fork:

- Its input is an update: values with a reducer are merged, others are replaced. Only the input is stored, with one
  delta for each merged value, so the storage of a thread grows with its new data.
- Values, versions, visits, history and seed continue. Pending wakes, decisions, Sends, failures and the end of the
  last run are cleared.
- It wakes the nodes that a new run with the same input names would start with (`woken`), and readers of the input that
  are not downstream of those.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from clew.engine.program import FORWARD, WOKEN, Program
from clew.engine.records import Outcome
from clew.engine.updates.deltas import Delta, apply_delta, delta_of
from clew.engine.updates.merge import merge_one
from clew.engine.working_state import WorkingState
from clew.state import GraphState, assemble, position_of

INPUT = "input"
"""The name of the update that a turn begins with, in messages of reducers."""


class Turn(msgspec.Struct, frozen=True):
    """The stored part of a turn."""

    values: Mapping[str, Any]
    """The input as given."""
    deltas: Mapping[str, Delta]
    """For each value with a reducer, the difference to the value before."""
    woken: tuple[str, ...]


def new_turn(program: Program, state: GraphState, values: Mapping[str, Any], names: frozenset[str]) -> Turn:
    """Merge the input of a turn into a state; a new run would start with values of these `names`."""
    before = dict(state.values)
    fresh, _ = merge_one(program, dict(before), Outcome(INPUT, 0, -1, dict(values)))
    deltas = {
        name: delta_of(before[name], fresh[name], [(0, update)])
        for name, update in values.items()
        if name in program.reducers and name in before
    }
    return Turn(dict(values), deltas, woken_nodes(program, values, names))


def woken_nodes(program: Program, values: Mapping[str, Any], names: frozenset[str]) -> tuple[str, ...]:
    """Return the nodes that a turn starts with, in order of declaration."""
    first = WorkingState.begin(program, dict.fromkeys(names)).due
    behind = frozenset[int]().union(*(program.downstream(node) for node in first))
    readers = {node for name in values for node in program.outside_wakes.get(name, ()) if node not in behind}
    return tuple(program.names[node] for node in sorted(first | readers))


def turned(state: GraphState, turn: Turn, digest: Callable[[], str]) -> GraphState:
    """Return the first state of a turn, given the last state before it. Raise ValueError if the two do not match."""
    values, versions = dict(state.values), dict(state.versions)
    for name, update in turn.values.items():
        if name in turn.deltas:
            update = apply_delta(values.get(name), turn.deltas[name], {0: update})
        values[name] = update
        versions[name] = versions.get(name, 0) + 1
    position = msgspec.structs.replace(
        position_of(state),
        given=position_of(state).given | frozenset(turn.values),
        wakes=dict.fromkeys(turn.woken, WOKEN | FORWARD),
        selections={},
        arrived={},
        sends={},
        failed=frozenset(),
        touched=frozenset(),
        decided=frozenset(),
        stopped=False,
        began=state.step,
    )
    return assemble(
        values=values,
        versions=versions,
        decisions={},
        terminated=False,
        position=position,
        history=dict(state.node_history),
        digest=digest,
    )
