"""Edits: a step that a person made by hand (``Engine.update``), and what it withdraws.

A step by hand has one outcome with `by_hand`. It stands for the next visit of a node, or for no node (its name is
empty): then it is a write from outside, like the changed values of a fork. It is applied like any other step: values go
through the reducers, the wake and the selections of the node are consumed, and it wakes what the node would wake. It
also clears the flag of ``mark_terminated``, and a confined failure of the node.

If some items of that visit have finished and others have not, as in a fan-out that failed, the step contains the
finished ones too. The outcome by hand stands for the others, at the place of the first of them.

Work that was open when the step was made keeps its results only if they are still those that the run would produce:

- An item of the first open step keeps its result if it reads no written value, compares no output with one (cutoff),
  and runs in the next step as planned. The written values are those of all outcomes of the step.
- Lookahead of later steps keeps its result if neither the step nor an item that lost its result can affect it.

Everything else of the open steps is withdrawn with its questions. Recorded calls stay.

A run that retraces another one repeats the steps by hand where they were made (`repeat`), and does not look ahead
beyond them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from clew.engine.frame import NO_LIMIT, Frame
from clew.engine.history.chain import apply_step
from clew.engine.program import Program, value_names
from clew.engine.records import Choice, Outcome, Step
from clew.engine.updates.outcomes import choices
from clew.engine.working_state import WorkingState
from clew.errors import ClewError, InputError
from clew.graph import Node
from clew.graph.names import nearest

if TYPE_CHECKING:
    from clew.engine.machine import Machine


def outcome_by_hand(
    working: WorkingState, step: int, values: Any, as_node: str | None, decision: Any, now: float
) -> Outcome:
    """Return the outcome of step `step`, which a person makes. Raise InputError if it is not a valid one."""
    program = working.program
    if not isinstance(values, Mapping):
        raise InputError(f"update: expected a mapping of values by name, got {values!r}")
    if as_node is None:
        if decision is not None:
            raise InputError("update: decision= needs as_node=, the gate that makes the decision")
        if not values:
            raise InputError("update: give at least one value, or as_node=")
        return Outcome("", step, -1, _values(program, None, values), None, 0, now, by_hand=True)
    node = program.graph.nodes.get(as_node)
    if node is None:
        raise InputError(f"update: the graph has no node {as_node!r}; {nearest(str(as_node), program.names)}")
    visit = working.visits[program.index[node.name]]
    update, decided = _values(program, node, values), _decision(program, node, decision, working)
    return Outcome(node.name, visit, -1, update, decided, 0, now, by_hand=True)


def with_finished(machine: Machine, outcome: Outcome) -> tuple[Outcome, ...]:
    """Return the outcomes of a step by hand: the given one, among the finished items of the same visit."""
    root = machine.root
    first = root.open_steps[0].batches if root.open_steps else {}
    batch = first.get(root.program.index[outcome.node]) if outcome.node else None
    if batch is None or not 0 < batch.open < len(batch.outcomes):
        return (outcome,)
    by_hand = msgspec.structs.replace(outcome, index=batch.outcomes.index(None))
    found = [each for each in batch.outcomes if each is not None]
    return tuple(sorted([*found, by_hand], key=lambda each: each.index))


def is_by_hand(outcomes: Sequence[Outcome]) -> bool:
    """Return whether a person made the step with these outcomes."""
    return any(outcome.by_hand for outcome in outcomes)


def _values(program: Program, node: Node | None, values: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the values that are written, validated by the schema."""
    known: Collection[str] | None = value_names(program.graph) if node is None else node.outputs
    schema = program.schema
    checked: dict[str, Any] = {}
    for name, value in values.items():
        if known is not None and name not in known:
            if node is None:
                raise InputError(
                    f"update: the graph has no value {name!r}; {nearest(str(name), sorted(known or ()))}"
                )
            raise InputError(
                f"update: node {node.name!r} does not write {name!r}; {nearest(str(name), node.outputs)} To set other "
                f"values, leave out as_node="
            )
        if schema is not None and schema.validates:
            try:
                value = schema.validate_update(name, value)
            except ValueError as error:
                raise InputError(f"update: the state schema rejects {name!r}: {error}") from error
        checked[name] = value
    return checked


def _decision(
    program: Program, node: Node, decision: Any, working: WorkingState
) -> tuple[Choice, ...] | None:
    if not node.targets:
        if decision is not None:
            raise InputError(f"update: node {node.name!r} is not a gate, so it takes no decision=")
        return None
    if node.when is not None and isinstance(decision, bool):
        decision = node.when[0] if decision else node.when[1]
    try:
        return choices(program, node, decision, working, several=node.multi or not node.is_gate)
    except ClewError as error:
        raise InputError(f"update: {error}") from error


def withdrawn_nodes(machine: Machine, after: WorkingState, outcomes: Sequence[Outcome]) -> dict[str, int]:
    """Return the nodes whose open items are withdrawn, each from a visit on.

    `machine` is at the state before the step by hand, with prior work applied; `after` is the working state after the
    step, and `outcomes` are those of the step.
    """
    root = machine.root
    before, program = root.working_state, root.program
    first = root.open_steps[0].batches if root.open_steps else {}
    ready = set(program.ready(after.due, after.wakes))
    touched = 0
    for outcome in outcomes:
        for name in outcome.update:
            touched |= program.readers(name) | _comparing(program, name)
        if outcome.node:
            touched |= 1 << program.index[outcome.node]
    for node in range(len(program.names)):
        is_kept = node in ready and after.sends.get(node) == before.sends.get(node)
        if node in first:
            has_plain = before.has_plain_item(node)
            touched |= (not is_kept or after.has_plain_item(node) != has_plain) << node
        elif after.wakes[node] != before.wakes[node] or after.sends.get(node) != before.sends.get(node):
            touched |= 1 << node
    found: dict[str, int] = {}
    for node, name in enumerate(program.names):
        reach = program.topology.reach(node, len(program.names))
        if touched >> node & 1:
            found[name] = after.visits[node]
        elif reach & touched:
            found[name] = after.visits[node] + (node in first)
    return found


def _comparing(program: Program, value: str) -> int:
    """Return the mask of the nodes whose cutoff compares their output with this value."""
    found = 0
    for number, node in enumerate(program.nodes):
        compares = node.cutoff is not None and value in node.outputs and value not in program.reducers
        found |= compares << number
    return found


def repeat(machine: Machine, frame: Frame) -> bool:
    """Repeat the steps by hand that follow in a run that is retraced; return False at a stop."""
    edits = machine.options.edits
    if (frame.prefix, frame.step + 1) not in edits:
        return False
    while (step := edits.get((frame.prefix, frame.step + 1))) is not None:
        apply_step(frame.working_state, step, machine.options.on_conflict)
        frame.step = step.number
        machine.counters.steps += frame.owner is None
        machine.outbox.append(step)
    limit_lookahead(frame, edits)
    return True


def limit_lookahead(frame: Frame, edits: Mapping[tuple[str, int], Step]) -> None:
    """Set the limit of a frame to the step before its next step by hand."""
    later = [number for prefix, number in edits if prefix == frame.prefix and number > frame.step]
    frame.limit = min(later, default=NO_LIMIT + 1) - 1
