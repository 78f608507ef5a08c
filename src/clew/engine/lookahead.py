"""Lookahead: start items of later steps while a step is open, without changing the chain.

The machine plans the next step with the results so far. A node is *known* in that step if no unfinished item can affect
whether it runs: no node that it may wait for, no direct source of these or of itself is unfinished or depends on
something unfinished (`Topology.reach`, which widens with the distance in steps). For a node with a cutoff, the other
writers of its outputs count too, because it compares with their values. A known node that would run in that step starts
now. Its inputs can no longer change, so its outcome is the same as in step-by-step order.

Each open step keeps the working state after it (`OpenStep.lookahead_state`). This assumes that all its batches run, and
contains the outcomes of finished ones. When another batch finishes, its outcomes are applied to the existing lookahead
states. That is correct if nothing else at or after its step wrote the same values, because then the merge order does
not matter. Otherwise, and for reduced values, these states are rebuilt.

A lookahead state is provisional in two respects:

- The value of a custom reducer is known only at the commit, which is the only caller of the reducer. Until then the
  value is *unfinished*, and a node that reads it is not known in any later step.
- Only the commit decides whether an update is valid. Conflicting updates are left out, and their batches count as
  unfinished until the commit resolves the conflict; only what they can affect waits. An update that a reducer may still
  reject is assumed valid. If it is rejected, the work that used it is discarded
  (``clew.engine.updates.rejected_updates``).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from clew.engine.decisions import has_send
from clew.engine.frame import Batch, Frame, OpenStep
from clew.engine.records import Outcome
from clew.engine.working_state import WorkingState
from clew.errors import ConflictError

if TYPE_CHECKING:
    from clew.engine.machine import Machine


def plan_after(machine: Machine, frame: Frame, batch: Batch) -> None:
    """Apply a batch that finished while its step, or an earlier one, is open, and plan what has become known."""
    open_step = batch.open_step
    position = open_step.number - frame.open_steps[0].number
    names = {name for outcome in batch.outcomes if outcome is not None for name in outcome.update}
    open_steps = frame.open_steps[position:]
    apart = names.isdisjoint(frame.program.reducers) and all(
        names.isdisjoint(later.written) for later in open_steps
    )
    open_step.written |= names
    open_step.targets.update(frame.program.topology.targets[batch.number])
    if not apart or not _apply_to_lookahead(machine, batch, open_steps):
        _rebuild(machine, open_steps)
    _plan_from(machine, frame, position)


def _apply_to_lookahead(machine: Machine, batch: Batch, open_steps: Sequence[OpenStep]) -> bool:
    """Apply a batch to the lookahead states; return False, without changes, if they have to be rebuilt."""
    outcomes = [outcome for outcome in batch.outcomes if outcome is not None]
    if has_send(outcomes) and any(
        other.start.turn is not None
        for later in open_steps
        for other in later.batches.values()
        if other is not batch
    ):
        return False  # a turn that begins in this step or later makes these Sends final
    try:
        for open_step in open_steps:
            if open_step.lookahead_state is not None:
                open_step.lookahead_state.apply_lookahead(
                    outcomes, on_conflict=machine.options.on_conflict, consumed={batch.number: batch.start}
                )
    except ConflictError:  # detected by the first state, before any change
        return False
    return True


def complete_first_step(machine: Machine, frame: Frame) -> None:
    """Add the missing batches of the first open step, which is fully known once its predecessor is committed."""
    open_step = frame.open_steps[0]
    working = open_step.working_state = frame.working_state
    frame.open_lookahead.pop(open_step.number, None)
    new = [
        number
        for number in working.program.ready(working.due, working.wakes)
        if number not in open_step.batches
    ]
    _add(machine, frame, 0, new)
    if open_step.open_mask:
        _plan_from(machine, frame, 0)


def remove_dependents(machine: Machine, frame: Frame, failed: Batch) -> list[Batch]:
    """Remove and return the batches that depend on a failed batch, and rebuild the lookahead states."""
    open_steps = frame.open_steps
    gone = [
        (later, number)
        for later in open_steps[1:]
        for number in later.batches
        if can_affect(machine, frame, failed, number, later.number)
    ]
    batches = [later.remove(number) for later, number in gone]
    while not open_steps[-1].batches:
        open_steps.pop()
    frame.open_lookahead = {later.number: later for later in open_steps[1:] if later.open_mask}
    frame.unfinished = {}
    open_steps[-1].lookahead_state, open_steps[-1].left_out = None, 0
    for before, after in pairwise(open_steps):
        before.lookahead_state = after.working_state = state_after(machine, before)
    return batches


def _add(machine: Machine, frame: Frame, position: int, new: Sequence[int]) -> None:
    """Add newly known nodes to the step at `position`."""
    if not new:
        return
    open_steps = frame.open_steps[position:]
    open_step = open_steps[0]
    batches = [open_step.add(number) for number in new]
    if position:
        frame.open_lookahead[open_step.number] = open_step
    stops = machine.options.stops
    if stops is None or not stops.hold(frame, open_step.number, new):
        machine.queue(open_step, batches)
    if open_step.lookahead_state is not None:
        sources = {source for number in new for source in frame.program.topology.sources[number]}
        starts = {batch.number: batch.start for batch in batches}
        # batches of this or later steps may have woken the new nodes again, or their Sends became final
        if any(start.turn is not None for start in starts.values()) or any(
            number in sources and not b.open for later in open_steps for number, b in later.batches.items()
        ):
            _rebuild(machine, open_steps)
        else:
            for later in open_steps:
                if later.lookahead_state is not None:
                    later.lookahead_state.consume(starts)


def _rebuild(machine: Machine, open_steps: Sequence[OpenStep]) -> None:
    for number, open_step in enumerate(open_steps):
        if open_step.lookahead_state is None:
            return
        open_step.lookahead_state = state_after(machine, open_step)
        if number + 1 < len(open_steps):
            open_steps[number + 1].working_state = open_step.lookahead_state


def state_after(machine: Machine, open_step: OpenStep) -> WorkingState:
    """Return the working state after an open step with its finished batches, without conflicting ones."""
    working, frame = open_step.working_state.branch(), open_step.frame
    starts = {number: batch.start for number, batch in open_step.batches.items()}
    working.consume(starts)
    open_step.left_out = 0
    earlier = [name for name, numbers in frame.unfinished.items() if numbers[0] < open_step.number]
    while True:
        outcomes = open_step.outcomes(open_step.left_out)
        try:
            names = working.apply_lookahead(
                outcomes, on_conflict=machine.options.on_conflict, consumed=starts, unfinished=earlier
            )
        except ConflictError:
            for name in _conflicting_nodes(outcomes, working):
                open_step.left_out |= 1 << frame.program.index[name]
            if open_step is not frame.open_steps[0]:
                frame.open_lookahead[open_step.number] = open_step
        else:
            break
    if not (open_step.open_mask or open_step.left_out):
        frame.open_lookahead.pop(open_step.number, None)
    if names or frame.unfinished:
        clear_unfinished(frame, open_step.number)
        for name in names:
            frame.unfinished[name] = tuple(sorted((*frame.unfinished.get(name, ()), open_step.number)))
    return working


def clear_unfinished(frame: Frame, number: int) -> None:
    """Remove step `number` from the writers of unfinished values."""
    for name, numbers in list(frame.unfinished.items()):
        if number in numbers:
            left = tuple([each for each in numbers if each != number])
            if left:
                frame.unfinished[name] = left
            else:
                del frame.unfinished[name]


def _conflicting_nodes(outcomes: Sequence[Outcome], working: WorkingState) -> set[str]:
    """Return the nodes that wrote the same value without a reducer."""
    writers: dict[str, list[str]] = {}
    for outcome in outcomes:
        for name in outcome.update.keys() - working.program.reducers.keys():
            writers.setdefault(name, []).append(outcome.node)
    return {node for nodes in writers.values() if len(nodes) > 1 for node in nodes}


def _plan_from(machine: Machine, frame: Frame, position: int) -> None:
    """Plan the steps after the one at `position`, as far as their nodes are known."""
    open_steps = frame.open_steps
    highest = min(frame.limit, machine.options.max_steps)
    while True:
        open_step = open_steps[position]
        number = open_step.number + 1
        if number > highest or all(batch.open for batch in open_step.batches.values()):
            return
        following = open_steps[position + 1] if position + 1 < len(open_steps) else None
        if open_step.lookahead_state is None:
            waiting = open_step.waiting
            if not any(_is_known(machine, frame, node, number) for node in (*open_step.targets, *waiting)):
                return
            open_step.lookahead_state = state_after(machine, open_step)
        working = open_step.lookahead_state
        planned = following.batches if following is not None else {}
        known = {
            node for node in working.due if node not in planned and _is_known(machine, frame, node, number)
        }
        new = (
            [node for node in working.program.ready(working.due, working.wakes) if node in known]
            if known
            else []
        )
        if new and following is None:
            following = OpenStep(frame, number, working)
            open_steps.append(following)
        if following is None:
            return
        following.working_state = working
        position += 1
        _add(machine, frame, position, new)


def can_affect(machine: Machine, frame: Frame, batch: Batch, node: int, number: int) -> bool:
    """Return whether a batch can affect what `node` does in the later step `number`."""
    topology = frame.program.topology
    reach = topology.reach(node, number - batch.open_step.number) | _blockers(machine, frame, node)
    return bool(reach >> batch.number & 1)


def _blockers(machine: Machine, frame: Frame, node: int) -> int:
    """Return the mask of nodes whose confined failure blocks a node: all upstream, even for an eager node."""
    return frame.program.topology.up(node) if machine.options.on_error == "continue" else 0


def _is_known(machine: Machine, frame: Frame, node: int, number: int) -> bool:
    """Return whether no unfinished item of an earlier step can affect what `node` does in step `number`."""
    topology = frame.program.topology
    blockers = _blockers(machine, frame, node)
    # skip finished steps: one slow node may leave thousands of them
    for open_step in (frame.open_steps[0], *frame.open_lookahead.values()):
        if open_step.number < number:
            unsettled = open_step.open_mask | open_step.left_out
            if unsettled and (topology.reach(node, number - open_step.number) | blockers) & unsettled:
                return False
    return not frame.unfinished or not _reads_unfinished(frame, node, number)


def _reads_unfinished(frame: Frame, node: int, number: int) -> bool:
    """Return whether `node` in step `number`, or a node that affects it, reads an unfinished value.

    The first open step that writes the value decides: its readers are not known in any later step.
    """
    program = frame.program
    for name, numbers in frame.unfinished.items():
        distance = number - numbers[0] - 1
        if distance >= 0:
            affecting = 1 << node if not distance else program.topology.reach(node, distance)
            if affecting & program.readers(name):
                return True
    return False
