"""Held results: results of nodes with `requires_idempotency` that are not `recordable` count only at the commit.

The result of such a node must not be restored from a log: if a run stops before the commit, the node is called again
with the same key. So its result is not logged as a finished item, and nothing may depend on it before the commit: it is
*held*. The rest of the machine treats a held item as an open item that cannot continue by itself. When only held items
are open in the first open step, all of them take effect and the step is committed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew.engine import frame_lifecycle
from clew.engine.frame import Frame, Item
from clew.engine.records import FinishedItem, Outcome

if TYPE_CHECKING:
    from clew.engine.machine import Machine


def is_held(item: Item) -> bool:
    """Return whether the result of an item counts only once its step is committed."""
    batch = item.batch
    return bool(batch.working_state.program.held_nodes >> batch.number & 1)


def hold(machine: Machine, item: Item, outcome: Outcome) -> None:
    """Hold an outcome until its step can be committed, which may be now."""
    batch, open_step = item.batch, item.batch.open_step
    batch.held[item.index] = outcome
    batch.stuck += 1
    if len(batch.held) == batch.open:
        open_step.held_mask |= 1 << batch.number
    if not release(machine, open_step.frame):
        frame_lifecycle.check_drained(machine, open_step.frame)


def release(machine: Machine, frame: Frame) -> bool:
    """Apply held outcomes if the first open step waits for nothing else; return False if it does."""
    open_step = frame.open_steps[0]
    if not open_step.open_mask or open_step.open_mask & ~open_step.held_mask:
        return False
    if open_step.is_void or not frame.is_next(open_step):
        return False
    found = []
    for batch in open_step.batches.values():
        found += [(Item(batch, index), outcome) for index, outcome in sorted(batch.held.items())]
        batch.stuck -= len(batch.held)
        batch.held.clear()
    open_step.held_mask = 0
    for item, outcome in found:
        machine.place(item, outcome)
    return True


def log_finished(machine: Machine, frame: Frame, outcome: Outcome) -> None:
    """Log an outcome whose step is not committed, unless its node is held."""
    held = frame.program.held_nodes
    if not (held and held >> frame.program.index[outcome.node] & 1):
        machine.outbox.append(FinishedItem(frame.prefix, outcome, frame.epoch))
