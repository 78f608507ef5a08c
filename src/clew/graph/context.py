"""Context: what a node may ask of the run that it is part of.

A node that annotates a parameter ``Context`` is given one. Whatever comes out of it (time, random numbers,
ids, answers, recorded calls) is kept with the run, so a replay sees the same. This module is the surface
alone, for annotations and for fakes in tests; the runtime implements it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar

if TYPE_CHECKING:
    from random import Random
    from uuid import UUID

P = ParamSpec("P")
T = TypeVar("T")


class Transaction(Protocol):
    """Takes writes in the SQL of the store's database; they are executed when the node has returned."""

    def execute(self, sql: str, values: Sequence[Any] | Mapping[str, Any] = ..., /) -> None:
        """Execute a statement."""

    def executemany(self, sql: str, values: Sequence[Any], /) -> None:
        """Execute a statement once for each of `values`."""


class Context(Protocol):
    """The run as one work item sees it."""

    @property
    def run_id(self) -> str:
        """The run's id."""

    @property
    def step_id(self) -> int:
        """The step that this item belongs to."""

    @property
    def path(self) -> str:
        """The item's identity in the run, whatever the timing: ``scan#1[3]``."""

    @property
    def attempt(self) -> int:
        """0 for the first execution, 1 and up for retries."""

    @property
    def idempotency_key(self) -> str:
        """A key for calls to the outside world; the same over all attempts."""

    @property
    def cancelled(self) -> bool:
        """Whether the run was cancelled, or this item's time is over: a long loop looks now and then."""

    @property
    def random(self) -> Random:
        """A random stream of this item alone, seeded from the run's seed, path and attempt."""

    def now(self) -> datetime:
        """The time, in UTC; a replay is told the recorded one."""

    def uuid4(self) -> UUID:
        """A random UUID from the item's own stream."""

    def sleep(self, seconds: float) -> Awaitable[None]:
        """Wait. An async node awaits it; in a sync node the call itself waits. A replay does not."""

    def emit(self, name: str, data: Any = None) -> None:
        """Put an event of the node's own into the run's stream."""

    def interrupt(self, question: Any) -> Any:
        """Ask somebody; the run pauses, and the answer is returned when it goes on."""

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Writes to the store's own database that are committed together with what this node returns, or not at all."""

    def record(self, name: str, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call ``fn`` and journal request and response; resume and replay return the recording.

        For an async function this returns an awaitable, as the function does.
        """
