"""The items that would run next at a state, planned by the machine itself."""

from __future__ import annotations

from collections.abc import Mapping

from clew.engine.frame import NO_LIMIT, Item
from clew.engine.history.origins import Past
from clew.engine.machine import Machine
from clew.engine.options import Options
from clew.engine.program import Program
from clew.engine.records import WorkItem
from clew.state import GraphState

_ALL = Options(queue_depth=NO_LIMIT, max_steps=NO_LIMIT)


def next_items(
    program: Program,
    state: GraphState,
    prefix: str = "",
    *,
    attempts: Mapping[str, int] | None = None,
    past: Past | None = None,
) -> list[WorkItem]:
    """Return the items of the step after `state`, in order; `prefix` is that of the frame.

    `attempts` are the known retry counts by path; `past` looks up earlier runs of nodes.
    """
    machine = Machine.restore(program, state, _ALL)
    machine.root.prefix, machine.root.past = prefix, past
    if not machine.has_more:  # plans the step
        return []
    open_step = machine.root.open_steps[0]
    items = [
        Item(batch, index)
        for _, batch in sorted(open_step.batches.items())
        for index in range(len(batch.payloads))
    ]
    for item in items:
        item.attempt = (attempts or {}).get(item.path, 0)
    return [item.work_item() for item in items]
