"""A step, from its plan to its commit.

A step is planned when its frame has no open step: all due nodes that do not wait run in it. It is committed when all
its items have an outcome, followed by any complete steps that lookahead has planned after it. ``clew.engine.machine``
handles the items in between; ``clew.engine.lookahead`` starts items of later steps.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from clew.engine import edits, frame_lifecycle, lookahead
from clew.engine.decisions import Withdrawal, withdrawals
from clew.engine.frame import Frame, Item, OpenStep
from clew.engine.options import Notification
from clew.engine.records import FailedStep, Failure, Outcome, Step
from clew.engine.updates import held_results, rejected_updates
from clew.engine.updates.deltas import SAME, Delta
from clew.engine.updates.merge import MergeFailure, custom_names
from clew.errors import ConflictError

if TYPE_CHECKING:
    from clew.engine.machine import Machine


def plan(machine: Machine, frame: Frame) -> None:
    """Plan the next step of a frame without open steps, or end the frame."""
    working, stops = frame.working_state, machine.options.stops
    if stops is not None:
        stops.hold_at_last(frame)
    if frame.step == frame.limit and not edits.repeat(machine, frame):  # a stop
        frame_lifecycle.check_drained(machine, frame)
        return
    if not working.due:
        frame_lifecycle.end(machine, frame)
        return
    if frame.step >= machine.options.max_steps:
        frame_lifecycle.too_many_steps(machine, frame)
        return
    open_step = OpenStep(frame, frame.step + 1, working)
    frame.open_steps.append(open_step)
    ready = working.program.ready(working.due, working.wakes)
    if stops is not None and stops.hold(frame, open_step.number, ready):
        for number in ready:
            open_step.add(number)
        frame_lifecycle.check_drained(machine, frame)
        return
    if len(ready) == 1 and machine.slot is None and not machine.frontier:
        batch = open_step.add(ready[0])
        if batch.open == 1:
            batch.cursor = 1
            machine.slot = Item(batch, 0)
            if machine.options.listening:
                machine.announce(open_step, (batch,))
            return
        batches = [batch]
    else:
        batches = [open_step.add(number) for number in ready]
    machine.queue(open_step, batches)


def _recorded(
    steps: Mapping[tuple[str, int], Step], frame: Frame, open_step: OpenStep
) -> Mapping[str, Delta]:
    """Return the deltas of a step of a run that is retraced.

    If the step was not committed, or had other items, the results of custom reducers are unknown and their values stay
    unchanged.
    """
    outcomes, then = open_step.outcomes(), steps.get((frame.prefix, open_step.number))
    if then is not None and _shape(then.outcomes) == _shape(outcomes):
        return then.deltas
    return dict.fromkeys(custom_names(frame.program, frame.working_state.values, outcomes), SAME)


def _shape(outcomes: Sequence[Outcome]) -> list[tuple[str, Collection[str]]]:
    return [(outcome.path, outcome.update.keys()) for outcome in outcomes]


def _has_failures(outcomes: Sequence[Outcome]) -> bool:
    return any(outcome.error is not None or outcome.failures for outcome in outcomes)


def _fail(
    machine: Machine, frame: Frame, number: int, outcomes: Sequence[Outcome], error: ConflictError
) -> None:
    """Fail a frame whose step has conflicting updates."""
    for outcome in outcomes:
        held_results.log_finished(machine, frame, outcome)
    order = (*frame.order, number, len(frame.program.nodes))
    frame_lifecycle.fail(frame, order, number, Failure(error, number, path=frame.prefix[:-1]))
    frame_lifecycle.check_drained(machine, frame)


def _announce(machine: Machine, frame: Frame, items: int, withdrawn: Iterable[Withdrawal]) -> None:
    """Announce a committed step, and the decisions that it withdrew."""
    for outcome, lost in ((each.outcome, each.lost) for each in withdrawn if each.lost):
        path, data = frame.prefix + outcome.path, {"node": outcome.node, "decision": lost}
        machine.outbox.append(Notification("decision_withdrawn", frame.step, path, data))
    machine.outbox.append(Notification("step_committed", frame.step, frame.prefix, {"items": items}))


def commit(machine: Machine, frame: Frame) -> None:
    """Commit the first open step, and all complete ones after it."""
    working = frame.working_state
    open_steps = frame.open_steps
    while True:
        open_step = open_steps[0]
        outcomes = open_step.outcomes()
        withdrawn = withdrawals(working, outcomes) if machine.options.listening else ()
        try:
            deltas = working.apply(
                outcomes,
                on_conflict=machine.options.on_conflict,
                recorded=None if (then := machine.retraced) is None else _recorded(then, frame, open_step),
            )
        except MergeFailure as failure:
            if not rejected_updates.reject(machine, open_step, failure):
                return
            continue
        except ConflictError as error:
            _fail(machine, frame, open_step.number, outcomes, error)
            return
        del open_steps[0]
        if frame.unfinished:
            lookahead.clear_unfinished(frame, open_step.number)
        frame.step = open_step.number
        for number in open_step.batches:
            frame.latest[number] = open_step.number
        if frame.owner is None:
            machine.counters.steps += 1
        else:
            frame.add_times(outcomes)
        machine.outbox.append(Step(frame.prefix, open_step.number, outcomes, frame.epoch, deltas))
        if frame.failures and frame.owner is None and _has_failures(outcomes):
            machine.outbox.append(FailedStep(open_step.number))
        if machine.options.listening:
            _announce(machine, frame, len(outcomes), withdrawn)
        if frame.step == frame.limit and not edits.repeat(machine, frame):  # a stop
            frame_lifecycle.check_drained(machine, frame)
            return
        if not open_steps:
            plan(machine, frame)
            return
        lookahead.complete_first_step(machine, frame)
        if open_steps[0].open_mask:
            if not (open_steps[0].held_mask and held_results.release(machine, frame)):
                frame_lifecycle.check_drained(machine, frame)
            return
