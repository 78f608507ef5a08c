"""The origin of an item: the node whose link woke it last, and which of that node's links it was.

- An item of a Send originates from the gate that sent it; its edge is the number of the Send.
- A selected node originates from the gate that selected it.
- Any other node originates from the node that wrote one of its inputs, or from the source of a control link.

Of several candidates, the one that ran last counts, and within one step the first link. A node that runs at the start,
or because of a value given or set by hand, has no origin: its parent is "". Origins are computed on request. A frame
keeps the last step of each node; a restored frame looks up earlier steps in its `past`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple

from clew.engine.program import CHOSEN
from clew.graph.analysis.topology import Link

if TYPE_CHECKING:
    from clew.engine.frame import Frame, Item


class Ran(NamedTuple):
    """The last run of a node: its step, and the names or versions that it wrote."""

    step: int
    wrote: Collection[str] | Mapping[str, int]


Past = Callable[[str], Ran | None]
"""Looks up the last run of a node before the frame was restored; None if it never ran."""


def origin_of(item: Item) -> tuple[str, int]:
    """Return the node that an item originates from, and the index of the link or of the Send."""
    batch = item.batch
    if batch.gates and batch.gates[item.index] >= 0:
        gate = batch.gates[item.index]
        return batch.working_state.program.names[gate], item.index - batch.gates.index(gate)
    links = batch.working_state.program.topology.links
    found: tuple[int, Link] | None = None
    for link in links:
        step = _woke(item, link) if link.target == item.node.name else None
        if step is not None and (found is None or step > found[0]):
            found = (step, link)
    if found is None:
        return "", 0
    source = found[1].source
    return source, [link for link in links if link.source == source].index(found[1])


def _woke(item: Item, link: Link) -> int | None:
    """Return the step in which a link may have woken an item; None if it did not."""
    working = item.batch.working_state
    source = working.program.index[link.source]
    is_chosen = bool(working.wakes[item.batch.number] & CHOSEN)
    if (link.kind == "gate") != is_chosen:
        return None
    if is_chosen:
        chosen = working.decisions.get(link.source, ())
        if link.target not in ((chosen,) if isinstance(chosen, str) else chosen):
            return None
    step = _last_run(item.frame, source, item.step)
    if step is None or step < (_last_run(item.frame, item.batch.number, item.step) or 0):
        return None  # the last run of the item has already consumed it
    if link.kind == "data" and not _wrote(item, link, source):
        return None
    return step


def _last_run(frame: Frame, node: int, before: int) -> int | None:
    """Return the last step before `before` in which a node ran; 0 if unknown, None if it never ran."""
    for open_step in reversed(frame.open_steps):
        if open_step.number < before and node in open_step.batches and not open_step.batches[node].open:
            return open_step.number
    if node in frame.latest:
        return frame.latest[node]
    if not frame.working_state.visits[node]:
        return None
    ran = None if frame.past is None else frame.past(frame.program.names[node])
    return 0 if ran is None else ran.step


def _wrote(item: Item, link: Link, source: int) -> bool:
    """Return whether the value of a link exists and was not set by hand since its source ran."""
    versions, value = item.batch.working_state.versions, link.value
    assert value is not None
    if not versions.get(value):
        return False
    past = item.frame.past
    ran = None if past is None or source in item.frame.latest else past(link.source)
    if ran is None:
        return True
    if isinstance(ran.wrote, Mapping):
        return ran.wrote.get(value) == versions[value]
    return value in ran.wrote
