"""The frames between a driver and the bodies of its nodes. Values in them are pickled, and follow the frame.

`token` names a task. `n` numbers the requests of a worker, and its answers.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Method = Literal["record", "sleep", "wait", "ask", "run", "transact", "key", "now"]
How = Literal["value", "error", "unwind"]
"""What follows a frame: a value, an exception, or the reason why a node is unwound."""


class _Frame(msgspec.Struct, frozen=True, array_like=True):
    """A frame; its class is the first element."""


class Ready(_Frame, frozen=True, tag=1):
    """A worker process waits for a task."""


class Begin(_Frame, frozen=True, tag=2):
    """May the body of a task start? Answered by a grant."""

    token: str
    n: int


class BodyRequest(_Frame, frozen=True, tag=3):
    """A body uses its context, and waits for a reply."""

    token: str
    n: int
    method: Method


class Made(_Frame, frozen=True, tag=4):
    """The result of a recorded call that the driver said to make; it waits for a reply to request `n`."""

    token: str
    n: int
    how: How
    awaited: bool = False
    reports: bytes = b""  # of observers


class BodyEvent(_Frame, frozen=True, tag=5):
    """A body emits data, or yields a chunk; needs no reply."""

    token: str
    kind: Literal["emitted", "chunk"]


class End(_Frame, frozen=True, tag=6):
    """The end of a body, with its value, its exception or its question."""

    token: str
    how: How
    reports: bytes = b""  # of observers


class Ping(_Frame, frozen=True, tag=7):
    """The worker is alive. The driver sends it back."""


class Grant(_Frame, frozen=True, tag=8):
    """The answer to `Begin`: start now. What the context needs follows."""

    n: int


class DriverReply(_Frame, frozen=True, tag=9):
    """The answer to a request: what follows it, to make the recorded call, that it was logged, or that it is over."""

    n: int
    how: Literal["value", "error", "unwind", "make", "kept", "over"]
    awaited: bool = False


class Cancel(_Frame, frozen=True, tag=10):
    """The attempt of a task is over: unwind its body."""

    token: str


class Task(_Frame, frozen=True, tag=11):
    """A task for a worker process that has no cluster to get it from."""

    token: str


Frame = Ready | Begin | BodyRequest | Made | BodyEvent | End | Ping | Grant | DriverReply | Cancel | Task

encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(Frame).decode
