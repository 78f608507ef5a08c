"""The life of a frame: entering a subgraph, leaving it, and how frames end.

An item whose node is a graph runs one frame, or one frame for each element that it maps over. On entry, the boundary
(``clew.graph.subgraph``) says which values the inner graph starts with. Where a boundary function was given, values
are encoded and decoded, so nothing is shared across the boundary, and the inner schema validates them. On leaving,
the final values become the item's return value.

A frame ends when nothing is due, after too many steps, or with a failure after which nothing can continue. Rules:

- The failure of a frame is the one with the lowest (step, order), whichever happened first. Other failures of the
  same step are reported with it. Failures of later steps depend on how far lookahead had got, so they are not reported.
- A failed inner frame ends once nothing in its open steps can continue. Then its item fails, and the item's own retry
  policy decides; a new attempt begins new frames.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from clew.engine.frame import Frame, Item
from clew.engine.records import Failure, Outcome
from clew.error_text import add_note, line_of
from clew.errors import MaxStepsError, NodeError, StalledError

if TYPE_CHECKING:
    from clew.engine.machine import Machine
    from clew.engine.options import Order
    from clew.graph import RetryPolicy

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from clew.engine.chain import apply_step
from clew.engine.program import check_values, program_of
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
            strand.add_times(step.outcomes)
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
    # it ended with its last item; what it spent on waiting for a person is not of its duration
    busy = max(other.busy for other in strands)
    times = (max(other.ended for other in strands) - busy, busy)
    failed = next((other for other in strands if other.state == "failed"), None)
    if failed is not None:
        first = failures_of(failed)[0]
        machine.give_up(item, first.error, *times, inside=first)
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
        machine.give_up(item, error, *times, retry=False)
        return
    machine.settle_subgraph(item, value, *times)


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


def end(machine: Machine, strand: Frame) -> None:
    """Nothing is due any more."""
    stalled = strand.view.stalled()
    if stalled:
        names = strand.program.names
        told = "; ".join(
            f"{names[i]!r} was selected, and lacks {', '.join(map(repr, lacking))}"
            for i, lacking in stalled.items()
        )
        error = StalledError(f"the run cannot go on: {told}; give these values, or let a node write them")
        _fail_strand(strand, error)
    strand.state = "failed" if strand.failures else "completed"
    if strand.owner is not None:
        leave(machine, strand)


def too_many_steps(machine: Machine, strand: Frame) -> None:
    """The strand has had all the steps that it may have, and something is due."""
    names = [strand.program.names[i] for i in sorted(strand.view.due)]
    visits = {name: strand.view.visits[strand.program.index[name]] for name in names}
    told = ", ".join(f"{name!r} ({count} times)" for name, count in visits.items())
    error = MaxStepsError(
        f"the run did not settle in {machine.options.max_steps} steps; still due: {told}; let a gate end the loop, "
        f"or raise max_steps"
    )
    _fail_strand(strand, error)
    strand.state = "failed"
    if strand.owner is not None:
        leave(machine, strand)


def fail(strand: Frame, order: Order, step: int, failure: Failure) -> None:
    """The strand has failed: nothing of a step after `step` is started any more."""
    strand.failures.append((order, failure))
    strand.limit = min(strand.limit, step)


def _fail_strand(strand: Frame, error: BaseException) -> None:
    """The strand has failed, and none of its items has."""
    failure = Failure(error, strand.step, path=strand.prefix[:-1])
    fail(strand, (*strand.order, strand.step + 1), strand.step, failure)


def check_drained(machine: Machine, strand: Frame) -> None:
    """End a failed strand of a subgraph if nothing of its open steps can go on."""
    if (
        strand.owner is not None
        and strand.has_failed
        and strand.state == "running"
        and all(level.is_drained() for level in strand.open_levels())
    ):
        strand.state = "failed"
        leave(machine, strand)


def failures_of(strand: Frame) -> tuple[Failure, ...]:
    """The failure of the lowest (step, order), and the others of its step."""
    if not strand.failures:
        return ()
    ordered = sorted(strand.failures, key=lambda pair: pair[0])
    first_order, first = ordered[0]
    step = first_order[: len(strand.order) + 1]
    others = [
        other for order, other in ordered[1:] if order[: len(step)] == step and other.error is not first.error
    ]
    return (first, *others)


def failure_at(
    item: Item, error: BaseException, outcome: Outcome | None = None, *, inside: Failure | None = None
) -> Failure:
    """An error with its place: the item that raised it, or what failed `inside` it."""
    if inside is not None and inside.error is error:
        return msgspec.structs.replace(inside, step=item.step, around=(*inside.around, item.path))
    refused = "" if outcome is None else outcome.refused
    attempt = item.attempt if outcome is None else outcome.attempt
    return Failure(error, item.step, item.node.name, item.path, attempt, (), refused)


def is_retryable(policy: RetryPolicy, error: Exception) -> bool:
    """What the policy says of an error; one whose function raises says no, and why."""
    try:
        return bool(policy.retryable(error))
    except Exception as raised:
        add_note(error, f"clew: it is not tried again, because retryable raised {line_of(raised)}")
        return False


def failed_before(name: str, step: int) -> Failure:
    """The failure of a node that failed before the state that a run goes on from: a state keeps its name alone."""
    error = NodeError(
        f"node {name!r} failed before the state that this run went on from; the run before has its error"
    )
    return Failure(error, step, name)
