"""`check_mutation=True`: notice a node that changes its inputs in place, and name node and value.

Values inside a state belong to the user, and Clew does not copy them: a node that edits one changes history. The
check takes a fingerprint of each input before the call and after it: its canonical encoding, or where it has none a
deep copy to compare with. What can be neither encoded nor copied is not checked.
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Sequence
from typing import Any

from clew.engine.strand import Item
from clew.errors import ClewError, MutationError
from clew.state import encode

_UNKNOWN = object()


class Watch:
    """The inputs of one call, as they were before it."""

    def __init__(self, item: Item, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        self._item = item
        positional = [p for p in item.node.params if not p.keyword_only]
        named = [*zip(positional, args, strict=True)]
        named += [(p, kwargs[p.name]) for p in item.node.params if p.keyword_only]
        self._before = [(p.source, value, _fingerprint(value)) for p, value in named if p.kind == "value"]
        if item.node.reads_state:
            seen = item.values()
            self._before += [(name, value, _fingerprint(value)) for name, value in seen.items()]

    def check(self) -> None:
        """Raise MutationError if an input is not what it was."""
        for name, value, before in self._before:
            if before is not _UNKNOWN and _differs(value, before):
                node = self._item.node.name
                raise MutationError(
                    f"node {node!r} at {self._item.path} changed its input {name!r} in place; work on a copy "
                    f"(for a list: [*{name}, more]) and return that"
                )

    async def after(self, awaitable: Awaitable[Any]) -> Any:
        """Await, then check."""
        value = await awaitable
        self.check()
        return value


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
