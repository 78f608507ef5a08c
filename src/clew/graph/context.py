"""The protocol `Context`: the interface between a node and its run.

A node receives a context in a parameter annotated ``Context``. Everything that a context returns (time, random numbers,
ids, answers, recorded calls) is stored with the run, so a replay returns the same. This module has only the interface,
for annotations and for fakes in tests; the runtime implements it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar

if TYPE_CHECKING:
    from random import Random
    from uuid import UUID

    from clew.graph.graph import Graph

P = ParamSpec("P")
T = TypeVar("T")


class Transaction(Protocol):
    """Collects SQL statements for the store's database; they are executed after the node has returned."""

    def execute(self, sql: str, values: Sequence[Any] | Mapping[str, Any] = ..., /) -> None:
        """Execute a statement."""

    def executemany(self, sql: str, values: Sequence[Any], /) -> None:
        """Execute a statement once for each of `values`."""


class Context(Protocol):
    """The interface of a run for one work item."""

    @property
    def run_id(self) -> str:
        """The run's id."""

    @property
    def step_id(self) -> int:
        """The step that this item belongs to."""

    @property
    def path(self) -> str:
        """The item's identity in the run: ``scan#1[3]``. It does not depend on timing."""

    @property
    def attempt(self) -> int:
        """0 for the first execution, 1 and up for retries."""

    @property
    def idempotency_key(self) -> str:
        """A key for external calls; the same in all attempts."""

    @property
    def cancelled(self) -> bool:
        """Whether the run was cancelled or this item has timed out. Check it in long loops.

        Once it was True, what the node returns or raises is discarded, and a resumed run calls the node again.
        """

    @property
    def random(self) -> Random:
        """A random stream for this item, seeded from the run's seed, the path and the attempt."""

    def now(self) -> datetime:
        """Return the time in UTC; in a replay, the recorded time."""

    def uuid4(self) -> UUID:
        """Return a random UUID from the item's random stream."""

    def sleep(self, seconds: float) -> Awaitable[None]:
        """Sleep. An async node awaits the result; in a sync node the call blocks. A replay does not sleep."""

    def emit(self, name: str, data: Any = None) -> None:
        """Emit a custom event into the run's event stream."""

    def interrupt(self, question: Any) -> Any:
        """Ask a question and return the answer; the run pauses until it is resumed with one."""

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Open a transaction on the store's database that commits together with the output of this node."""

    def run(self, graph: Graph, values: Any = None, *, key: str | None = None) -> Any:
        """Run a graph as a child of this run, and return its `RunResult`; an async node awaits it.

        The child has its own chain in the same store. After a crash, the result of a finished child is used, and an
        unfinished child is resumed. Its questions are questions of this run, and its failure is raised here.
        A cancellation of this run leaves the node by an exception that is not an `Exception`.
        """

    def record(self, name: str, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call ``fn`` and record the request and the response; resume and replay return the recorded response.

        For an async function this returns an awaitable.
        """
