"""Crash points: named places at which a test can kill the process, as `kill -9` would.

With ``CLEW_CRASH="before-append:3"``, the process kills itself when it reaches `before-append` for the third time. To
show that a program survives a crash anywhere, crash it at every count of every point and resume it::

    for point in crash_points.POINTS:
        for count in range(1, 100):
            subprocess.run([...], env={**os.environ, "CLEW_CRASH": f"{point}:{count}"})

A forked process does not read ``CLEW_CRASH`` again; it calls `arm` itself. An unarmed point costs one global lookup.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

from clew.errors import DefinitionError

POINTS: Final = (
    "before-create",  # a new run, owned by this process
    "after-create",
    "before-claim",  # this process becomes the owner of an existing run
    "after-claim",
    "before-append",  # steps, finished items, calls, retries, questions, answers, labels
    "after-append",
    "before-snapshot",
    "after-snapshot",
    "before-call",  # made by ctx.record
    "after-call",  # it returned or raised, and is not recorded yet
    "after-journal",
    "before-update",  # the status of the run and, at its end, the release
    "after-update",
)
"""All points, in the order in which a run reaches them."""

is_watched = False
"""Whether `reach` does anything. A step tests this first, because two calls of `reach` take a hundredth of its time."""

_on_reach: Callable[[str], None] | None = None


def reach(name: str) -> None:
    """Report that the process has reached a point."""
    if _on_reach is not None:
        _on_reach(name)


def watch(on_reach: Callable[[str], None] | None) -> None:
    """Call `on_reach` with the name of each point that is reached; None stops that."""
    global _on_reach, is_watched
    _on_reach, is_watched = on_reach, on_reach is not None


def arm(setting: str) -> None:
    """Kill this process when it reaches a point: ``arm("before-append:3")`` at the third time."""
    name, _, count = setting.partition(":")
    if name not in POINTS or not (count or "1").isdecimal():
        raise DefinitionError(
            f"CLEW_CRASH must be 'POINT:COUNT', got {setting!r}; the points are {', '.join(POINTS)}"
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
