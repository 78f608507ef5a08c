"""Detect nodes that change their inputs in place; raise `MutationError` with the node and the value.

Clew does not copy the values in a state, so a node that edits one changes the recorded past. Two checks compare the
inputs before a call with the inputs after it, also if the call raised or asked a question:

- The guard is always on. It compares the length of every input that is a list, dict or set, or a subclass: O(1) for
  each input. For a whole state it checks the first 64 fields.
- `check_mutation=True` also compares contents, by canonical encoding or else with a deep copy. Values that can be
  neither encoded nor copied are checked only by the guard.

Inputs are values from the state or from the payload of a Send. Bound values and defaults are not checked, because they
are not part of a state. The checks hold references only while the call runs, so that a list that only the state
references can grow in place. Calls that are cancelled or time out are not checked.
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
from clew.state import fingerprint

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
        """Raise MutationError if the length of an input has changed."""
        for name, value, size in self.sizes:
            if size_of(value) != size:
                raise _mutation_error(self._item, name, value, size) from raised

    def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a sync function, then check."""
        try:
            value = function(*args, **kwargs)
        except (Exception, Asking) as error:
            self.check(error)
            raise
        self.check()
        return value

    def start(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call an async function; the awaitable that is returned checks at its end."""
        try:
            value = function(*args, **kwargs)
        except (Exception, Asking) as error:
            self.check(error)
            raise
        if isawaitable(value):
            return self.wait(value)
        self.check()  # a wrapper of an async function may return a plain value
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
        """Raise MutationError if the content of an input has changed."""
        super().check(raised)
        for name, value, before in self._before:
            if before is not _UNKNOWN and _differs(value, before):
                raise _mutation_error(self._item, name, value) from raised


def guard_of(item: Item, inputs: Iterable[Input]) -> Guard | None:
    """Return the guard of a call; None if no input has a length."""
    guard = Guard(item, inputs)
    return guard if guard.sizes else None


def changed(item: Item, args: Sequence[Any], sizes: Sizes) -> MutationError:
    """Return the error for the argument of a fast-path call whose length has changed."""
    for param, value, size in zip(item.node.params, args, _each(sizes), strict=True):
        if size_of(value) != size:
            return _mutation_error(item, param.source, value, size)
    raise AssertionError("no argument has changed")


def error_of(item: Item, args: tuple[Any, ...], sizes: Sizes, error: BaseException) -> BaseException:
    """Return the error of a fast-path call that raised: MutationError if it changed an argument, else its own."""
    if sizes is None or sizes_of(args) == sizes or not isinstance(error, (Exception, Asking)):
        return error
    found = changed(item, args, sizes)
    found.__cause__ = error
    return found


def _each(sizes: Sizes) -> tuple[int, ...]:
    return sizes if isinstance(sizes, tuple) else () if sizes is None else (sizes,)


def _mutation_error(item: Item, name: str, value: Any, size: int | None = None) -> MutationError:
    """Return the error for a changed input. A node that ran concurrently may have changed it."""
    how = "" if size is None else f" (length {size} before, {size_of(value)} after)"
    advice = (
        "return only the new items, which its reducer adds"
        if item.is_reduced(name)
        else f"return a new value instead (for a list: [*{name}, more])"
    )
    return MutationError(
        f"input {name!r} changed while node {item.node.name!r} ran at {item.path}{how}; {advice}, or work on a copy"
    )


def _fingerprint(value: Any) -> Any:
    try:
        return fingerprint(value)
    except ClewError:
        pass
    try:
        copied = copy.deepcopy(value)
        return (copied,) if bool(copied == value) else _UNKNOWN  # equality by identity cannot be used
    except Exception:
        return _UNKNOWN


def _differs(value: Any, before: Any) -> bool:
    if isinstance(before, bytes):
        try:
            return fingerprint(value) != before
        except ClewError:
            return True
    try:
        return not bool(before[0] == value)
    except Exception:
        return False
