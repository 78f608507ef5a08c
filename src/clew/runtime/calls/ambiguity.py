"""Ambiguous calls: calls that started and have no recorded result, so that they may or may not have had an effect.

The engine's ``on_ambiguous`` decides what happens to them:

- ``"retry"`` makes the call again with the same idempotency key. It costs nothing while no process crashes.
- ``"fail"`` and ``"ask"`` write a durable `CallIntent` before each call. An intent without a recording is ambiguous.

A node with side effects that makes no recorded calls is treated as one call. Its intent has the number `WHOLE`. If the
attempt raises or asks a question, a second intent settles the first. If it finishes, its outcome does. If it makes a
recorded call, only that call can be ambiguous.

All ambiguous calls of an item are resolved before it makes a new call. Otherwise a question about one of them would
interrupt the new call and make it ambiguous too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from clew.engine.frame import Item
from clew.errors import AmbiguousCallError
from clew.runtime.calls.scopes import Asking
from clew.runtime.log.entries.call_records import WHOLE, Place

if TYPE_CHECKING:
    from clew.runtime.calls.recorder import ItemCalls

Made = tuple[tuple[int, ...], int, Place, str]
"""Epoch, attempt, place and name of a call."""


def ambiguous_calls(known: ItemCalls, epoch: tuple[int, ...], attempt: int) -> dict[tuple[Place, str], int]:
    """Return the ambiguous calls of an item by place and name, and how often each was started.

    Calls of the current attempt are running, so they are not ambiguous.
    """
    made, found = known.made(), dict[tuple[Place, str], int]()
    settled: Counter[Made] = Counter()
    with_calls = {call[:2] for call in made}
    for intent in known.intents:
        if intent.number != WHOLE:
            with_calls.add((intent.epoch, intent.attempt))
        if intent.is_settled:
            settled[intent.epoch, intent.attempt, intent.place, intent.name] += 1
    for intent in known.intents:
        at, call = (intent.epoch, intent.attempt), (intent.place, intent.name)
        if intent.is_settled or (*at, *call) in made:
            continue
        if at == (epoch, attempt) and intent.n in known.own:
            continue
        if intent.number == WHOLE and at in with_calls:
            continue
        if settled[*at, *call]:
            settled[*at, *call] -= 1
            continue
        found[call] = found.get(call, 0) + 1
    return dict(sorted(found.items()))


def place_text(place: Place) -> str:
    return ".".join(map(str, place))


def about(place: Place) -> str:
    """Return the suffix that the path of a question about a call has after the path of the item."""
    return "!" if place == (WHOLE,) else f"!{place_text(place)}"


def check(
    known: ItemCalls, policy: str, item: Item, attempt: int, place: Place, answers: Any
) -> tuple[Any, ...]:
    """Return () if the call at `place` is to be made, or a tuple with the response that a user gave for it.

    `answers` returns the answers to questions with a given suffix. With the policy "fail", raises AmbiguousCallError if
    this call is ambiguous. With "ask", raises a question if any call of the item is ambiguous and has no answer.
    """
    node, path = item.node.name, item.path
    response: tuple[Any, ...] = ()
    for (each, name), times in ambiguous_calls(known, item.frame.epoch, attempt).items():
        if policy == "fail":
            if each == place:
                raise AmbiguousCallError(_failure(node, path, each, name))
            continue
        given: Sequence[Any] = answers(about(each))
        if len(given) < times:
            raise Asking(_question(node, path, each, name), about(each))
        if each == place and given[times - 1] != "retry":
            response = (given[times - 1],)
    return response


def _problem(node: str, path: str, place: Place, name: str) -> str:
    if place == (WHOLE,):
        return f"node {node!r} at {path} started and has no result, so it may or may not have had its effect"
    where = f"node {node!r} at {path}, call {place_text(place)} ({name!r})"
    return f"{where} started and has no recorded result, so it may or may not have been made"


def _failure(node: str, path: str, place: Place, name: str) -> str:
    return (
        f"{_problem(node, path, place, name)}; find out, then resume with on_ambiguous='ask' to give the result, or "
        f"with 'retry' to repeat it with the same idempotency key"
    )


def _question(node: str, path: str, place: Place, name: str) -> str:
    result = "the value that it returned" if place == (WHOLE,) else "its response"
    return f"{_problem(node, path, place, name)}; answer 'retry' to repeat it, or give {result}"
