"""Into a subgraph and out again: an item whose work is a strand, or one strand per element it maps over.

Going in, the boundary (``clew.graph.subgraph``) says what the graph inside starts with; where a boundary function was
given, what crosses is encoded and decoded, so nothing is shared across it, and validated by the schema inside.
Coming out, the final values become the item's return value. A strand that fails fails the item, whose own retry
policy then decides; a new attempt begins new strands.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from clew.engine import frame_endings
from clew.engine.chain import apply_step
from clew.engine.frame import Frame, Item
from clew.engine.program_inputs import check_values, program_of
from clew.engine.records import Deadline, Start
from clew.engine.working_state import WorkingState
from clew.graph import Graph, Subgraph
from clew.state import decode, encode

if TYPE_CHECKING:
    from clew.engine.machine import Machine


def enter(machine: Machine, item: Item) -> None:
    """Begin the strands inside `item`."""
    inside = item.node.subgraph
    assert inside is not None
    try:
        values = inside.values_of(item.seen())
        graph, values = _pass_bound(item, inside, values)
        if inside.enter is not None:
            values = _across(values, item.path)
        runs = inside.items_of(values)
        started = [
            _begin(machine, item, graph, number, run, bool(inside.mapped)) for number, run in enumerate(runs)
        ]
    except Exception as error:
        machine.give_up(item, error, retry=False)
        return
    if machine.options.listening:
        machine.notice("item_started", item, node=item.node.name, attempt=item.attempt)
    if not started:
        machine.settle_subgraph(item, inside.gather([]))
        return
    item.batch.strands[item.index] = started
    if item.node.policy.timeout is not None:
        machine.outbox.append(Deadline(item, item.attempt, item.node.policy.timeout))
    for strand in started:
        if strand.state == "running":
            machine.open(strand)


def _begin(
    machine: Machine, item: Item, graph: Graph, number: int, values: Mapping[str, Any], is_mapped: bool
) -> Frame:
    prefix = f"{item.path}[{number}]/" if is_mapped else f"{item.path}/"
    order = (*item.order, number)
    earlier = machine.recall_strand(prefix, (*item.strand.epoch, item.attempt))
    if earlier is not None:
        start, steps = earlier
        program = program_of(graph, start.given)
        view = WorkingState.begin(program, start.values)
        strand = Frame(program, view, step=len(steps), prefix=prefix, order=order, owner=item)
        for step in steps:
            apply_step(view, step, machine.options.on_conflict)
            for outcome in step.outcomes:
                failure = outcome.failure(step)
                if failure is not None:  # it was confined, and fails the strand in the end
                    place = (step.number, program.index[outcome.node], max(outcome.index, 0))
                    strand.failures.append(((*order, *place), failure))
        return strand
    given, seeded = check_values(graph, values)
    program = program_of(graph, given)
    machine.outbox.append(Start(prefix, seeded, given, (*item.strand.epoch, item.attempt)))
    return Frame(program, WorkingState.begin(program, seeded), step=0, prefix=prefix, order=order, owner=item)


def abandon(machine: Machine, item: Item, error: BaseException) -> None:
    """What happens inside `item` took too long: let it fall."""
    for strand in item.batch.strands.pop(item.index):
        strand.drop()
    machine.give_up(item, error)


def leave(machine: Machine, strand: Frame) -> None:
    """A strand has ended: once all of its item have, so has the item."""
    item = strand.owner
    assert item is not None
    inside = item.node.subgraph
    assert inside is not None
    strands = item.batch.strands[item.index]
    if strand.state == "failed":
        for later in strands[strands.index(strand) + 1 :]:
            later.drop()  # earlier ones go on: theirs would be the error, whichever came first in time
    if any(other.state == "running" for other in strands):
        return
    del item.batch.strands[item.index]
    failed = next((other for other in strands if other.state == "failed"), None)
    if failed is not None:
        first = frame_endings.failures_of(failed)[0]
        machine.give_up(item, first.error, inside=first)
        if item.waited:
            for over in strands:
                over.drop()
        return
    try:
        updates = [inside.update_of(other.view.plain_values()) for other in strands]
        if inside.leave is not None:
            updates = [_across(update, item.path) for update in updates]
        value = inside.gather(updates)
    except Exception as error:
        machine.give_up(item, error, retry=False)
        return
    machine.settle_subgraph(item, value)


def _pass_bound(item: Item, inside: Subgraph, values: dict[str, Any]) -> tuple[Graph, dict[str, Any]]:
    """What is bound outside and passes by name stays bound inside: it is no state there either."""
    bound = item.strand.program.bound
    if not bound or inside.enter is not None:
        return inside.graph, values
    passed = {
        p.name: bound[p.source]
        for p in item.node.params
        if p.kind == "value" and p.source in bound and values.get(p.name) is bound[p.source]
    }
    if not passed:
        return inside.graph, values
    known = item.strand.program.inner
    key = (item.node.name, *passed)  # a payload may take the place of what is bound
    graph = known.get(key)
    if graph is None:
        graph = known[key] = inside.graph.bind(**passed)
    return graph, {name: value for name, value in values.items() if name not in passed}


def _across(values: Mapping[str, Any], path: str) -> dict[str, Any]:
    crossed = decode(encode(dict(values), at=path, ordered=True))
    assert isinstance(crossed, dict)
    return crossed
