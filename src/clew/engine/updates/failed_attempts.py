"""Failed attempts: what follows when the function of an item raised, timed out or returned an invalid value.

In this order: a retry, if the policy of the node allows one; the rescue function, if the node has one; otherwise the
failure is confined to the descendants of the node (``on_error="continue"``), or it stops the frame.

A subgraph item that stops its frame passes its failures and open questions on to that frame. Otherwise its questions
are withdrawn: another attempt asks again.

A rescue is the same item with another function and the next attempt number, so that a late result of the node is
recognized. The number does not count as an attempt: the outcome has that of the node's last one. If the process dies
during a rescue, the resumed run makes the last attempt again. An error of the rescue fails the item; the error of the
node is its context.

These errors are final: an ambiguous call needs a person, a value without an encoding will not get one, and after a
mutation a retry would see different inputs. A rescue also leaves alone cancellations and inputs whose class has
changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import msgspec

from clew.engine import frame_lifecycle
from clew.engine.frame import Frame, Item
from clew.engine.options import stream
from clew.engine.records import FailedAttempt, Outcome, Question, Retry, Withdrawn
from clew.error_text import add_note, line_of, native, set_native
from clew.errors import AmbiguousCallError, ClassChangedError, EncodeError, MutationError, RunCancelledError

if TYPE_CHECKING:
    from clew.engine.machine import Machine
    from clew.engine.options import Order
    from clew.graph import RetryPolicy

_FINAL = (AmbiguousCallError, EncodeError, MutationError)
_NOT_RESCUED = (AmbiguousCallError, MutationError, RunCancelledError, ClassChangedError)


def give_up(
    machine: Machine,
    item: Item,
    error: BaseException,
    started: float = 0.0,
    duration: float = 0.0,
    *,
    retry: bool = True,
    inside: Sequence[Frame] = (),
) -> None:
    """Schedule a retry after a failed attempt, or record the failure; `inside` are the frames of a subgraph item."""
    if machine.options.listening:
        machine.notify("item_failed", item, node=item.node.name, error=error, attempt=item.attempt)
    if item.node.kind == "rescue":
        _add_context(error, item.failures[0].error)
    asked = {
        order: each for frame in inside for f in frame.with_inner() for order, each in f.questions.items()
    }
    policy = _policy_for(item, error) if retry else None
    if policy is not None and item.attempt + 1 < policy.max_attempts:
        _withdraw(machine, item, asked)
        _report(machine, item, error, duration, "retry")
        _retry(machine, item, error, policy, started, duration)
        return
    failures = frame_lifecycle.failures_inside(item, frame_lifecycle.failures_of_all(inside))
    rescuer = item.node.rescuer
    if rescuer is not None and can_be_rescued(error):
        _withdraw(machine, item, asked)
        _report(machine, item, error, duration, "rescue")
        found = failures or (frame_lifecycle.failure_at(item, error),)
        item.failures = tuple(msgspec.structs.replace(each, rescued=True) for each in found)
        item.node = rescuer
        item.attempt += 1
        machine.frontier.push(item)
        return
    _report(machine, item, error, duration, "")
    if machine.options.on_error == "continue":
        _withdraw(machine, item, asked)
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
    own = msgspec.structs.replace(frame_lifecycle.failure_at(item, error), started=started, duration=duration)
    first, *others = failures or (own,)
    if frame_lifecycle.fail(frame, item.order, item.step, first):
        frame.failures += [(item.order, each) for each in others]
    frame.questions.update(asked)
    item.batch.stuck += 1
    frame_lifecycle.check_drained(machine, frame)


def can_be_rescued(error: BaseException) -> bool:
    """Return whether the rescue function of a node is called after this error."""
    return isinstance(error, Exception) and not issubclass(type(error), _NOT_RESCUED)


def _withdraw(machine: Machine, item: Item, asked: Mapping[Order, Question]) -> None:
    """Withdraw the open questions inside an item whose attempt is over."""
    if asked:
        machine.outbox.append(Withdrawn(item.path, item.frame.epoch))


def _report(
    machine: Machine,
    item: Item,
    error: BaseException,
    duration: float,
    follows: Literal["retry", "rescue", ""],
) -> None:
    """Report a failed attempt to observers."""
    if machine.options.observed:
        about = (item.path, item.node.name, item.step, item.attempt)
        machine.outbox.append(FailedAttempt(*about, error, duration, follows))


def _retry(
    machine: Machine, item: Item, error: BaseException, policy: RetryPolicy, started: float, duration: float
) -> None:
    draw = stream(machine.options.seed, item.path, item.attempt, "retry").random()
    delay = policy.delay(item.attempt, draw * policy.most_jitter)
    item.attempt += 1
    item.waited = True
    machine.counters.retries += 1
    epoch = item.frame.epoch
    machine.outbox.append(Retry(item, item.path, item.attempt, delay, error, 0.0, epoch, started, duration))
    if machine.options.listening:
        machine.notify("item_retried", item, node=item.node.name, attempt=item.attempt, delay=delay)


def _add_context(error: BaseException, original: BaseException) -> None:
    """Make `original` the context of an error, behind the contexts that it has."""
    seen = {id(original)}
    while id(error) not in seen:
        seen.add(id(error))
        context = native(error, "__context__")
        if context is None:
            set_native(error, "__context__", original)
            return
        error = context


def _policy_for(item: Item, error: BaseException) -> RetryPolicy | None:
    """Return the first retry policy that covers an error; None, with a note, if `retryable` itself raises."""
    policies = item.node.policy.retry_policies
    if not policies or not isinstance(error, Exception) or issubclass(type(error), _FINAL):
        return None
    if item.attempt + 1 >= max(policy.max_attempts for policy in policies):
        return None
    try:
        return next((policy for policy in policies if policy.retries(error)), None)
    except Exception as raised:
        add_note(error, f"clew: no retry, because retryable raised {line_of(raised)}")
        return None
