"""Planning ahead: start items of later steps while a step is still open, without changing the chain.

The machine goes on to the next step with the results that are in. A node is *known* there if no unfinished item
can have a say in whether it runs: nothing that it may wait for, nor a direct source of that or of itself, is
unfinished, or depends in turn on something unfinished (`Topology.reach`, which widens with the distance in steps).
The other writers of what a node with a cutoff writes count too: it compares with what they wrote.
A known node that would run in that step starts now. What it reads cannot change any more, so its outcome is the
one that the plain, step-by-step order would give.

Each level keeps the view after it (`OpenStep.ahead`): all its batches are taken for running, and the outcomes of those
that have finished are in. When one more finishes its outcomes are laid on top of the views that exist, which is
right as long as nothing else at or after its level wrote the same values: then the order of merging does not
matter. Otherwise, and for reduced values, these views are made anew.

A view ahead is a guess in two respects.

A value that a custom reducer makes is known when its step is committed, because only the commit calls the reducer.
Until then it is *unfinished*, and a node that reads it is not known in any later step, as if it were open itself.

Whether an update holds is known then too. One that is in conflict with another is left out, and its batch counts as
unfinished until the step is committed and settles it: what it has a say in is not started, and all else goes on. One
that a reducer may still refuse is taken for granted. If the step is committed without it after all, what had been
started on it is let fall (``clew.engine.rejected_updates``).
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
    """A batch has finished while its step, or an earlier one, is open: plan what that decides."""
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
    """Lay what a batch did on the views ahead. False if the views have to be made anew; then nothing is changed."""
    outcomes = [outcome for outcome in batch.outcomes if outcome is not None]
    if has_send(outcomes) and any(
        other.start.turn is not None
        for later in open_steps
        for other in later.batches.values()
        if other is not batch
    ):
        return False  # a turn that begins in this step or later makes final what was sent
    try:
        for open_step in open_steps:
            if open_step.lookahead_state is not None:
                open_step.lookahead_state.apply_lookahead(
                    outcomes, on_conflict=machine.options.on_conflict, consumed={batch.number: batch.start}
                )
    except ConflictError:  # the first view finds it
        return False
    return True


def complete_first_step(machine: Machine, frame: Frame) -> None:
    """The step before the first level is committed, so all of what runs in it is known: add what was not."""
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
    """A batch of the first level has failed after all: take out what was planned on a success that did not hold, and
    make the views ahead anew. What was taken out."""
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
        before.lookahead_state = after.working_state = _after(machine, before)
    return batches


def _add(machine: Machine, frame: Frame, position: int, new: Sequence[int]) -> None:
    """More nodes run in the step at `position` than was known."""
    if not new:
        return
    open_steps = frame.open_steps[position:]
    open_step = open_steps[0]
    batches = [open_step.add(number) for number in new]
    if position:
        frame.open_lookahead[open_step.number] = open_step
    machine.queue(open_step, batches)
    if open_step.lookahead_state is not None:
        sources = {source for number in new for source in frame.program.topology.sources[number]}
        starts = {batch.number: batch.start for batch in batches}
        # what finished beside or after the new ones may have woken them again, or be final because of their turn
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
        open_step.lookahead_state = _after(machine, open_step)
        if number + 1 < len(open_steps):
            open_steps[number + 1].working_state = open_step.lookahead_state


def _after(machine: Machine, open_step: OpenStep) -> WorkingState:
    """The view after a level, as far as its batches have finished, without those that do not go together."""
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
    """Nothing of step `number` is unfinished, or not any more."""
    for name, numbers in list(frame.unfinished.items()):
        if number in numbers:
            left = tuple([each for each in numbers if each != number])
            if left:
                frame.unfinished[name] = left
            else:
                del frame.unfinished[name]


def _conflicting_nodes(outcomes: Sequence[Outcome], working: WorkingState) -> set[str]:
    """The nodes that wrote what others wrote too in the same step, and has no reducer."""
    writers: dict[str, list[str]] = {}
    for outcome in outcomes:
        for name in outcome.update.keys() - working.program.reducers.keys():
            writers.setdefault(name, []).append(outcome.node)
    return {node for nodes in writers.values() if len(nodes) > 1 for node in nodes}


def _plan_from(machine: Machine, frame: Frame, position: int) -> None:
    """Plan the steps after the one at `position`, as far as anything in them is known."""
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
            open_step.lookahead_state = _after(machine, open_step)
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
    """Whether what a batch does can have a say in what `node` does in the later step `number`."""
    topology = frame.program.topology
    reach = topology.reach(node, number - batch.open_step.number) | _blockers(machine, frame, node)
    return bool(reach >> batch.number & 1)


def _blockers(machine: Machine, frame: Frame, node: int) -> int:
    """Whose confined failure blocks a node: all upstream, also of an eager node, which waits for nobody."""
    return frame.program.topology.up(node) if machine.options.on_error == "continue" else 0


def _is_known(machine: Machine, frame: Frame, node: int, number: int) -> bool:
    """Whether no unfinished item of an earlier step can have a say in what `node` does in step `number`."""
    topology = frame.program.topology
    blockers = _blockers(machine, frame, node)
    # finished levels have no say, and there may be thousands of them beside one slow node
    for open_step in (frame.open_steps[0], *frame.open_lookahead.values()):
        if open_step.number < number:
            told = open_step.open_mask | open_step.left_out
            if told and (topology.reach(node, number - open_step.number) | blockers) & told:
                return False
    return not frame.unfinished or not _reads_unfinished(frame, node, number)


def _reads_unfinished(frame: Frame, node: int, number: int) -> bool:
    """Whether `node` in step `number`, or what has a say in it, reads a value that a custom reducer has still to make.

    The first open step that writes a value tells: whoever reads it is not known in any step after that one.
    """
    program = frame.program
    for name, numbers in frame.unfinished.items():
        distance = number - numbers[0] - 1
        if distance >= 0:
            told = 1 << node if not distance else program.topology.reach(node, distance)
            if told & program.readers(name):
                return True
    return False
