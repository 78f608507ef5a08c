"""Doubts: whether a call that was begun, and has nothing to show for it, was made.

Only a person can tell. What is to be done about it is the engine's ``on_ambiguous``: ``"retry"`` makes the call
again with the same idempotency key, and costs nothing while all goes well. For ``"fail"`` and ``"ask"`` an
`CallIntent` is made durable before a call: an intent without a recording is a doubt. The same goes for a node with
side effects that is recorded as a whole; its intent has the number `WHOLE`, and is settled by another one when the
attempt has ended in any way that is known, other than with an outcome, which speaks for itself. A node that has
begun a recorded call is in no doubt as a whole: its calls are.

All doubts about an item are cleared up before it makes a call. Else the calls that are made while another one is asked
about would be cut short by the question, and be in doubt themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol

from clew.engine.frame import Item
from clew.errors import AmbiguousCallError
from clew.runtime.calls.scopes import Asking
from clew.runtime.log.call_records import WHOLE, CallIntent, Place

Made = tuple[tuple[int, ...], int, Place, str]
"""Epoch, attempt, place and name of a call."""


class CallHistory(Protocol):
    """What was recorded of an item."""

    intents: list[CallIntent]
    own: set[int]  # those of this session, by their places

    def made(self) -> set[Made]:
        """The calls that have a recording."""


def doubts(known: CallHistory, epoch: tuple[int, ...], attempt: int) -> dict[tuple[Place, str], int]:
    """The calls of an item that were begun and have nothing to show for it, by place and name, and how often.

    What the attempt that asks has begun itself is under way, and in no doubt.
    """
    made, found = known.made(), dict[tuple[Place, str], int]()
    settled: Counter[Made] = Counter()
    speaks = {call[:2] for call in made}
    for intent in known.intents:
        if intent.number != WHOLE:
            speaks.add((intent.epoch, intent.attempt))
        if intent.is_settled:
            settled[intent.epoch, intent.attempt, intent.place, intent.name] += 1
    for intent in known.intents:
        at, call = (intent.epoch, intent.attempt), (intent.place, intent.name)
        if intent.is_settled or (*at, *call) in made:
            continue
        if at == (epoch, attempt) and intent.n in known.own:
            continue
        if intent.number == WHOLE and at in speaks:
            continue
        if settled[*at, *call]:
            settled[*at, *call] -= 1
            continue
        found[call] = found.get(call, 0) + 1
    return dict(sorted(found.items()))


def told_place(place: Place) -> str:
    """The place of a call as text."""
    return ".".join(map(str, place))


def about(place: Place) -> str:
    """What a question about a call has in its path after that of the item."""
    return "!" if place == (WHOLE,) else f"!{told_place(place)}"


def check(
    known: CallHistory, policy: str, item: Item, attempt: int, place: Place, answers: Any
) -> tuple[Any, ...]:
    """Before the call at `place` of an item: () to make it, or the response that a person has given for it.

    `answers` gives those to the questions about something. AmbiguousCallError, or a question, if there is a doubt about
    this call or, where people are asked, about any other one of the item.
    """
    node, path = item.node.name, item.path
    response: tuple[Any, ...] = ()
    for (each, name), times in doubts(known, item.frame.epoch, attempt).items():
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


def _told(node: str, path: str, place: Place, name: str) -> str:
    if place == (WHOLE,):
        return f"node {node!r} at {path} was begun and has no result: it may have had its effect, or not"
    where = f"node {node!r} at {path}, call {told_place(place)} ({name!r})"
    return f"{where} was begun and has no recording: it may have been made, or not"


def _failure(node: str, path: str, place: Place, name: str) -> str:
    again = "call it" if place == (WHOLE,) else "make it"
    return (
        f"{_told(node, path, place, name)}; find out, and resume with on_ambiguous='ask' to say what it gave, or with "
        f"'retry' to {again} again with the same idempotency key"
    )


def _question(node: str, path: str, place: Place, name: str) -> str:
    ways = (
        "call it again, or give what it returned"
        if place == (WHOLE,)
        else "make it again, or give its response"
    )
    return f"{_told(node, path, place, name)}; answer 'retry' to {ways}"
