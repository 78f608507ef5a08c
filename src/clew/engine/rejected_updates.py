"""An update that a reducer refuses when its step is committed: its item has failed after all.

By then its outcome may be journaled, and items of later steps may have run on the strength of it. They do not hold
either: they are let fall, with their questions and failures, and what was journaled of them is withdrawn, so that
nobody who goes on with the run takes it for theirs. What the refused item had no say in stays, finished or not:
nothing runs twice because of a failure beside it.

A subgraph that was begun on the strength of it has steps in the log under this attempt of its item; should the item run
after all, it begins anew, as the next attempt.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from clew.engine import frame_lifecycle, held_results, lookahead
from clew.engine.frame import Batch, Frame, Item, OpenStep
from clew.engine.merge import MergeFailure
from clew.engine.records import Failure, Retry, Withdrawn

if TYPE_CHECKING:
    from clew.engine.machine import Machine


def reject(machine: Machine, level: OpenStep, failure: MergeFailure) -> bool:
    """A reducer refused an update: that item failed. True if the step can be committed all the same."""
    outcome, strand = failure.outcome, level.strand
    batch = level.batches[strand.program.index[outcome.node]]
    index = max(outcome.index, 0)
    error = failure.error
    order = (*strand.order, level.number, batch.number, index)
    failed = msgspec.structs.replace(outcome, update={}, decision=None, error=error, refused=failure.value)
    path = strand.prefix + outcome.path
    told = Failure(error, level.number, outcome.node, path, outcome.attempt, (), failure.value)
    if machine.options.on_error == "continue":
        strand.failed.add(outcome.node)
        strand.failures.append((order, told))
        batch.outcomes[index] = failed
        _let_fall(machine, strand, batch, error)
        return True
    # what finished stays in the journal; a failed outcome there says that the item has to run again
    done = [failed if other is outcome else other for other in level.outcomes()]
    machine.outbox += held_results.journaled(strand, done)
    if batch.node.subgraph is not None:
        _begin_anew(machine, strand, path, outcome.attempt + 1, error)
    batch.outcomes[index] = None
    batch.open += 1
    batch.stuck += 1
    level.open_mask |= 1 << batch.number
    _let_fall(machine, strand, batch, error)
    frame_lifecycle.fail(strand, order, level.number, told)
    frame_lifecycle.check_drained(machine, strand)
    return False


def _let_fall(machine: Machine, strand: Frame, failed: Batch, error: Exception) -> None:
    """Take back what a batch of the first level had a say in, as far as it was planned, done or remembered."""
    withdrawn: dict[str, None] = {}
    begun: dict[str, int] = {}
    for batch in lookahead.without(machine, strand, failed):
        for item, attempt in _begun(batch):
            if batch.outcomes[item.index] is not None:
                withdrawn[item.path] = None
            if batch.node.subgraph is not None:
                begun[item.path] = attempt
    far = failed.level.number + len(strand.program.names)
    later = {
        name: strand.view.visits[number] + (number in failed.level.batches)
        for number, name in enumerate(strand.program.names)
        if lookahead.has_say(machine, strand, failed, number, far)
    }
    outcomes, remembered = machine.forget(strand, later)
    withdrawn.update(dict.fromkeys(strand.prefix + outcome.path for outcome in outcomes))
    machine.outbox += [Withdrawn(path, strand.epoch) for path in withdrawn]
    for path, attempt in {**remembered, **begun}.items():
        _begin_anew(machine, strand, path, attempt + 1, error)


def _begun(batch: Batch) -> Iterator[tuple[Item, int]]:
    """The items of a batch that have an outcome or strands under way, and which attempt that was."""
    for index, outcome in enumerate(batch.outcomes):
        if outcome is not None:
            yield Item(batch, index), outcome.attempt
        elif index in batch.strands:
            owner = batch.strands[index][0].owner
            assert owner is not None
            yield owner, owner.attempt


def _begin_anew(machine: Machine, strand: Frame, path: str, attempt: int, error: Exception) -> None:
    machine.begin_anew(path, attempt)
    machine.outbox.append(Retry(None, path, attempt, 0.0, error, 0.0, strand.epoch))
