"""Results that count only once their step is committed: of nodes with `requires_idempotency` and not `recordable`.

Such a node says that its result cannot be answered from a log: if a run stops before the step is committed, the node
is called again, live, with the same key. So its result is not journaled, and nothing may build on it before the
commit: it is *held*. To the rest of the machine a held item is an open item that cannot go on by itself. When the
first level has no open items but held ones, all of them take effect, and the step is committed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from clew.engine import frame_lifecycle
from clew.engine.frame import Frame, Item
from clew.engine.records import FinishedItem, Outcome

if TYPE_CHECKING:
    from clew.engine.machine import Machine


def is_held(item: Item) -> bool:
    """Whether the result of an item counts only once its step is committed."""
    batch = item.batch
    return bool(batch.working_state.program.held_nodes >> batch.number & 1)


def hold(machine: Machine, item: Item, outcome: Outcome) -> None:
    """Keep an outcome back until its step can be committed, which may be now."""
    batch, open_step = item.batch, item.batch.open_step
    batch.held[item.index] = outcome
    batch.stuck += 1
    if len(batch.held) == batch.open:
        open_step.held_mask |= 1 << batch.number
    if not release(machine, open_step.frame):
        frame_lifecycle.check_drained(machine, open_step.frame)


def release(machine: Machine, frame: Frame) -> bool:
    """Let held outcomes take effect if the first level waits for nothing else. False if it does."""
    open_step = frame.open_steps[0]
    if not open_step.open_mask or open_step.open_mask & ~open_step.held_mask or open_step.is_void:
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


def finished_items(frame: Frame, outcomes: Iterable[Outcome]) -> list[FinishedItem]:
    """What is kept of outcomes whose step is not committed."""
    index, held = frame.program.index, frame.program.held_nodes
    return [
        FinishedItem(frame.prefix, outcome, frame.epoch)
        for outcome in outcomes
        if not (held and held >> index[outcome.node] & 1)
    ]
