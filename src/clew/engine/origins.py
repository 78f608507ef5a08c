"""What spawned an item: the node behind the link that woke it last, and which of that node's links it was.

- An item of a Send was spawned by the gate that sent it; its edge is the number of the Send.
- A node that was selected was spawned by the gate that selected it.
- Any other was spawned by the node that wrote an input of it, or that a control link comes from.

Of several, the one that ran last counts, and of those of one step the first link. A node that runs at the start, or
because of what was given or set by hand, was spawned by nobody: its parent is "". Made when somebody looks: a strand
keeps in which step each node ran last, and a restored one is told where to look it up.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple

from clew.engine.program import CHOSEN
from clew.graph.topology import Link

if TYPE_CHECKING:
    from clew.engine.frame import Frame, Item


class Ran(NamedTuple):
    """When a node ran last, and what it wrote: the names, or the versions that it made."""

    step: int
    wrote: Collection[str] | Mapping[str, int]


Past = Callable[[str], Ran | None]
"""Looks up when a node ran last before a strand was restored; None if it never did."""


def origin_of(item: Item) -> tuple[str, int]:
    """The node that spawned an item, and the index of the link or of the Send."""
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
    """The step in which a link may have woken an item; None if it has not."""
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
        return None  # what it did before the item's last run has been taken notice of
    if link.kind == "data" and not _wrote(item, link, source):
        return None
    return step


def _last_run(frame: Frame, node: int, before: int) -> int | None:
    """The last step before another in which a node ran, 0 if nobody knows; None if it never did."""
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
    """Whether the value of a link is there, and not because somebody set it by hand since."""
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
