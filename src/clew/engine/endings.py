"""How strands end: nothing is due, too many steps, or a failure after which nothing can go on.

The error of a strand is that of the lowest (step, order), whichever came first in time; the others of the same step
are attached to it. Which items of later steps had been started ahead depends on timing, so what they raised is not
told. A failed strand of a subgraph has ended once nothing of its open steps can go on; then its item has failed.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING

from clew.engine import descent
from clew.engine.strand import Item, Strand
from clew.errors import MaxStepsError, NodeError, StalledError

if TYPE_CHECKING:
    from clew.engine.machine import Machine
    from clew.engine.terms import Order
    from clew.graph import RetryPolicy


def end(machine: Machine, strand: Strand) -> None:
    """Nothing is due any more."""
    stalled = strand.view.stalled()
    if stalled:
        names = strand.program.names
        told = "; ".join(
            f"{names[i]!r} was selected, and lacks {', '.join(map(repr, lacking))}"
            for i, lacking in stalled.items()
        )
        error = StalledError(f"the run cannot go on: {told}; give these values, or let a node write them")
        fail(strand, (*strand.order, strand.step + 1), strand.step, error)
    strand.state = "failed" if strand.errors else "completed"
    if strand.owner is not None:
        descent.leave(machine, strand)


def too_many_steps(machine: Machine, strand: Strand) -> None:
    """The strand has had all the steps that it may have, and something is due."""
    names = [strand.program.names[i] for i in sorted(strand.view.due)]
    visits = {name: strand.view.visits[strand.program.index[name]] for name in names}
    told = ", ".join(f"{name!r} ({count} times)" for name, count in visits.items())
    error = MaxStepsError(
        f"the run did not settle in {machine.options.max_steps} steps; still due: {told}; let a gate end the loop, "
        f"or raise max_steps"
    )
    fail(strand, (*strand.order, strand.step + 1), strand.step, error)
    strand.state = "failed"
    if strand.owner is not None:
        descent.leave(machine, strand)


def fail(strand: Strand, order: Order, step: int, error: BaseException) -> None:
    """The strand has failed: nothing of a step after `step` is started any more."""
    strand.errors.append((order, error))
    strand.limit = min(strand.limit, step)


def check_drained(machine: Machine, strand: Strand) -> None:
    """End a failed strand of a subgraph if nothing of its open steps can go on."""
    if (
        strand.owner is not None
        and strand.has_failed
        and strand.state == "running"
        and all(level.is_drained() for level in strand.open_levels())
    ):
        strand.state = "failed"
        descent.leave(machine, strand)


def error_of(strand: Strand) -> BaseException | None:
    """The error of the lowest (step, order); the others of its step are attached as ``others``."""
    if not strand.errors:
        return None
    ordered = sorted(strand.errors, key=lambda pair: pair[0])
    first_order, first = ordered[0]
    step = first_order[: len(strand.order) + 1]
    others = tuple(error for order, error in ordered[1:] if order[: len(step)] == step and error is not first)
    if others:
        with suppress(Exception):
            first.others = others  # type: ignore[attr-defined]
        for other in others:
            _note(first, f"clew: in the same step also failed: {type(other).__name__}: {other}")
    return first


def is_retryable(policy: RetryPolicy, error: Exception) -> bool:
    """What the policy says of an error; one whose function raises says no, and why."""
    try:
        return bool(policy.retryable(error))
    except Exception as raised:
        _note(
            error, f"clew: it is not tried again, because retryable raised {type(raised).__name__}: {raised}"
        )
        return False


def note(error: BaseException, item: Item) -> None:
    """Say in the error's notes which node raised it, and where."""
    _note(
        error,
        f"clew: raised by node {item.node.name!r} at {item.path} in step {item.step}, attempt {item.attempt + 1}",
    )


_RAISED_BY = re.compile(r"clew: raised by node .+? at (.+) in step \d+, attempt \d+")


def raised_by(error: BaseException) -> list[str]:
    """The paths of the items that raised an error, from what `note` said: one in a subgraph, and those around it."""
    found = [_RAISED_BY.fullmatch(str(text)) for text in getattr(error, "__notes__", ())]
    return [match[1] for match in found if match is not None]


def _note(error: BaseException, text: str) -> None:
    with suppress(Exception):  # an exception class may do as it likes; a note is not worth a run
        if text not in getattr(error, "__notes__", ()):
            error.add_note(text)


def failed_before(name: str) -> NodeError:
    """The error of a node that failed before the state that a run goes on from: a state keeps its name alone."""
    return NodeError(
        f"node {name!r} failed before the state that this run went on from; the run before has its error"
    )
