"""Recorded calls and call intents: what the log keeps of the calls that nodes make.

A call is identified by the item that makes it, the item's epoch and attempt, and its place: its number among the
calls of the item, after the numbers of the recorded calls around it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from typing import Any

import msgspec

from clew.state import encode

Place = tuple[int, ...]
"""The numbers of the calls around a call, from the outermost, and its own."""


WHOLE = -1
"""Stands for the number of a call where the whole node is meant."""


class CallIntent(msgspec.Struct, frozen=True):
    """A call is about to be made; or, if it is settled, it or an attempt of a whole node ended without a result."""

    path: str
    attempt: int
    number: int
    name: str
    epoch: tuple[int, ...] = ()
    n: int = 0
    is_settled: bool = False
    within: tuple[int, ...] = ()  # the numbers of the calls in which it is made

    @property
    def place(self) -> Place:
        """Its number, after those of the calls around it."""
        return (*self.within, self.number)


Request = tuple[tuple[Any, ...], Mapping[str, Any]]


class RecordedCall(msgspec.Struct, frozen=True):
    """One call: the specification's RecordedIO, keyed by path, epoch, attempt, place and name."""

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
    epoch: tuple[int, ...] = ()  # the attempts of the items around it
    resumption: int = 0  # how often the run had failed and been gone on with
    n: int = 0  # its place among all recordings of the path, in the order in which they came
    within: tuple[int, ...] = ()  # the numbers of the calls in which it was made, from the outermost

    @property
    def place(self) -> Place:
        """Its number, after those of the calls around it."""
        return (*self.within, self.number)

    @property
    def node_id(self) -> str:
        """The node that made the call."""
        return self.path.rpartition("/")[2].partition("#")[0]

    @property
    def hash(self) -> str:
        """SHA-256 of the response, by its canonical encoding; that of None for a call that raised."""
        return f"sha256:{sha256(encode(self.response, at='response')).hexdigest()}"


Recall = Callable[[str], Iterable[RecordedCall | CallIntent]]
"""What was recorded of an item, by its path."""
