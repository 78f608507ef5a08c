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
    return bool(batch.view.program.held_nodes >> batch.number & 1)


def hold(machine: Machine, item: Item, outcome: Outcome) -> None:
    """Keep an outcome back until its step can be committed, which may be now."""
    batch, level = item.batch, item.batch.level
    batch.held[item.index] = outcome
    batch.stuck += 1
    if len(batch.held) == batch.open:
        level.held_mask |= 1 << batch.number
    if not release(machine, level.strand):
        frame_lifecycle.check_drained(machine, level.strand)


def release(machine: Machine, strand: Frame) -> bool:
    """Let held outcomes take effect if the first level waits for nothing else. False if it does."""
    level = strand.levels[0]
    if not level.open_mask or level.open_mask & ~level.held_mask or level.is_void:
        return False
    found = []
    for batch in level.batches.values():
        found += [(Item(batch, index), outcome) for index, outcome in sorted(batch.held.items())]
        batch.stuck -= len(batch.held)
        batch.held.clear()
    level.held_mask = 0
    for item, outcome in found:
        machine.place(item, outcome)
    return True


def journaled(strand: Frame, outcomes: Iterable[Outcome]) -> list[FinishedItem]:
    """What is kept of outcomes whose step is not committed."""
    index, held = strand.program.index, strand.program.held_nodes
    return [
        FinishedItem(strand.prefix, outcome, strand.epoch)
        for outcome in outcomes
        if not (held and held >> index[outcome.node] & 1)
    ]
