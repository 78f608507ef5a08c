"""Aimed interrupts: KeyboardInterrupt at the n-th line that the library executes, or a cancellation at the n-th wait.

A tracer counts the lines of the library's own modules, and of ``contextlib``, on one thread. A signal arrives at an
instruction, of which a line has several; what matters is what has been acquired and not yet registered, and that is a
matter of lines. Left out are lines at which the interpreter handles no signal, though a tracer would raise there: that
of a ``with`` statement between the end of its block and the call of ``__exit__``, and ``try:`` itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import dis
import sys
from collections.abc import Callable, Coroutine, Generator
from functools import cache
from pathlib import Path
from threading import Thread
from types import CodeType, FrameType
from typing import Any

import clew

_OURS = (str(Path(clew.__file__).parent), contextlib.__file__)


@cache
def _uninterrupted(code: CodeType) -> frozenset[int]:
    """Where a ``with`` statement begins to call ``__exit__``, and lines that do nothing, such as ``try:``."""
    found = set()
    steps = [step for step in dis.get_instructions(code) if step.opname != "PRECALL"]
    for before, first, second, third, call in zip(steps, steps[1:], steps[2:], steps[3:], steps[4:]):
        loads = [first, second, third]
        if all(s.opname == "LOAD_CONST" and s.argval is None for s in loads) and call.opname == "CALL":
            found.add(first.offset)
            if before.opname == "SWAP":  # a block that returns a value
                found.add(before.offset)
    found.update(s.offset for s in steps if s.opname in ("PUSH_EXC_INFO", "WITH_EXCEPT_START", "NOP"))
    return frozenset(found)


_functions: list[Any] = []


class Aim:
    """One interrupt, at the n-th line from now on. `has_hit` says whether there were that many."""

    def __init__(self, n: int) -> None:
        self._left = n
        self.has_hit = False
        self.where = ""
        # The interpreter may use a trace function once more after it has raised, and holds no reference to it by then.
        _functions.extend((self._enter, self._count))
        self._tracer, self._counter = _functions[-2:]

    def __enter__(self) -> Aim:
        sys.settrace(self._tracer)
        return self

    def __exit__(self, *exc: object) -> None:
        sys.settrace(None)

    def _enter(self, frame: FrameType, event: str, arg: Any) -> Any:
        return self._counter if frame.f_code.co_filename.startswith(_OURS) else None

    def _count(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "line" and not self.has_hit and frame.f_lasti not in _uninterrupted(frame.f_code):
            self._left -= 1
            if self._left <= 0:
                self.has_hit = True
                self.where = f"{frame.f_code.co_filename}:{frame.f_lineno}"
                raise KeyboardInterrupt
        return self._counter


def interrupt(n: int, verb: Callable[[], Any]) -> Aim:
    """Call a verb, and interrupt it at the n-th line.

    It has a thread of its own. What it leaves locked is locked for the others then; and the interpreter's count of
    nested calls, which is off after an exception from a tracer, ends with the thread.
    """
    aim = Aim(n)
    failures: list[BaseException] = []

    def call() -> None:
        try:
            with aim:
                verb()
        except KeyboardInterrupt:
            pass
        except BaseException as error:
            failures.append(error)

    thread = Thread(target=call)
    thread.start()
    thread.join()
    if failures:
        raise failures[0]
    return aim


class _Counted:
    """Awaits a coroutine, and cancels the task that does so when it waits for the n-th time."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], n: int) -> None:
        self._coroutine = coroutine
        self._left = n
        self.has_hit = False

    def __await__(self) -> Generator[Any, Any, Any]:
        inner = self._coroutine.__await__()
        answer: Any = None
        error: BaseException | None = None
        while True:
            try:
                waits_for = inner.send(answer) if error is None else inner.throw(error)
            except StopIteration as stop:
                return stop.value
            self._left -= 1
            if self._left == 0:
                self.has_hit = True
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
            answer, error = None, None
            try:
                answer = yield waits_for
            except BaseException as raised:
                error = raised


def cancel(n: int, verb: Callable[[], Coroutine[Any, Any, Any]]) -> bool:
    """Run an async verb in a loop of its own, and cancel its task when it waits for the n-th time; 0 is before it
    has begun. False if it did not wait that often."""
    if n == 0:
        return _cancel_before(verb)

    async def main() -> bool:
        counted = _Counted(verb(), n)

        async def work() -> None:
            await counted

        task = asyncio.ensure_future(work())
        await asyncio.wait([task])
        if not task.cancelled():
            task.result()
        return counted.has_hit

    return asyncio.run(main())


def _cancel_before(verb: Callable[[], Coroutine[Any, Any, Any]]) -> bool:
    async def main() -> bool:
        async def work() -> None:
            await verb()

        task = asyncio.ensure_future(work())
        task.cancel()
        await asyncio.wait([task])
        return True

    return asyncio.run(main())
