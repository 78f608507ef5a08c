"""How strands end: nothing is due, too many steps, or a failure after which nothing can go on.

The failure of a strand is that of the lowest (step, order), whichever came first in time; the others of the same step
are told beside it. Which items of later steps had been started ahead depends on timing, so what they raised is not
told. A failed strand of a subgraph has ended once nothing of its open steps can go on; then its item has failed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from clew.engine import frame_lifecycle
from clew.engine.frame import Frame, Item
from clew.engine.records import Failure, Outcome
from clew.error_text import add_note, line_of
from clew.errors import MaxStepsError, NodeError, StalledError

if TYPE_CHECKING:
    from clew.engine.machine import Machine
    from clew.engine.options import Order
    from clew.graph import RetryPolicy


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
        frame_lifecycle.leave(machine, strand)


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
        frame_lifecycle.leave(machine, strand)


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
        frame_lifecycle.leave(machine, strand)


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
