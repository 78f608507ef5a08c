"""The life of a frame: entering a subgraph, leaving it, and how frames end.

An item whose node is a graph runs one frame, or one frame for each element that it maps over. On entry, the boundary
(``clew.graph.subgraph``) says which values the inner graph starts with. Where a boundary function was given, values
are encoded and decoded, so nothing is shared across the boundary, and the inner schema validates them. On leaving,
the final values become the item's return value.

A frame ends when nothing is due, after too many steps, or with a failure after which nothing can continue. Rules:

- The failure that stops a frame is the one with the lowest (step, order), whichever happened first. Other failures of
  the same step are reported with it. Failures of later steps depend on how far lookahead had got, so they are not
  reported. Confined and rescued failures do not stop a frame and are all reported, after those that do.
- A failed inner frame ends once nothing in its open steps can continue. A confined failure fails an inner frame when
  the frame ends.
- The elements of a mapped item do not affect each other, like the items of a step: all of them run as far as they can,
  and all their failures are reported, first those of the lowest element. The item fails once nothing inside it can
  continue; a question does not delay that. With ``on_error="continue"`` the item waits for the answer first.
- When an item fails, its own retry policy decides; a new attempt begins new frames.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from clew.engine import edits
from clew.engine.frame import Frame, Item
from clew.engine.history.chain import apply_step
from clew.engine.program import check_values, program_of
from clew.engine.records import Deadline, Failure, Outcome, Question, Start, TypedQuestion
from clew.engine.working_state import WorkingState
from clew.errors import MaxStepsError, NodeError, StalledError
from clew.graph import Graph, Subgraph
from clew.state import decode, encode

if TYPE_CHECKING:
    from clew.engine.machine import Machine
    from clew.engine.options import Order


def enter(machine: Machine, item: Item) -> None:
    """Start the frames inside a subgraph item."""
    inside = item.node.subgraph
    assert inside is not None
    try:
        values = inside.values_of(item.seen())
        graph, values = _pass_bound(item, inside, values)
        if inside.transform_input is not None:
            values = _across(values, item.path)
        runs = inside.items_of(values)
        started = [
            _begin(machine, item, graph, number, run, bool(inside.mapped)) for number, run in enumerate(runs)
        ]
    except Exception as error:
        machine.give_up(item, error, retry=False)
        return
    if machine.options.listening:
        machine.notify("item_started", item, node=item.node.name, attempt=item.attempt)
    if not started:
        machine.settle_subgraph(item, inside.gather([]))
        return
    item.batch.frames[item.index] = started
    if item.node.policy.timeout is not None:
        machine.outbox.append(Deadline(item, item.attempt, item.node.policy.timeout))
    for frame in started:
        frame.state = "running"
        machine.open(frame)


def _begin(
    machine: Machine, item: Item, graph: Graph, number: int, values: Mapping[str, Any], is_mapped: bool
) -> Frame:
    prefix = f"{item.path}[{number}]/" if is_mapped else f"{item.path}/"
    order = (*item.order, number)
    earlier = machine.prior_frame(prefix, (*item.frame.epoch, item.attempt))
    if earlier is not None:
        start, steps = earlier
        program = program_of(graph, start.given)
        working = WorkingState.begin(program, start.values)
        frame = Frame(program, working, step=len(steps), prefix=prefix, order=order, owner=item)
        frame.state = "planned"
        for step in steps:
            apply_step(working, step, machine.options.on_conflict)
            frame.add_times(step.outcomes)
            for outcome in step.outcomes:
                for failure in outcome.failures_in(step):
                    place = (step.number, program.index[outcome.node], max(outcome.index, 0))
                    frame.failures.append(((*order, *place), failure))
        return frame
    given, seeded = check_values(graph, values)
    program = program_of(graph, given)
    machine.outbox.append(Start(prefix, seeded, given, (*item.frame.epoch, item.attempt)))
    working = WorkingState.begin(program, seeded)
    frame = Frame(program, working, step=0, prefix=prefix, order=order, owner=item)
    frame.state = "planned"
    if machine.options.edits:
        edits.limit_lookahead(frame, machine.options.edits)
    return frame


def abandon(machine: Machine, item: Item, error: BaseException) -> None:
    """Discard the frames inside a subgraph item that timed out, and fail the attempt."""
    for frame in item.batch.frames.pop(item.index):
        frame.drop()
    machine.give_up(item, error)


def leave(machine: Machine, frame: Frame) -> None:
    """End the item of a frame that has ended or cannot continue, unless another of its frames can continue."""
    item = frame.owner
    assert item is not None
    inside = item.node.subgraph
    assert inside is not None
    frames = item.batch.frames[item.index]
    if frame.state == "failed" and not frame.is_beside_failure:
        for other in frames:
            other.is_beside_failure = True
    if not all(other.stands() for other in reversed(frames)):
        return
    is_failed = frame.is_beside_failure
    if any(other.state == "running" for other in frames) and (
        not is_failed or machine.options.on_error == "continue"
    ):
        check_drained(machine, item.frame)
        return
    del item.batch.frames[item.index]
    # it ended with its last item; the time it waited for an answer does not count
    busy = max(other.busy for other in frames)
    times = (max(other.ended for other in frames) - busy, busy)
    if is_failed:
        machine.give_up(item, failures_of_all(frames)[0].error, *times, inside=frames)
        for over in frames:
            if item.waited or over.state == "running":
                over.drop()
        return
    try:
        value = _value_of(inside, frames, item.path)
    except Exception as error:
        machine.give_up(item, error, *times, retry=False)
        return
    machine.settle_subgraph(item, value, *times, failures_inside(item, failures_of_all(frames)))


def _value_of(inside: Subgraph, frames: Iterable[Frame], path: str) -> Any:
    """Return the value of a subgraph item whose frames have ended."""
    updates = [inside.update_of(frame.working_state.plain_values()) for frame in frames]
    if inside.transform_output is not None:
        updates = [_across(update, path) for update in updates]
    return inside.gather(updates)


def _pass_bound(item: Item, inside: Subgraph, values: dict[str, Any]) -> tuple[Graph, dict[str, Any]]:
    """Bind inside the subgraph what is bound outside and passed by name; bound values are not state."""
    bound = item.frame.program.bound
    if not bound or inside.transform_input is not None:
        return inside.graph, values
    passed = {
        p.name: bound[p.source]
        for p in item.node.params
        if p.kind == "value" and p.source in bound and values.get(p.name) is bound[p.source]
    }
    if not passed:
        return inside.graph, values
    known = item.frame.program.inner
    key = (item.node.name, *passed)  # a payload may override a bound value
    graph = known.get(key)
    if graph is None:
        graph = known[key] = inside.graph.bind(**passed)
    return graph, {name: value for name, value in values.items() if name not in passed}


def _across(values: Mapping[str, Any], path: str) -> dict[str, Any]:
    crossed = decode(encode(dict(values), at=path, ordered=True))
    assert isinstance(crossed, dict)
    return crossed


def ask(machine: Machine, item: Item, when: float, *questions: tuple[Any, str, str | None]) -> None:
    """Open the questions of an item that has stopped, each with the suffix of its path and its position."""
    for place, (question, about, position) in enumerate(questions):
        number = len(machine.answers(item, about))
        at = str(number) if position is None else position
        asked = Question(item.path + about, item.node.name, question, item.step, number, at, time=when)
        if type(question) is TypedQuestion:
            typed, question = question, question.question
            asked = msgspec.structs.replace(
                asked, question=question, schema=typed.schema, type=typed.type, error=typed.error
            )
        item.frame.questions[(*item.order, place) if place else item.order] = asked
        machine.outbox.append(asked)
        if machine.options.listening:
            machine.notify(
                "interrupted", item, node=item.node.name, question=question, number=number, about=about
            )
    machine.askers[item.path] = item
    item.batch.stuck += 1
    check_drained(machine, item.frame)


def take_answer(machine: Machine, path: str, answer: Any, when: float, refusal: str) -> bool:
    """Answer the open question at a path: its item starts over. With a `refusal`, the question only gets that error.
    Return False if the item does not ask now."""
    item = machine.askers.get(path.partition("!")[0])
    if item is None:
        return False
    asked = item.frame.questions
    for place, question in list(asked.items()):
        if question.path != path or place[: len(item.order)] != item.order:
            continue
        if refusal:
            asked[place] = noted = msgspec.structs.replace(question, error=refusal)
            machine.outbox.append(noted)
        else:
            machine.know_answer(question, answer, when)
            ask_again(machine, item)
        return True
    return False


def ask_again(machine: Machine, item: Item) -> None:
    """Start an item over that asks: with an answer, or because it also waits and a wait has ended."""
    asked, order = item.frame.questions, item.order
    for place in [place for place in asked if place[: len(order)] == order]:
        del asked[place]
    machine.askers.pop(item.path, None)
    item.batch.stuck -= 1
    machine.frontier.push(item)


def end(machine: Machine, frame: Frame) -> None:
    """End a frame in which nothing is due."""
    stalled = frame.working_state.stalled()
    if stalled:
        names = frame.program.names
        missing = "; ".join(
            f"{names[i]!r} was selected but {_lacks(frame.working_state, i, lacking)}"
            for i, lacking in stalled.items()
        )
        error = StalledError(f"the run cannot continue: {missing}")
        _fail_frame(frame, error)
    is_stopped = frame.has_failed
    if not is_stopped and frame.owner is not None and frame.failures:
        is_stopped = any(not failure.rescued for _, failure in frame.failures)
    frame.state = "failed" if is_stopped else "completed"
    if frame.owner is not None:
        leave(machine, frame)


def _lacks(working: WorkingState, node: int, values: tuple[str, ...]) -> str:
    """Return what a selected node lacks, and how to provide it."""
    awaited = working.awaited(node)
    if values:
        return f"lacks {', '.join(map(repr, values))}; give these values, or let a node write them"
    return f"all_of() waits for {', '.join(map(repr, awaited))}, which has not run; let it run, or remove it"


def too_many_steps(machine: Machine, frame: Frame) -> None:
    """Fail a frame that has reached `max_steps` while nodes are due."""
    names = [frame.program.names[i] for i in sorted(frame.working_state.due)]
    visits = {name: frame.working_state.visits[frame.program.index[name]] for name in names}
    due = ", ".join(f"{name!r} ({count} times)" for name, count in visits.items())
    limit = machine.options.max_steps - machine.options.began
    error = MaxStepsError(
        f"the run did not settle in {limit} steps; still due: {due}; let a gate end the loop, or raise max_steps"
    )
    _fail_frame(frame, error)
    frame.state = "failed"
    if frame.owner is not None:
        leave(machine, frame)


def fail(frame: Frame, order: Order, step: int, failure: Failure) -> bool:
    """Record a failure of the frame; no item of a step after `step` starts. Return False if it does not count, because
    a stop or a failure precedes it.
    """
    if step > frame.limit:
        return False
    frame.failures.append((order, failure))
    frame.failed_at = min(frame.failed_at, step)
    frame.limit = min(frame.limit, step)
    return True


def _fail_frame(frame: Frame, error: BaseException) -> None:
    """Record a failure that belongs to no item."""
    failure = Failure(error, frame.step, path=frame.prefix[:-1])
    fail(frame, (*frame.order, frame.step + 1), frame.step, failure)


def check_drained(machine: Machine, frame: Frame) -> None:
    """End the innermost failed frame or item, from this frame outwards, if nothing inside it can continue."""
    around = frame
    while not (around.has_failed or around.is_beside_failure):
        if around.owner is None:
            return
        around = around.owner.frame
    if frame.owner is None or frame.state != "running" or not frame.stands():
        return
    if frame.has_failed:
        frame.state = "failed"
    if frame.has_failed or frame.is_beside_failure:
        leave(machine, frame)
    else:
        check_drained(machine, frame.owner.frame)


def failures_of(frame: Frame) -> tuple[Failure, ...]:
    """Return the failures of a frame: first the one that stops it, then the others, then the rescued ones."""
    if not frame.failures:
        return ()
    ordered = sorted(frame.failures, key=lambda pair: pair[0])
    found = _until_stopped(frame, ordered) if frame.has_failed else [failure for _, failure in ordered]
    return tuple(sorted(found, key=lambda failure: failure.rescued))


def _until_stopped(frame: Frame, ordered: Sequence[tuple[tuple[int, ...], Failure]]) -> list[Failure]:
    """Return the failure that stops a frame, and the others up to its step."""
    depth, others = len(frame.order), [pair for pair in ordered if not pair[1].rescued]
    # a failure of the frame itself stops it in any case; one of an item only if it is not confined
    own = [pair for pair in others if not pair[1].node and not pair[1].around]
    order, first = (own or [pair for pair in others if pair[0][depth] >= frame.limit])[0]
    reported = [failure for place, failure in ordered if place[depth] <= order[depth]]
    return [first, *(each for each in reported if each.rescued or each.error is not first.error)]


def failures_of_all(frames: Iterable[Frame]) -> list[Failure]:
    """Return the failures of the frames of one item: first that of the lowest one that failed, last the rescued."""
    found = [failure for frame in frames if frame.failures for failure in failures_of(frame)]
    return sorted(found, key=lambda failure: failure.rescued)


def failures_of_open_items(frame: Frame) -> list[Failure]:
    """Return the failures inside the subgraph items of a frame that have not ended, in order."""
    found: list[Failure] = []
    for open_step in frame.startable_steps():
        for _, batch in sorted(open_step.batches.items()):
            for _, frames in sorted(batch.frames.items()):
                inside = failures_of_all(frames)
                inside += [failure for inner in frames for failure in failures_of_open_items(inner)]
                owner = frames[0].owner
                assert owner is not None
                found += failures_inside(owner, inside)
    return found


def failure_at(item: Item, error: BaseException, outcome: Outcome | None = None) -> Failure:
    """Return an error with the location of the item that raised it."""
    refused = "" if outcome is None else outcome.refused
    attempt = item.attempt if outcome is None else outcome.attempt
    return Failure(error, item.step, item.node.name, item.path, attempt + 1, (), refused)


def failures_inside(item: Item, failures: Iterable[Failure]) -> tuple[Failure, ...]:
    """Return failures inside a subgraph item with their location in the frame of the item."""
    return tuple(
        msgspec.structs.replace(failure, step=item.step, around=(*failure.around, item.path))
        for failure in failures
    )


def failed_before(name: str, step: int) -> Failure:
    """Return the failure of a node that failed before the state the run started from; states store only its name."""
    error = NodeError(
        f"node {name!r} failed before the state that this run started from; see the error of the earlier run"
    )
    return Failure(error, step, name)
