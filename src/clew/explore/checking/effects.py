"""The effects of a checked run on the outside, and whether one was repeated although its result was recorded.

Repeating an effect is correct while its result is unknown. Once the result is in the log, the run must use it.
"""

from __future__ import annotations

from collections import Counter
from hashlib import sha256

import msgspec

from clew.runtime.log.run_log import RunLog
from clew.state import encode


class Effect(msgspec.Struct, frozen=True):
    """A recorded call that was made, or an execution of a node that is recorded as a whole."""

    path: str
    number: int  # of the call; -1 for a whole node
    name: str
    request: bytes  # the arguments, including the idempotency key
    again: bool = False  # a result was already recorded
    within: tuple[int, ...] = ()  # the numbers of the enclosing calls


def is_recorded(effect: Effect, occurrence: int, log: RunLog) -> bool:
    """Return whether the log has a result of this effect.

    A body may make the same call twice. So the Nth such call of an attempt is compared with the Nth one that any
    attempt has recorded, regardless of the call's number there.
    """
    if effect.number < 0:
        known = log.outcomes().get(effect.path)
        return known is not None and known.error is None
    recorded = Counter(
        (call.epoch, call.attempt)
        for call in log.calls
        if (call.path, call.name) == (effect.path, effect.name)
        and call.error is None
        and encode([list(call.request[0]), call.request[1]]) == effect.request
    )
    return occurrence < max(recorded.values(), default=0)


def describe(effect: Effect, earlier: int) -> str:
    """Return an effect as text; `earlier` is how often it happened before."""
    what = f"call {effect.number} ({effect.name!r}) is made" if effect.number >= 0 else "it is executed"
    times = f", for the {_nth(earlier + 1)} time" if earlier else ""
    return f"{effect.path}: {what}{times}"


def count_effects(effects: list[Effect]) -> list[list[object]]:
    """Return each effect with its number of occurrences, in an order that does not depend on time."""
    made = Counter((e.path, e.number, e.name, sha256(e.request).hexdigest()[:16], e.again) for e in effects)
    return sorted([*effect, times] for effect, times in made.items())


def _nth(times: int) -> str:
    return {2: "second", 3: "third"}.get(times, f"{times}th")
