"""Values that cannot be stored: noticed when a node returns them, or when its outcome is written.

The writer notices every such value, but by then the outcome was accepted, so the run fails. Where a failure would not
end the run, the machine of a durable run also checks what a node returned, and an `EncodeError` fails the item: with
``on_error="continue"``, and for a node that has a rescue function or is inside a subgraph item that has one. This
encodes the value twice, so no other run does it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from clew.engine.frame import Item
from clew.engine.history.chain import stored_decision
from clew.engine.options import Options
from clew.engine.records import Choice, Failure, FinishedItem, Outcome, Step
from clew.errors import EncodeError
from clew.state import stored_value

if TYPE_CHECKING:
    from clew.engine.machine import Machine

Decision = tuple[Choice, ...] | None
_SCALARS = frozenset({type(None), bool, int, float, str})  # every instance has an encoding


def refusal(
    item: Item, options: Options, update: Mapping[str, Any], decision: Decision
) -> EncodeError | None:
    """Return the error of a result that cannot be stored, if its failure would not end the run; None otherwise."""
    if item.node.subgraph is not None:  # the results of its nodes were checked
        return None
    if options.on_error == "stop" and not _has_rescue(item):
        return None
    return refused(item.node.name, item.path, update, decision)


def is_storable(value: Any) -> bool:
    """Return whether a value, as a node returned it, can be stored."""
    if type(value) in _SCALARS:
        return True
    try:
        stored_value(value, at="", blobs={})
    except EncodeError:
        return False
    return True


def refused(node: str, path: str, update: Mapping[str, Any], decision: Decision) -> EncodeError | None:
    """Return the error of a result that cannot be stored, with the node and the path of its item; None if it can be."""
    try:
        for name, value in update.items():
            stored_value(value, at=name, blobs={})
        stored_decision(decision, {})
    except EncodeError as error:
        return EncodeError(f"node {node!r} at {path} returned a value that cannot be stored: {error}")
    return None


def refused_failure(
    machine: Machine, error: EncodeError, record: Step | FinishedItem, outcome: Outcome
) -> Failure:
    """Return the failure of an item whose outcome, in this record, the writer refused."""
    graph, place, around = machine.root.program.graph, "", []
    for part in record.prefix.split("/")[:-1]:
        subgraph = graph.nodes[part.partition("#")[0]].subgraph
        assert subgraph is not None
        around.append(place + (part.rpartition("[")[0] if subgraph.mapped else part))
        graph, place = subgraph.graph, f"{place}{part}/"
    path = record.prefix + outcome.path
    if isinstance(record, Step) and not record.prefix:
        step = record.number
    else:
        step = _step_of(machine, path.partition("/")[0])
    return Failure(error, step, outcome.node, path, outcome.attempt + 1, tuple(reversed(around)))


def _step_of(machine: Machine, path: str) -> int:
    """Return the step of an item of the run itself: it is open, or the machine has just committed it."""
    root = machine.root
    name, _, rest = path.partition("#")
    number, visit = root.program.index[name], int(rest.partition("[")[0])
    for open_step in root.open_steps:
        if number in open_step.batches and open_step.batches[number].visit == visit:
            return open_step.number
    return root.latest.get(number, root.step)


def _has_rescue(item: Item) -> bool:
    """Return whether a rescue function applies to an item or to an enclosing one, or is what returned."""
    if item.node.kind == "rescue":
        return True
    inner: Item | None = item
    while inner is not None:
        if inner.node.rescue is not None:
            return True
        inner = inner.frame.owner
    return False
