"""Grants: which start of a task is valid, and which frames are. Pure: no clock, no I/O, no locks.

A call is one attempt of a node in the cluster. It is `queued` until a worker asks for the start, then `granted` to the
link of that worker, and `over` when it has ended, was cancelled, or has lost too many workers. Rules:

- A call has one token at a time. Each token is granted at most once, and only while its call is queued.
- A frame is valid if its token is the current one, and its call is granted to the link on which it arrives.
- A call whose worker is lost is queued again, with a new token. The old token is never accepted again.
- Each call has exactly one valid end.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, Literal, TypeVar

import msgspec

LinkT = TypeVar("LinkT", bound=Hashable)
Loss = Literal["ignored", "again", "failed"]
"""A lost worker: of a call that is over; the call is to be submitted again; it has lost too many."""


class GrantedCall(msgspec.Struct, Generic[LinkT], eq=False):
    """The state of one call."""

    token: str
    state: Literal["queued", "granted", "over"] = "queued"
    link: LinkT | None = None
    grants: int = 0
    losses: int = 0


class Grants(Generic[LinkT]):
    """The calls of one driver, by their current tokens."""

    def __init__(self, new_token: Callable[[], str], lost_workers: int) -> None:
        self._new_token = new_token
        self._lost_workers = lost_workers
        self._calls: dict[str, GrantedCall[LinkT]] = {}

    def submit(self) -> GrantedCall[LinkT]:
        """Return a new call, which is queued."""
        call: GrantedCall[LinkT] = GrantedCall(self._new_token())
        self._calls[call.token] = call
        return call

    def find(self, token: str) -> GrantedCall[LinkT] | None:
        """Return the call whose current token this is."""
        return self._calls.get(token)

    def begin(self, token: str, link: LinkT) -> GrantedCall[LinkT] | None:
        """Grant the start of a task; return None if it is refused."""
        call = self._calls.get(token)
        if call is None or call.state != "queued":
            return None
        call.state, call.link = "granted", link
        call.grants += 1
        return call

    def accept(self, token: str, link: LinkT) -> GrantedCall[LinkT] | None:
        """Return the call of a frame; None if the frame is rejected."""
        call = self._calls.get(token)
        return call if call is not None and call.state == "granted" and call.link == link else None

    def end(self, call: GrantedCall[LinkT]) -> bool:
        """End a call; return False if it was over."""
        if call.state == "over":
            return False
        call.state, call.link = "over", None
        self._calls.pop(call.token, None)
        return True

    def lose(self, call: GrantedCall[LinkT], token: str) -> Loss:
        """Handle the loss of the task with this token: replace the token, or end the call."""
        if call.state == "over" or call.token != token:
            return "ignored"
        call.losses += 1
        if call.losses > self._lost_workers:
            self.end(call)
            return "failed"
        self._calls.pop(call.token)
        call.token, call.state, call.link = self._new_token(), "queued", None
        self._calls[call.token] = call
        return "again"

    def held_by(self, link: LinkT) -> list[GrantedCall[LinkT]]:
        """Return the calls that are granted to a link."""
        return [call for call in self._calls.values() if call.link == link]
