"""A step, from its plan to its commit.

A step is planned when nothing of its strand is open: all due nodes that do not wait run in it. It is committed when all
its items have an outcome, and then those after it that were planned ahead and are complete by then. What the machine
does between the two, item by item, is in ``clew.engine.machine``; what it starts ahead, in ``clew.engine.ahead``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew.engine import ahead, endings, refusals
from clew.engine.decisions import withdrawals
from clew.engine.records import Journaled, Step
from clew.engine.strand import Item, Level, Strand
from clew.engine.terms import Notice
from clew.engine.view import MergeFailure
from clew.errors import ConflictError

if TYPE_CHECKING:
    from clew.engine.machine import Machine


def plan(machine: Machine, strand: Strand) -> None:
    """Nothing is open: plan the next step, or end the strand."""
    view = strand.view
    if not view.due:
        endings.end(machine, strand)
        return
    if strand.step >= machine.options.max_steps:
        endings.too_many_steps(machine, strand)
        return
    level = Level(strand, strand.step + 1, view)
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


def commit(machine: Machine, strand: Strand) -> None:
    """Commit the first level, and all after it that are complete by then."""
    view = strand.view
    levels = strand.levels
    while True:
        level = levels[0]
        outcomes = level.outcomes()
        withdrawn = withdrawals(view, outcomes) if machine.options.listening else ()
        try:
            view.apply(outcomes, on_conflict=machine.options.on_conflict)
        except MergeFailure as failure:
            if not refusals.reject(machine, level, failure):
                return
            continue
        except ConflictError as error:
            machine.outbox.extend(Journaled(strand.prefix, outcome, strand.epoch) for outcome in outcomes)
            endings.fail(
                strand, (*strand.order, level.number, len(strand.program.nodes)), level.number, error
            )
            endings.check_drained(machine, strand)
            return
        del levels[0]
        strand.step = level.number
        if strand.owner is None:
            machine.counters.steps += 1
        machine.outbox.append(Step(strand.prefix, level.number, outcomes, strand.epoch))
        if machine.options.listening:
            for outcome, lost in ((each.outcome, each.lost) for each in withdrawn if each.lost):
                path, data = strand.prefix + outcome.path, {"node": outcome.node, "decision": lost}
                machine.outbox.append(Notice("decision_withdrawn", level.number, path, data))
            machine.outbox.append(
                Notice("step_committed", level.number, strand.prefix, {"items": len(outcomes)})
            )
        if not levels:
            plan(machine, strand)
            return
        ahead.complete(machine, strand)
        if levels[0].open_mask:
            endings.check_drained(machine, strand)
            return
