"""Named points at which a test may have the process die, as `kill -9` would: between any two things that a run does.

``CLEW_CRASH="before-append:3"`` has the process kill itself when it comes to `before-append` for the third time. A
program that survives every count of every point, resumed each time until it is done, survives a crash anywhere::

    for point in crash_points.POINTS:
        for count in range(1, 100):
            subprocess.run([...], env={**os.environ, "CLEW_CRASH": f"{point}:{count}"})

A process that was forked from one that has this module says `arm` itself. Unarmed, a point costs one look at a global.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

from clew.errors import DefinitionError

POINTS: Final = (
    "before-create",  # a new run, which is this process's
    "after-create",
    "before-claim",  # a run that was there becomes this process's
    "after-claim",
    "before-append",  # steps, journaled outcomes, calls, retries, questions, answers, labels
    "after-append",
    "before-snapshot",
    "after-snapshot",
    "before-call",  # of ctx.record
    "after-call",  # it has returned or raised, and nothing is journaled
    "after-journal",
    "before-update",  # the run's status and, at the end, that it is nobody's
    "after-update",
)
"""All points, in the order in which a run comes to them."""

_on_reach: Callable[[str], None] | None = None


def reach(name: str) -> None:
    """The process has come to a point."""
    if _on_reach is not None:
        _on_reach(name)


def watch(on_reach: Callable[[str], None] | None) -> None:
    """Have a function called with the name of each point that is reached; None to stop."""
    global _on_reach
    _on_reach = on_reach


def arm(what: str) -> None:
    """Have this process kill itself: ``arm("before-append:3")`` at the third time that this point is reached."""
    name, _, count = what.partition(":")
    if name not in POINTS or not (count or "1").isdecimal():
        raise DefinitionError(
            f"CLEW_CRASH is 'POINT:COUNT', not {what!r}; the points are {', '.join(POINTS)}"
        )
    left = int(count or 1)

    def count_down(reached: str) -> None:
        nonlocal left
        if reached == name:
            left -= 1
            if not left:
                import signal

                os.kill(os.getpid(), signal.SIGKILL)

    watch(count_down)


if os.environ.get("CLEW_CRASH"):
    arm(os.environ["CLEW_CRASH"])
