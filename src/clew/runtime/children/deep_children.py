"""Deeply nested children: Python limits how deep the calls of a thread or a task may be nested.

A child works in the caller's thread or task, and nests about twenty calls there. So every sixteenth level starts in a
new thread or task, which the level above waits for. An interrupt of the caller stops the child and waits for its end. A
replay nests its calls in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextvars import copy_context
from threading import Thread
from typing import Any, TypeVar

from clew.held_interrupts import start_thread
from clew.runtime.drivers.session import Session

T = TypeVar("T")

_LEVELS = 16


def is_deep(level: int) -> bool:
    """Return whether a child at this level starts in a new thread or task."""
    return level % _LEVELS == 0


def level_of_children(session: Session) -> int:
    """Return the level of the children of a session: 1 in a run that is not a child."""
    level, outer = 1, session.outer
    while outer is not None:
        level, outer = level + 1, outer.outer
    return level


def on_thread(work: Callable[[], T], stop: Callable[[], Any]) -> T:
    """Do work on a thread, with a copy of the caller's context. An interrupt of the caller calls `stop`."""
    results: list[T] = []
    errors: list[BaseException] = []

    def do() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    thread = Thread(target=copy_context().run, args=(do,), name="clew-child", daemon=True)
    try:
        start_thread(thread)
        thread.join()
    except BaseException:
        stop()
        if thread.is_alive():
            thread.join()
        raise
    if errors:
        raise errors[0]
    return results[0]


async def in_task(work: Coroutine[Any, Any, T]) -> T:
    """Do work in a task; a cancellation of the caller cancels it."""
    from asyncio import create_task

    return await create_task(work)
