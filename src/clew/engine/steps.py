"""A step, from its plan to its commit.

A step is planned when nothing of its strand is open: all due nodes that do not wait run in it. It is committed when all
its items have an outcome, and then those after it that were planned ahead and are complete by then. What the machine
does between the two, item by item, is in ``clew.engine.machine``; what it starts ahead, in ``clew.engine.lookahead``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from clew.engine import frame_lifecycle, held_results, lookahead, rejected_updates
from clew.engine.decisions import withdrawals
from clew.engine.deltas import SAME, Delta
from clew.engine.frame import Frame, Item, OpenStep
from clew.engine.merge import MergeFailure, custom_names
from clew.engine.options import Notification
from clew.engine.records import Failure, Outcome, Step
from clew.errors import ConflictError

if TYPE_CHECKING:
    from clew.engine.machine import Machine


def plan(machine: Machine, strand: Frame) -> None:
    """Nothing is open: plan the next step, or end the strand."""
    view = strand.view
    if not view.due:
        frame_lifecycle.end(machine, strand)
        return
    if strand.step >= machine.options.max_steps:
        frame_lifecycle.too_many_steps(machine, strand)
        return
    level = OpenStep(strand, strand.step + 1, view)
    strand.levels.append(level)
    ready = view.program.ready(view.due, view.wakes)
    if len(ready) == 1 and machine.slot is None and not machine.frontier:
        batch = level.add(ready[0])
        if batch.open == 1:
            batch.cursor = 1
            machine.slot = Item(batch, 0)
            if machine.options.listening:
                machine.announce(level, (batch,))
            return
        batches = [batch]
    else:
        batches = [level.add(number) for number in ready]
    machine.queue(level, batches)


def _recorded(steps: Mapping[tuple[str, int], Step], strand: Frame, level: OpenStep) -> Mapping[str, Delta]:
    """The deltas of a step of a run that is retraced.

    Of a step that was not committed, or had other items, nobody knows what custom reducers would make: their values
    stay as they are.
    """
    outcomes, then = level.outcomes(), steps.get((strand.prefix, level.number))
    if then is not None and _shape(then.outcomes) == _shape(outcomes):
        return then.deltas
    return dict.fromkeys(custom_names(strand.program, strand.view.values, outcomes), SAME)


def _shape(outcomes: Sequence[Outcome]) -> list[tuple[str, Collection[str]]]:
    return [(outcome.path, outcome.update.keys()) for outcome in outcomes]


def commit(machine: Machine, strand: Frame) -> None:
    """Commit the first level, and all after it that are complete by then."""
    view = strand.view
    levels = strand.levels
    while True:
        level = levels[0]
        outcomes = level.outcomes()
        withdrawn = withdrawals(view, outcomes) if machine.options.listening else ()
        try:
            deltas = view.apply(
                outcomes,
                on_conflict=machine.options.on_conflict,
                recorded=None if (then := machine.retraced) is None else _recorded(then, strand, level),
            )
        except MergeFailure as failure:
            if not rejected_updates.reject(machine, level, failure):
                return
            continue
        except ConflictError as error:
            machine.outbox += held_results.journaled(strand, outcomes)
            order = (*strand.order, level.number, len(strand.program.nodes))
            found = Failure(error, level.number, path=strand.prefix[:-1])
            frame_lifecycle.fail(strand, order, level.number, found)
            frame_lifecycle.check_drained(machine, strand)
            return
        del levels[0]
        if strand.unfinished:
            lookahead.settle(strand, level.number)
        strand.step = level.number
        for number in level.batches:
            strand.latest[number] = level.number
        if strand.owner is None:
            machine.counters.steps += 1
        else:
            strand.add_times(outcomes)
        machine.outbox.append(Step(strand.prefix, level.number, outcomes, strand.epoch, deltas))
        if machine.options.listening:
            for outcome, lost in ((each.outcome, each.lost) for each in withdrawn if each.lost):
                path, data = strand.prefix + outcome.path, {"node": outcome.node, "decision": lost}
                machine.outbox.append(Notification("decision_withdrawn", level.number, path, data))
            machine.outbox.append(
                Notification("step_committed", level.number, strand.prefix, {"items": len(outcomes)})
            )
        if not levels:
            plan(machine, strand)
            return
        lookahead.complete(machine, strand)
        if levels[0].open_mask:
            if not (levels[0].held_mask and held_results.release(machine, strand)):
                frame_lifecycle.check_drained(machine, strand)
            return
