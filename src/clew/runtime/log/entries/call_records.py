"""Recorded calls and call intents: the log entries about calls of nodes.

A call is identified by the item that makes it, the item's epoch and attempt, and its place: its number among the calls
of the item, after the numbers of the enclosing recorded calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from typing import Any

import msgspec

from clew.state import encode, stored_value

Place = tuple[int, ...]
"""The numbers of the enclosing calls, from the outermost, and the number of the call."""


WHOLE = -1
"""The number that stands for a whole node instead of one of its calls."""


class CallIntent(msgspec.Struct, frozen=True):
    """A call or node that is about to run; if it is settled, it ended without a result."""

    path: str
    attempt: int
    number: int
    name: str
    epoch: tuple[int, ...] = ()
    n: int = 0
    is_settled: bool = False
    within: tuple[int, ...] = ()  # the numbers of the enclosing calls

    @property
    def place(self) -> Place:
        """The numbers of the enclosing calls, and its own."""
        return (*self.within, self.number)


Request = tuple[tuple[Any, ...], Mapping[str, Any]]


class RecordedCall(msgspec.Struct, frozen=True):
    """A recorded call, identified by path, epoch, attempt, place and name."""

    path: str
    attempt: int
    number: int
    name: str
    request: Request
    response: Any
    error: BaseException | None
    timestamp: float
    duration: float
    awaited: bool = False  # the function returned an awaitable
    epoch: tuple[int, ...] = ()  # the attempts of the enclosing items
    resumption: int = 0  # how often the run had been resumed after a failure
    n: int = 0  # its number among all recordings of the path, in the order of writing
    within: tuple[int, ...] = ()  # the numbers of the enclosing calls, from the outermost

    @property
    def place(self) -> Place:
        """The numbers of the enclosing calls, and its own."""
        return (*self.within, self.number)

    @property
    def node_id(self) -> str:
        """The node that made the call."""
        return self.path.rpartition("/")[2].partition("#")[0]

    @property
    def hash(self) -> str:
        """SHA-256 of the response in canonical encoding; of None if the call raised."""
        return f"sha256:{sha256(encode(self.response, at='response')).hexdigest()}"


Recall = Callable[[str], Iterable[RecordedCall | CallIntent]]
"""A function that returns the recordings of an item, given its path."""


def digest_of_values(values: Mapping[str, Any]) -> str:
    """Return a digest of the values of a child. Raise EncodeError if one cannot be stored."""
    blobs: dict[str, bytes] = {}
    stored = stored_value({name: values[name] for name in sorted(values)}, at="values", blobs=blobs)
    return f"sha256:{sha256(stored).hexdigest()}"
