"""Failed attempts: what follows when the function of an item raised, timed out or returned an invalid value.

In this order: a retry, if the policy of the node allows one; otherwise the failure is confined to the descendants of
the node (``on_error="continue"``), or it stops the frame.

These errors are final: an ambiguous call needs a person, and after a mutation a retry would see different inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from clew.engine import frame_lifecycle
from clew.engine.frame import Item
from clew.engine.options import stream
from clew.engine.records import Failure, Outcome, Retry
from clew.error_text import add_note, line_of
from clew.errors import AmbiguousCallError, MutationError

if TYPE_CHECKING:
    from clew.engine.machine import Machine
    from clew.graph import RetryPolicy

_FINAL = (AmbiguousCallError, MutationError)


def give_up(
    machine: Machine,
    item: Item,
    error: BaseException,
    started: float,
    duration: float,
    *,
    retry: bool,
    inside: Sequence[Failure],
) -> None:
    """Schedule a retry after a failed attempt, or record the failure; `inside` are those within a subgraph item."""
    if machine.options.listening:
        machine.notify("item_failed", item, node=item.node.name, error=error, attempt=item.attempt)
    policy = item.node.policy.retry_policy
    if (
        retry
        and policy is not None
        and item.attempt + 1 < policy.max_attempts
        and isinstance(error, Exception)
        and not issubclass(type(error), _FINAL)
        and _is_retryable(policy, error)
    ):
        _retry(machine, item, error, policy)
        return
    failures = frame_lifecycle.failures_inside(item, inside)
    if machine.options.on_error == "continue":
        outcome = Outcome(
            item.node.name,
            item.batch.visit,
            item.label,
            {},
            None,
            item.attempt,
            started,
            duration,
            error=error,
            failures=failures,
        )
        machine.accept(item, outcome)
        return
    frame = item.frame
    failure = failures[0] if failures else frame_lifecycle.failure_at(item, error)
    frame_lifecycle.fail(frame, item.order, item.step, failure)
    item.batch.stuck += 1
    frame_lifecycle.check_drained(machine, frame)


def _retry(machine: Machine, item: Item, error: BaseException, policy: RetryPolicy) -> None:
    draw = stream(machine.options.seed, item.path, item.attempt, "retry").random()
    delay = policy.delay(item.attempt, draw * policy.base_delay)
    item.attempt += 1
    item.waited = True
    machine.counters.retries += 1
    machine.outbox.append(Retry(item, item.path, item.attempt, delay, error, 0.0, item.frame.epoch))
    if machine.options.listening:
        machine.notify("item_retried", item, node=item.node.name, attempt=item.attempt, delay=delay)


def _is_retryable(policy: RetryPolicy, error: Exception) -> bool:
    """Return whether the policy allows a retry; if `retryable` itself raises, add a note and return False."""
    try:
        return bool(policy.retryable(error))
    except Exception as raised:
        add_note(error, f"clew: no retry, because retryable raised {line_of(raised)}")
        return False
