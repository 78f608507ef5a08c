"""Rejected updates: a reducer raises at the commit, so its item fails after it had finished.

By then the outcome may be in the log, and items of later steps may have used it. These items are discarded with their
questions and failures, and their log entries are withdrawn, so that a resumed run does not use them. Work that the
rejected item cannot affect is kept, finished or not; nothing runs twice because of an unrelated failure.

A subgraph that started because of the rejected update has steps in the log under this attempt of its item. If the item
runs again, it starts as the next attempt.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from clew.engine import frame_lifecycle, lookahead
from clew.engine.frame import Batch, Frame, Item, OpenStep
from clew.engine.records import Failure, Retry, Withdrawn
from clew.engine.updates import held_results
from clew.engine.updates.merge import MergeFailure

if TYPE_CHECKING:
    from clew.engine.machine import Machine


def reject(machine: Machine, open_step: OpenStep, failure: MergeFailure) -> bool:
    """Fail the item whose update a reducer rejected; return True if the step can still be committed."""
    outcome, frame = failure.outcome, open_step.frame
    batch = open_step.batches[frame.program.index[outcome.node]]
    index = max(outcome.index, 0)
    error = failure.error
    order = (*frame.order, open_step.number, batch.number, index)
    path = frame.prefix + outcome.path
    located = Failure(error, open_step.number, outcome.node, path, outcome.attempt + 1, (), failure.value)
    failed = msgspec.structs.replace(
        outcome,
        update={},
        decision=None,
        error=error,
        refused=failure.value,
        failures=(located, *outcome.failures) if outcome.failures else (),
    )
    if machine.options.on_error == "continue":
        frame.failures.append((order, located))
        batch.outcomes[index] = failed
        _discard_dependents(machine, frame, batch, error)
        return True
    # finished items stay in the log; a failed outcome there means that the item has to run again
    for other in open_step.outcomes():
        held_results.log_finished(machine, frame, failed if other is outcome else other)
    if batch.node.subgraph is not None:
        _start_attempt(machine, frame, path, outcome.attempt + 1, error)
    batch.outcomes[index] = None
    batch.open += 1
    batch.stuck += 1
    open_step.open_mask |= 1 << batch.number
    _discard_dependents(machine, frame, batch, error)
    frame_lifecycle.fail(frame, order, open_step.number, located)
    frame_lifecycle.check_drained(machine, frame)
    return False


def _discard_dependents(machine: Machine, frame: Frame, failed: Batch, error: Exception) -> None:
    """Discard the planned, finished and prior work that a batch of the first open step can affect."""
    withdrawn: dict[str, None] = {}
    begun: dict[str, int] = {}
    for batch in lookahead.remove_dependents(machine, frame, failed):
        for item, attempt in _begun(batch):
            if batch.outcomes[item.index] is not None:
                withdrawn[item.path] = None
            if batch.node.subgraph is not None:
                begun[item.path] = attempt
    far = failed.open_step.number + len(frame.program.names)
    later = {
        name: frame.working_state.visits[number] + (number in failed.open_step.batches)
        for number, name in enumerate(frame.program.names)
        if lookahead.can_affect(machine, frame, failed, number, far)
    }
    outcomes, remembered = machine.forget(frame, later)
    withdrawn.update(dict.fromkeys(frame.prefix + outcome.path for outcome in outcomes))
    machine.outbox += [Withdrawn(path, frame.epoch) for path in withdrawn]
    for path, attempt in {**remembered, **begun}.items():
        _start_attempt(machine, frame, path, attempt + 1, error)


def _begun(batch: Batch) -> Iterator[tuple[Item, int]]:
    """Yield the items of a batch that have an outcome or running frames, with their attempts."""
    for index, outcome in enumerate(batch.outcomes):
        if outcome is not None:
            yield Item(batch, index), outcome.attempt
        elif index in batch.frames:
            owner = batch.frames[index][0].owner
            assert owner is not None
            yield owner, owner.attempt


def _start_attempt(machine: Machine, frame: Frame, path: str, attempt: int, error: Exception) -> None:
    machine.start_attempt(path, attempt)
    machine.outbox.append(Retry(None, path, attempt, 0.0, error, 0.0, frame.epoch))
