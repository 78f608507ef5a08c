"""What a run under check has really done outside, and whether there was a reason for it.

An effect is made again rightly while nothing is known of what came of it the last time. If that was kept, it should
have been used.
"""

from __future__ import annotations

from collections import Counter
from hashlib import sha256

import msgspec

from clew.runtime.log.run_log import RunLog
from clew.state import encode


class Effect(msgspec.Struct, frozen=True):
    """Something that happened outside: a recorded call was made, or a node recorded as a whole was executed."""

    path: str
    number: int  # of the call; -1 for a whole node
    name: str
    request: bytes  # what was asked, and with which idempotency key
    again: bool = False  # although what came of it the last time was kept
    within: tuple[int, ...] = ()  # the numbers of the calls around it


def is_kept(effect: Effect, occurrence: int, log: RunLog) -> bool:
    """Whether what came of an effect is in the log, so that there is no reason for another one.

    A body may ask for the same twice. So the Nth such call of an attempt is held against the Nth one that any attempt
    has kept, whatever number it had there.
    """
    if effect.number < 0:
        known = log.outcomes().get(effect.path)
        return known is not None and known.error is None
    kept = Counter(
        (call.epoch, call.attempt)
        for call in log.calls
        if (call.path, call.name) == (effect.path, effect.name)
        and call.error is None
        and encode([list(call.request[0]), call.request[1]]) == effect.request
    )
    return occurrence < max(kept.values(), default=0)


def told(effect: Effect, earlier: int) -> str:
    """An effect in words; `earlier`: how often it was there before."""
    what = f"call {effect.number} ({effect.name!r}) is made" if effect.number >= 0 else "it is executed"
    times = f", for the {_nth(earlier + 1)} time" if earlier else ""
    return f"{effect.path}: {what}{times}"


def counted(effects: list[Effect]) -> list[list[object]]:
    """How often each was made, in an order that does not depend on time."""
    made = Counter((e.path, e.number, e.name, sha256(e.request).hexdigest()[:16], e.again) for e in effects)
    return sorted([*effect, times] for effect, times in made.items())


def _nth(times: int) -> str:
    return {2: "second", 3: "third"}.get(times, f"{times}th")
