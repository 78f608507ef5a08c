"""What would run next at a state: the frontier of S(k), made by the very machine that would run it."""

from __future__ import annotations

from clew.engine.machine import Machine
from clew.engine.records import WorkItem
from clew.engine.rules import Program
from clew.engine.strand import NO_LIMIT, Item
from clew.engine.terms import Options
from clew.state import GraphState

_ALL = Options(queue_depth=NO_LIMIT, max_steps=NO_LIMIT)


def upcoming(program: Program, state: GraphState, prefix: str = "") -> list[WorkItem]:
    """The items of the step after `state`, in their order; `prefix` is the strand's."""
    machine = Machine.restore(program, state, _ALL)
    machine.root.prefix = prefix
    if not machine.has_more:  # plans the step
        return []
    level = machine.root.levels[0]
    return [
        Item(batch, index).work_item()
        for _, batch in sorted(level.batches.items())
        for index in range(len(batch.payloads))
    ]
