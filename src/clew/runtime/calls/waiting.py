"""Durable waits as nodes see them: what they ask for, and the exception that unwinds them.

A node that waits is unwound, like one that asks a question, and starts over in the same attempt when the wait ends. Its
recorded calls and earlier waits are then answered from the log. So a wait uses neither a thread nor a slot, and no
timeout includes it. Sleeps of up to `LONGEST_SLEEP` seconds do not unwind the node, because that would cost more.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any

import msgspec

from clew.engine.frame import Item
from clew.errors import WaitTimeoutError
from clew.runtime.calls.scopes import Asking
from clew.runtime.log.entries.wait_records import WaitEnd, WaitReason

LONGEST_SLEEP = 5.0
"""Seconds: a longer `ctx.sleep` is a durable wait."""


_LONGEST_NAME = 200

NOTHING: Any = msgspec.UNSET
"""Stands for the default of a question that has none."""


class WaitRequest(msgspec.Struct, frozen=True):
    """What a node waits for, and where."""

    reason: WaitReason
    position: str
    name: str = ""
    seconds: float | None = None
    default: Any = NOTHING  # the answer to a question that gets none in time

    @property
    def wanted(self) -> tuple[WaitReason, str, float | None]:
        """What distinguishes two requests at one position."""
        return self.reason, self.name, self.seconds


class Waiting(Asking):
    """Unwinds a node that waits. The session knows what for; `others` are questions of children."""

    def __init__(self) -> None:
        super().__init__(None)

    @property
    def questions(self) -> Sequence[tuple[Any, str, str]]:
        """The questions of children, which the node asks while it waits."""
        return tuple(self.others)


def checked_seconds(seconds: Any, method: str, *, what: str = "seconds") -> float:
    """Return a number of seconds. Raise ValueError if it is negative or not finite."""
    if (
        isinstance(seconds, bool)
        or not isinstance(seconds, (int, float))
        or not isfinite(seconds)
        or seconds < 0
    ):
        raise ValueError(f"ctx.{method} expects {what} as a finite number >= 0, got {seconds!r}")
    return seconds


def is_long(seconds: float) -> bool:
    """Return whether a run is released for a wait of this duration."""
    return seconds > LONGEST_SLEEP


def outcome_of(request: WaitRequest, end: WaitEnd, item: Item) -> Any:
    """Return the value of a wait that has ended, or raise WaitTimeoutError in the node."""
    if end.how != "late":
        return end.value
    if request.default is not NOTHING:
        return request.default
    for_what = f"signal {request.name!r}" if request.reason == "signal" else "an answer"
    raise WaitTimeoutError(
        f"node {item.node.name!r} at {item.path} waited {request.seconds:g} s for {for_what}, but none arrived"
    )


def check_signal_name(name: Any, method: str) -> None:
    """Raise ValueError if a signal cannot have this name."""
    if type(name) is not str or not name or "\0" in name or len(name) > _LONGEST_NAME:
        raise ValueError(
            f"{method} expects the name of a signal (a str of 1 to {_LONGEST_NAME} characters), got {name!r}"
        )
