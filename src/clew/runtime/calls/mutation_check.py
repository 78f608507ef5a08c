"""Notice a node that changes its inputs in place: `MutationError` names node and value.

Values inside a state belong to the user, and Clew does not copy them: a node that edits one changes history. Two
checks compare the inputs before a call with the inputs after it, whether it returned, asked or raised:

- The guard is always on. It compares the length of every list, dict and set (and of their subclasses) that is an
  input itself: O(1) for each input. Of a whole state it looks at the first 64 fields.
- `check_mutation=True` compares contents as well: the canonical encoding or, where a value has none, a deep copy. A
  value that can be neither encoded nor copied is left to the guard.

Inputs are values from the state or the payload of a Send. Bound values and defaults are no part of a state, so nobody
watches them. The checks hold the inputs only while the call runs: a list that only the state holds can then grow in
place. A call that is cancelled, or that takes too long, has no end at which to look.
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Iterable, Sequence
from inspect import isawaitable
from typing import Any

from clew.engine.fast_path import UNSIZED, Sizes, size_of, sizes_of
from clew.engine.frame import Item
from clew.errors import ClewError, MutationError
from clew.runtime.calls.scopes import Asking
from clew.state import encode

_UNKNOWN = object()

Input = tuple[str, Any]
"""The name and value of an input from state or payload."""


class Guard:
    """The lengths of the containers among a call's inputs, before the call."""

    __slots__ = ("_item", "sizes")

    def __init__(self, item: Item, inputs: Iterable[Input]) -> None:
        self._item = item
        self.sizes = [
            (name, value, size)
            for name, value in inputs
            if type(value) not in UNSIZED and (size := size_of(value)) >= 0
        ]

    def check(self, raised: BaseException | None = None) -> None:
        """Raise MutationError if an input has another length than before."""
        for name, value, size in self.sizes:
            if size_of(value) != size:
                raise _told(self._item, name, value, size) from raised

    def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a function that is done when it returns, then check."""
        try:
            value = function(*args, **kwargs)
        except (Exception, Asking) as error:
            self.check(error)
            raise
        self.check()
        return value

    def start(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call an async function; what it returns checks when it was awaited."""
        try:
            value = function(*args, **kwargs)
        except (Exception, Asking) as error:
            self.check(error)
            raise
        if isawaitable(value):
            return self.wait(value)
        self.check()  # a wrapper of an async function may have an answer of its own
        return value

    async def wait(self, awaitable: Awaitable[Any]) -> Any:
        """Await, then check."""
        try:
            value = await awaitable
        except (Exception, Asking) as error:
            self.check(error)
            raise
        self.check()
        return value


class InputGuard(Guard):
    """The contents of a call's inputs, before the call."""

    __slots__ = ("_before",)

    def __init__(self, item: Item, inputs: Iterable[Input]) -> None:
        inputs = list(inputs)
        super().__init__(item, inputs)
        self._before = [(name, value, _fingerprint(value)) for name, value in inputs]

    def check(self, raised: BaseException | None = None) -> None:
        """Raise MutationError if an input is not what it was."""
        super().check(raised)
        for name, value, before in self._before:
            if before is not _UNKNOWN and _differs(value, before):
                raise _told(self._item, name, value) from raised


def guard_of(item: Item, inputs: Iterable[Input]) -> Guard | None:
    """The guard of a call; None if no input has a length to watch."""
    guard = Guard(item, inputs)
    return guard if guard.sizes else None


def changed(item: Item, args: Sequence[Any], sizes: Sizes) -> MutationError:
    """Say which argument of a plain call has another length than before; one of them has."""
    for param, value, size in zip(item.node.params, args, _each(sizes), strict=True):
        if size_of(value) != size:
            return _told(item, param.source, value, size)
    raise AssertionError("no argument has changed")


def judged(item: Item, args: tuple[Any, ...], sizes: Sizes, error: BaseException) -> BaseException:
    """What a plain call that raised has failed with: MutationError if it changed an argument, else its own error."""
    if sizes is None or sizes_of(args) == sizes or not isinstance(error, (Exception, Asking)):
        return error
    found = changed(item, args, sizes)
    found.__cause__ = error
    return found


def _each(sizes: Sizes) -> tuple[int, ...]:
    return sizes if isinstance(sizes, tuple) else () if sizes is None else (sizes,)


def _told(item: Item, name: str, value: Any, size: int | None = None) -> MutationError:
    """Say that an input changed while a node ran; a node that ran beside it may have changed it."""
    how = "" if size is None else f" (length {size} before, {size_of(value)} after)"
    return MutationError(
        f"input {name!r} changed while node {item.node.name!r} ran at {item.path}{how}; return a new value instead "
        f"(for a list: [*{name}, more]), or work on a copy"
    )


def _fingerprint(value: Any) -> Any:
    try:
        return encode(value)
    except ClewError:
        pass
    try:
        copied = copy.deepcopy(value)
        return (copied,) if bool(copied == value) else _UNKNOWN  # a class without equality says nothing
    except Exception:
        return _UNKNOWN


def _differs(value: Any, before: Any) -> bool:
    if isinstance(before, bytes):
        try:
            return encode(value) != before
        except ClewError:
            return True
    try:
        return not bool(before[0] == value)
    except Exception:
        return False
