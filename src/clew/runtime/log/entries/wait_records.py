"""Durable waits and signals: the log entries about nodes that wait.

A wait is identified by the item that waits and by its position: its number among the waits of the item, after the
numbers of the enclosing recorded calls. It is recorded when it begins, with the time when it ends at the latest, and
again when it ends. So a wait that was in progress when a process died ends at its original time.

A run also records the waits of its children. Their paths are those of the item, "!" and the place of the child, and the
path there. A signal is recorded when the run receives it, and dropped when a wait takes it.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

WaitReason = Literal["sleep", "signal", "question", "retry"]
"""What a wait is for: a time, a signal, a person until a time, or (of a child) the next attempt of an item."""

Ending = Literal["over", "signal", "late", "left"]
"""How a wait ended: its time came, a signal came, none came in time, or the node continued without it."""


class WaitRecord(msgspec.Struct, frozen=True):
    """A wait of the item at `path`, or of a child of it."""

    path: str
    n: int  # its number among the waits of the path
    position: str
    reason: WaitReason
    name: str = ""  # of the signal
    seconds: float | None = None  # how long to wait; None: without a limit
    due: float | None = None  # when that is over, in seconds since the epoch
    attempt: int = 0
    epoch: tuple[int, ...] = ()  # the attempts of the enclosing items

    def join(self, log: Any) -> None:
        """Add the wait to a log that is read."""
        log.waits.append(self)

    @property
    def item(self) -> str:
        """The path of the item in its own run."""
        return self.path.partition("!")[0]

    @property
    def wanted(self) -> tuple[WaitReason, str, float | None]:
        """The request: two waits with different requests are different waits."""
        return self.reason, self.name, self.seconds


class WaitEnd(msgspec.Struct, frozen=True):
    """The end of wait `n` of a path."""

    path: str
    n: int
    how: Ending
    value: Any = None  # of the signal
    name: str = ""  # of the signal
    signal: int = 0  # its number
    resumption: int = 0  # how often the run had been resumed after a failure

    def join(self, log: Any) -> None:
        """Add the end to a log that is read."""
        log.wait_ends[self.path, self.n] = self


class SignalRecord(msgspec.Struct, frozen=True):
    """A signal that the run has received and that no wait has taken."""

    name: str
    n: int  # the number of the message
    value: Any = None
    time: float = 0.0  # when it was received, in seconds since the epoch

    def join(self, log: Any) -> None:
        """Add the signal to a log that is read."""
        log.signals[self.name, self.n] = self


def encode_wait(wait: WaitRecord, out: Any) -> tuple[str, int, Any]:
    """Return the path, the number and the body of a wait."""
    body = [wait.position, wait.reason, wait.name, wait.seconds, wait.due, wait.attempt, list(wait.epoch)]
    return wait.path, wait.n, body


def decode_wait(entry: Any, body: Any, into: Any) -> WaitRecord:
    position, reason, name, seconds, due, attempt, epoch = body
    return WaitRecord(entry.path, entry.n, position, reason, name, seconds, due, attempt, tuple(epoch))


def encode_end(end: WaitEnd, out: Any) -> tuple[str, int, Any]:
    """Return the path, the number and the body of the end of a wait."""
    value = out.value(end.value, f"end of the wait at {end.path}")
    return end.path, end.n, [end.how, value, end.name, end.signal, end.resumption]


def decode_end(entry: Any, body: Any, into: Any) -> WaitEnd:
    return WaitEnd(entry.path, entry.n, *body)


def encode_signal(signal: SignalRecord, out: Any) -> tuple[str, int, Any]:
    """Return the name, the number and the body of a signal."""
    return signal.name, signal.n, [out.value(signal.value, f"signal {signal.name!r}"), signal.time]


def decode_signal(entry: Any, body: Any, into: Any) -> SignalRecord:
    return SignalRecord(entry.path, entry.n, *body)


def finish_waits(log: Any) -> None:
    """Remove from a log the signals that were taken (in memory, they stay), and questions without an answer in time."""
    for end in log.wait_ends.values():
        log.signals.pop((end.name, end.signal), None)
    last = {(wait.path, wait.position): wait for wait in log.waits if wait.reason == "question"}
    for (path, position), wait in last.items():
        asked = log.asked.get(path)
        if asked is not None and asked.position == position and (path, wait.n) in log.wait_ends:
            del log.asked[path]


def has_open_waits(log: Any) -> bool:
    """Return whether a wait of a log has no end yet. A question that was answered has ended."""
    return any(
        (wait.path, wait.n) not in log.wait_ends and wait.position not in log.answers.get(wait.path, ())
        for wait in log.waits
    )
