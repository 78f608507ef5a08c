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


def spread(machine: Machine, strand: Frame, batch: Batch) -> None:
    """A batch has finished while its step, or an earlier one, is open: plan what that decides."""
    level = batch.level
    position = level.number - strand.levels[0].number
    names = {name for outcome in batch.outcomes if outcome is not None for name in outcome.update}
    levels = strand.levels[position:]
    apart = names.isdisjoint(strand.program.reducers) and all(names.isdisjoint(lv.written) for lv in levels)
    level.written |= names
    level.targets.update(strand.program.topology.targets[batch.number])
    if not apart or not _lay(machine, batch, levels):
        _rebuild(machine, levels)
    _plan_from(machine, strand, position)


def _lay(machine: Machine, batch: Batch, levels: Sequence[OpenStep]) -> bool:
    """Lay what a batch did on the views ahead. False if the views have to be made anew; then nothing is changed."""
    outcomes = [outcome for outcome in batch.outcomes if outcome is not None]
    if has_send(outcomes) and any(
        other.start.turn is not None for lv in levels for other in lv.batches.values() if other is not batch
    ):
        return False  # a turn that begins in this step or later makes final what was sent
    try:
        for level in levels:
            if level.ahead is not None:
                level.ahead.apply_ahead(
                    outcomes, on_conflict=machine.options.on_conflict, consumed={batch.number: batch.start}
                )
    except ConflictError:  # the first view finds it
        return False
    return True


def complete(machine: Machine, strand: Frame) -> None:
    """The step before the first level is committed, so all of what runs in it is known: add what was not."""
    level = strand.levels[0]
    view = level.view = strand.view
    strand.open_ahead.pop(level.number, None)
    new = [number for number in view.program.ready(view.due, view.wakes) if number not in level.batches]
    _add(machine, strand, 0, new)
    if level.open_mask:
        _plan_from(machine, strand, 0)


def without(machine: Machine, strand: Frame, failed: Batch) -> list[Batch]:
    """A batch of the first level has failed after all: take out what was planned on a success that did not hold, and
    make the views ahead anew. What was taken out."""
    levels = strand.levels
    gone = [
        (later, number)
        for later in levels[1:]
        for number in later.batches
        if has_say(machine, strand, failed, number, later.number)
    ]
    batches = [later.remove(number) for later, number in gone]
    while not levels[-1].batches:
        levels.pop()
    strand.open_ahead = {later.number: later for later in levels[1:] if later.open_mask}
    strand.unfinished = {}
    levels[-1].ahead, levels[-1].left_out = None, 0
    for before, after in pairwise(levels):
        before.ahead = after.view = _after(machine, before)
    return batches


def _add(machine: Machine, strand: Frame, position: int, new: Sequence[int]) -> None:
    """More nodes run in the step at `position` than was known."""
    if not new:
        return
    levels = strand.levels[position:]
    level = levels[0]
    batches = [level.add(number) for number in new]
    if position:
        strand.open_ahead[level.number] = level
    machine.queue(level, batches)
    if level.ahead is not None:
        sources = {source for number in new for source in strand.program.topology.sources[number]}
        starts = {batch.number: batch.start for batch in batches}
        # what finished beside or after the new ones may have woken them again, or be final because of their turn
        if any(start.turn is not None for start in starts.values()) or any(
            number in sources and not b.open for lv in levels for number, b in lv.batches.items()
        ):
            _rebuild(machine, levels)
        else:
            for later in levels:
                if later.ahead is not None:
                    later.ahead.consume(starts)


def _rebuild(machine: Machine, levels: Sequence[OpenStep]) -> None:
    for number, level in enumerate(levels):
        if level.ahead is None:
            return
        level.ahead = _after(machine, level)
        if number + 1 < len(levels):
            levels[number + 1].view = level.ahead


def _after(machine: Machine, level: OpenStep) -> WorkingState:
    """The view after a level, as far as its batches have finished, without those that do not go together."""
    view, strand = level.view.branch(), level.strand
    starts = {number: batch.start for number, batch in level.batches.items()}
    view.consume(starts)
    level.left_out = 0
    earlier = [name for name, numbers in strand.unfinished.items() if numbers[0] < level.number]
    while True:
        outcomes = level.outcomes(level.left_out)
        try:
            names = view.apply_ahead(
                outcomes, on_conflict=machine.options.on_conflict, consumed=starts, unfinished=earlier
            )
        except ConflictError:
            for name in _clashing(outcomes, view):
                level.left_out |= 1 << strand.program.index[name]
            if level is not strand.levels[0]:
                strand.open_ahead[level.number] = level
        else:
            break
    if not (level.open_mask or level.left_out):
        strand.open_ahead.pop(level.number, None)
    if names or strand.unfinished:
        settle(strand, level.number)
        for name in names:
            strand.unfinished[name] = tuple(sorted((*strand.unfinished.get(name, ()), level.number)))
    return view


def settle(strand: Frame, number: int) -> None:
    """Nothing of step `number` is unfinished, or not any more."""
    for name, numbers in list(strand.unfinished.items()):
        if number in numbers:
            left = tuple([each for each in numbers if each != number])
            if left:
                strand.unfinished[name] = left
            else:
                del strand.unfinished[name]


def _clashing(outcomes: Sequence[Outcome], view: WorkingState) -> set[str]:
    """The nodes that wrote what others wrote too in the same step, and has no reducer."""
    writers: dict[str, list[str]] = {}
    for outcome in outcomes:
        for name in outcome.update.keys() - view.program.reducers.keys():
            writers.setdefault(name, []).append(outcome.node)
    return {node for nodes in writers.values() if len(nodes) > 1 for node in nodes}


def _plan_from(machine: Machine, strand: Frame, position: int) -> None:
    """Plan the steps after the one at `position`, as far as anything in them is known."""
    levels = strand.levels
    highest = min(strand.limit, machine.options.max_steps)
    while True:
        level = levels[position]
        number = level.number + 1
        if number > highest or all(batch.open for batch in level.batches.values()):
            return
        following = levels[position + 1] if position + 1 < len(levels) else None
        if level.ahead is None:
            waiting = level.waiting
            if not any(_known(machine, strand, node, number) for node in (*level.targets, *waiting)):
                return
            level.ahead = _after(machine, level)
        view = level.ahead
        planned = following.batches if following is not None else {}
        known = {node for node in view.due if node not in planned and _known(machine, strand, node, number)}
        new = [node for node in view.program.ready(view.due, view.wakes) if node in known] if known else []
        if new and following is None:
            following = OpenStep(strand, number, view)
            levels.append(following)
        if following is None:
            return
        following.view = view
        position += 1
        _add(machine, strand, position, new)


def has_say(machine: Machine, strand: Frame, batch: Batch, node: int, number: int) -> bool:
    """Whether what a batch does can have a say in what `node` does in the later step `number`."""
    topology = strand.program.topology
    reach = topology.reach(node, number - batch.level.number) | _blockers(machine, strand, node)
    return bool(reach >> batch.number & 1)


def _blockers(machine: Machine, strand: Frame, node: int) -> int:
    """Whose confined failure blocks a node: all upstream, also of an eager node, which waits for nobody."""
    return strand.program.topology.up(node) if machine.options.on_error == "continue" else 0


def _known(machine: Machine, strand: Frame, node: int, number: int) -> bool:
    """Whether no unfinished item of an earlier step can have a say in what `node` does in step `number`."""
    topology = strand.program.topology
    blockers = _blockers(machine, strand, node)
    # finished levels have no say, and there may be thousands of them beside one slow node
    for level in (strand.levels[0], *strand.open_ahead.values()):
        if level.number < number:
            told = level.open_mask | level.left_out
            if told and (topology.reach(node, number - level.number) | blockers) & told:
                return False
    return not strand.unfinished or not _reads_unfinished(strand, node, number)


def _reads_unfinished(strand: Frame, node: int, number: int) -> bool:
    """Whether `node` in step `number`, or what has a say in it, reads a value that a custom reducer has still to make.

    The first open step that writes a value tells: whoever reads it is not known in any step after that one.
    """
    program = strand.program
    for name, numbers in strand.unfinished.items():
        distance = number - numbers[0] - 1
        if distance >= 0:
            told = 1 << node if not distance else program.topology.reach(node, distance)
            if told & program.readers(name):
                return True
    return False
